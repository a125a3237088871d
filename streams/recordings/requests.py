"""The requests in recordings: as they were sent, and the fields that they ask with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from streams.recordings.recording import Recording
from streams.wire.cloud_events import event_media_type, is_event, with_data
from streams.wire.decoding import RequestUnreadable, decode_request
from streams.wire.requests import RequestInvalid


def request_value(recording: Recording) -> bytes:
    """Return the value of a request as its agent sent it, but for the spaces between its fields."""
    return _written(recording.request) if recording.raw is None else recording.raw


def lasting_value(recording: Recording) -> bytes:
    """Return the value of a request without its expiry, be that its own or its event's."""
    if recording.raw is not None:
        return recording.raw
    lasting = {name: value for name, value in request_fields(recording).items() if name != "expires_at"}
    return _written(with_data(recording.request, lasting) if _is_event(recording) else lasting)


def request_fields(recording: Recording) -> Mapping[str, Any]:
    """Return what a request asks with: its own fields, or those of the event that it is the data of."""
    if not _is_event(recording):
        return recording.request
    try:
        return decode_request(request_value(recording), recording.headers).body
    except (RequestInvalid, RequestUnreadable):
        return {}


def _is_event(recording: Recording) -> bool:
    return event_media_type(recording.headers) is not None and is_event(recording.request)


def _written(request: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(request)
    except TypeError:  # a lone surrogate, which JSON has in an escape only
        return json.dumps(request).encode()
