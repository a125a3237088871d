"""CloudEvents: a request may be the data of an event, which then has an id and an expiry for it.

In binary mode the value is the data, and attributes stand in headers of their name with `ce_` before it, as
UTF-8 text. In structured mode the value is the event, a JSON object, with attributes and data as members; the
header `content-type` says so. Two of the attributes mean something here; the others are ignored, as unknown
fields of a request are.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streams.kafka.records import Headers
from streams.wire.requests import FieldProblem, shown

HEADER_ID = "ce_id"
"""Stands in for `request_id`."""

HEADER_EXPIRY_TIME = "ce_expirytime"
"""Stands in for `expires_at`: the expiry-time extension, an RFC 3339 time as well."""

HEADER_CONTENT_TYPE = "content-type"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"

_ANY_EVENT = "application/cloudevents"
_EVENT_MEMBERS = frozenset({"specversion", "data", "data_base64"})


class EventRefused(ValueError):
    """The event cannot be read. The message is half a sentence that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An attribute of a CloudEvent.

    Attributes:
        name: Name of its header, or of the event's member in structured mode.
        text: Its value, the last one where there are several; `None` where that is not UTF-8 text.
        problem: What is wrong with it, or `None`.
    """

    name: str
    text: str | None
    problem: FieldProblem | None


def attribute(headers: Headers, name: str) -> Attribute | None:
    """Read an attribute by its header's name; `None` where there is no such header."""
    values = [value for header, value in headers if header == name]
    if not values:
        return None
    text = _text(values[-1])
    if len(values) > 1:
        problem = FieldProblem(field=name, value=shown(values), problem="must be given once")
    elif text is None:
        problem = FieldProblem(field=name, value=shown(values[0]), problem="must be UTF-8 text")
    else:
        problem = None
    return Attribute(name=name, text=text, problem=problem)


def event_media_type(headers: Headers) -> str | None:
    """Return the media type of an event that is the whole value, or `None` if the value is none by its type.

    Of several headers the last counts. Case and parameters, such as a character set, make no difference.
    """
    types = [value for header, value in headers if header == HEADER_CONTENT_TYPE]
    if not types:
        return None
    media_type = (types[-1] or b"").decode("ascii", "replace").partition(";")[0].strip().lower()
    return media_type if media_type.startswith(_ANY_EVENT) else None


def check_readable(media_type: str) -> None:
    """Check that events of a media type are read, which those in batches and in other formats are not.

    Raises:
        EventRefused: They are not.
    """
    if media_type not in {STRUCTURED, _ANY_EVENT}:
        raise EventRefused(
            f"{media_type} is not read: send each event as {STRUCTURED} in a record of its own"
        )


def is_event(members: Mapping[str, Any]) -> bool:
    """Say whether an object has anything of an event in structured mode."""
    return not _EVENT_MEMBERS.isdisjoint(members)


def event_attribute(members: Mapping[str, Any], name: str) -> Attribute | None:
    """Read an attribute of an event in structured mode; return `None` if it is absent or null."""
    value = members.get(name)
    if value is None:
        return None
    if isinstance(value, str) and value.encode("utf-8", "replace").decode() == value:
        return Attribute(name=name, text=value, problem=None)
    problem = FieldProblem(field=name, value=shown(value), problem="must be a string of Unicode text")
    return Attribute(name=name, text=None, problem=problem)


def event_data(members: Mapping[str, Any]) -> Mapping[str, Any] | bytes:
    """Return the data of an event in structured mode: an object, or bytes that may be the JSON of one.

    An object that has nothing of an event is its own data: its sender got only the media type wrong.

    Raises:
        EventRefused: The data cannot be an object.
    """
    if not is_event(members):
        return members
    data, encoded = members.get("data"), members.get("data_base64")
    if data is not None and encoded is not None:
        raise EventRefused("the event has both data and data_base64")
    if encoded is not None:
        return _from_base64(encoded)
    if isinstance(data, str) and not _is_json(members.get("datacontenttype")):
        return data.encode("utf-8", "surrogatepass")
    if data is None:
        raise EventRefused("the event has neither data nor data_base64")
    if not isinstance(data, dict):
        raise EventRefused(f"the event's data is not a JSON object but {type(data).__name__}")
    return data


def with_data(members: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in structured mode with other data and without its expiry."""
    replaced = {"data", "data_base64", "datacontenttype", "expirytime"}
    return {name: value for name, value in members.items() if name not in replaced} | {"data": dict(data)}


def _from_base64(encoded: object) -> bytes:
    try:
        return b64decode(encoded, validate=True)  # type: ignore[arg-type] # what is no text is refused below
    except (TypeError, ValueError) as error:
        raise EventRefused("the event's data_base64 is not Base64") from error


def _is_json(media_type: object) -> bool:
    """Say whether a string of a media type is a JSON string, as it is where no type is given."""
    if not isinstance(media_type, str):
        return True
    subtype = media_type.partition(";")[0].strip().lower().partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
