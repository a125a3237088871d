"""Whether what the stage wrote is what its contract says, and nothing beyond it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs

from streams.contract.schemas import (
    dead_letter_headers_schema,
    recording_schema,
    result_headers_schema,
    result_schema,
)
from streams.kafka.records import Headers


def check_body(value: bytes | str) -> None:
    """Fail a test whose result is not in the contract."""
    _results().validate(json.loads(value))


def check_result(value: bytes | None, headers: Headers) -> None:
    """Fail a test whose result, or a header of it, is not in the contract."""
    assert value is not None
    body = json.loads(value)
    _results().validate(body)
    text = {name: (content or b"").decode("utf-8", "replace") for name, content in headers}
    _result_headers().validate(text)
    assert (text["lookup-request-id"], text["lookup-status"]) == (body["request_id"], body["status"])


def check_error_headers(headers: Headers) -> None:
    """Fail a test whose dead letter has, behind the request's own, headers that are not in the contract."""
    text = {name: (content or b"").decode() for name, content in headers}
    assert len(text) == len(headers)
    _error_headers().validate(text)


def check_recording(line: bytes) -> None:
    """Fail a test whose recording is not in the contract, or whose result in it is not."""
    recording = json.loads(line)
    _recordings().validate(recording)
    if recording["result"] is not None:
        _results().validate(recording["result"])


def closed(schema: Any) -> Any:
    """Return a schema that takes no field but those it names; the contract's own let newer stages add."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: value if name in {"if", "then"} else closed(value) for name, value in schema.items()}
    is_object = schema.get("type") == "object" and "properties" in schema
    return inner | {"additionalProperties": False} if is_object else inner


@cache
def _results() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(closed(result_schema()))


@cache
def _result_headers() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(closed(result_headers_schema()))


@cache
def _error_headers() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(closed(dead_letter_headers_schema()))


@cache
def _recordings() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(closed(recording_schema()))
