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
from streams.wire.cloud_events import (
    HEADER_EXPIRY_TIME,
    HEADER_ID,
    Attribute,
    EventRefused,
    attribute,
    check_readable,
    event_attribute,
    event_data,
    event_media_type,
)
from streams.wire.near_misses import suggestion
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
        origins: The header or the event's attribute that each field came from which is not the request's own.
        problems: What is wrong with those.
    """

    request_id: str
    body: dict[str, Any]
    flaw: str | None
    origins: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[FieldProblem, ...] = ()


def decode_request(value: bytes | None, headers: Headers = ()) -> DecodedRequest:
    """Read a record as a JSON object with a request id.

    The object is the value, or the data of the CloudEvent in structured mode that the value is. The event's
    attributes `id` and `expirytime`, else the headers `ce_id` and `ce_expirytime`, stand in for `request_id`
    and `expires_at` where the object has none. A value that only lenient parsers take (NaN, lone surrogates,
    very large numbers) is read all the same: it will be rejected, but the agent gets an answer.

    Raises:
        RequestUnreadable: There is no request id.
        RequestInvalid: There is one in the event or the headers, but the value is a tombstone, not UTF-8, not
            JSON, or not an object, or the event has no such data or is not in the JSON format.
    """
    sender, expiry = attribute(headers, HEADER_ID), attribute(headers, HEADER_EXPIRY_TIME)
    media_type = event_media_type(headers) if headers else None
    try:
        if media_type is None:
            body, flaw = _json_object(value)
        else:
            event, flaw = _event(value, media_type)
            # From here on the event says whom to tell of what is wrong with its data.
            sender = event_attribute(event, "id") or sender
            expiry = event_attribute(event, "expirytime") or expiry
            body, flaw = _data(event, flaw)
    except RequestUnreadable as error:
        if sender is None or not sender.text:
            raise
        problem = f"must be a JSON object, but {error}"
        raise RequestInvalid(
            sender.text, [FieldProblem(field="request", value="the value", problem=problem)]
        ) from error
    request_id = _request_id(body, sender)
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
        origins={name: each.name for name, each in used.items()},
        problems=tuple(each.problem for each in used.values() if each.problem is not None),
    )


def _event(value: bytes | None, media_type: str) -> tuple[dict[str, Any], str | None]:
    """Read an event in structured mode, and why it is JSON for lenient parsers only."""
    try:
        check_readable(media_type)
    except EventRefused as error:
        raise RequestUnreadable(str(error)) from error
    return _json_object(value)


def _data(event: dict[str, Any], flaw: str | None) -> tuple[dict[str, Any], str | None]:
    """Read the request in an event; what is wrong with the event's JSON is wrong with the request's."""
    try:
        data = event_data(event)
    except EventRefused as error:
        raise RequestUnreadable(str(error)) from error
    if not isinstance(data, bytes):
        return dict(data), flaw
    body, flaw_inside = _json_object(data)
    return body, flaw or flaw_inside


def _request_id(body: Mapping[str, Any], sender: Attribute | None) -> str:
    """Return the id that the object has, else the event's: whoever waits for it gets an answer."""
    own = body.get("request_id")
    if isinstance(own, str) and own and _is_utf8(own):
        return own
    if sender is None:
        hint = suggestion(body, "request_id")
        raise RequestUnreadable(f"request_id must be a string that is not empty, not {shown(own)}{hint}")
    if not sender.text:
        raise RequestUnreadable(f"{sender.name} must be UTF-8 text that is not empty")
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
