"""Reading requests from the records on the topic: who asks, and the object that is asked with."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import field
from typing import Any

import orjson

from pipeline.values import statically_frozen
from streams.kafka.records import Headers
from streams.wire.cloud_events import HEADER_EXPIRY_TIME, HEADER_ID, Attribute, attribute
from streams.wire.requests import FieldProblem, RequestInvalid, shown

MAX_DIGITS = 4_000

LARGE_BYTES = 65_536
"""A value that is larger may hold millions of lists."""


class RequestUnreadable(Exception):
    """No request id can be read from a record: there is nobody to answer."""


@statically_frozen(frozen=True, slots=True, kw_only=True)
class DecodedRequest:
    """A record from which a request id could be read.

    Attributes:
        request_id: Whom to answer.
        body: The object, not validated; what headers stand in for is in it.
        flaw: Why the value is JSON for lenient parsers only, `None` where it is JSON.
        origins: The header that each field came from which is not the value's own.
        problems: What is wrong with those headers.
    """

    request_id: str
    body: dict[str, Any]
    flaw: str | None
    origins: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[FieldProblem, ...] = ()


def decode_request(value: bytes | None, headers: Headers = ()) -> DecodedRequest:
    """Read a record as a JSON object with a request id.

    The headers `ce_id` and `ce_expirytime` stand in for `request_id` and `expires_at` where the object has
    none. A value that only lenient parsers take (NaN, lone surrogates, very large numbers) is read all the
    same: it will be rejected, but the agent gets an answer.

    Raises:
        RequestUnreadable: There is no request id.
        RequestInvalid: There is one in the headers, but the value is a tombstone, not UTF-8, not JSON, or not
            an object.
    """
    sender, expiry = attribute(headers, HEADER_ID), attribute(headers, HEADER_EXPIRY_TIME)
    try:
        body, flaw = _json_object(value)
    except RequestUnreadable as error:
        if sender is None or not sender.text:
            raise
        problem = f"must be a JSON object, but {error}"
        raise RequestInvalid(
            sender.text, [FieldProblem(field="request", value="the value", problem=problem)]
        ) from error
    request_id = _request_id(body.get("request_id"), sender)
    if sender is None and expiry is None:
        return DecodedRequest(request_id=request_id, body=body, flaw=flaw)
    used = {
        name: each
        for name, each in (("request_id", sender), ("expires_at", expiry))
        if each is not None and body.get(name) is None
    }
    return DecodedRequest(
        request_id=request_id,
        body=body | {name: each.text for name, each in used.items()},
        flaw=flaw,
        origins={name: each.header for name, each in used.items()},
        problems=tuple(each.problem for each in used.values() if each.problem is not None),
    )


def _request_id(own: object, sender: Attribute | None) -> str:
    """Return the id that the object has, else the header's: whoever waits for it gets an answer."""
    if isinstance(own, str) and own and _is_utf8(own):
        return own
    if sender is None:
        raise RequestUnreadable(f"request_id must be a string that is not empty, not {shown(own)}")
    if not sender.text:
        raise RequestUnreadable(f"{sender.header} must be UTF-8 text that is not empty")
    return sender.text


def _json_object(value: bytes | None) -> tuple[dict[str, Any], str | None]:
    """Return the object, and why it is one for lenient parsers only."""
    if value is None:
        raise RequestUnreadable("the value is null")
    flaw = None
    with _no_garbage_collection() if len(value) > LARGE_BYTES else nullcontext():
        try:
            body = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            flaw = str(error)
            body = _lenient(value)
    if not isinstance(body, dict):
        raise RequestUnreadable(f"the value is not a JSON object but {type(body).__name__}")
    return body, flaw


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep Python from going through millions of lists again and again while they are read."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _lenient(value: bytes) -> Any:
    try:
        # Integers that are too long for `int` are read as floats: they are out of bounds anyway.
        return json.loads(value.decode("utf-8-sig"), parse_int=_number)
    except (ValueError, RecursionError) as error:
        raise RequestUnreadable(f"the value is not JSON: {' '.join(str(error).split())[:200]}") from error


def _number(digits: str) -> float:
    return int(digits) if len(digits) < MAX_DIGITS else float(digits)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
