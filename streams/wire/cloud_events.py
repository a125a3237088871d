"""CloudEvents in binary mode: a request's id and its expiry may come as headers of its record.

Attributes stand in headers of their name with `ce_` before it, as UTF-8 text. Two of them mean something
here; the others are ignored, as unknown fields of a request are.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.kafka.records import Headers
from streams.wire.requests import FieldProblem, shown

HEADER_ID = "ce_id"
"""Stands in for `request_id`."""

HEADER_EXPIRY_TIME = "ce_expirytime"
"""Stands in for `expires_at`: the expiry-time extension, an RFC 3339 time as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An attribute of a CloudEvent as a record's headers have it.

    Attributes:
        header: The header's name.
        text: Its value, the last one where there are several; `None` where that is not UTF-8 text.
        problem: What is wrong with it, or `None`.
    """

    header: str
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
    return Attribute(header=name, text=text, problem=problem)


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
