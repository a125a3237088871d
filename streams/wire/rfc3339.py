"""RFC 3339 times: reading them, and the JSON Schema of those that can be read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

# Patterns are written so that every engine reads them alike: no classes that some take for ASCII alone.
_READABLE = re.compile(
    "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-5][0-9])"
)
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE = f"{_YEAR}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_HOUR_AND_MINUTE = "([01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = f"{_HOUR_AND_MINUTE}:([0-5][0-9]|60)([.][0-9]+)?([Zz]|[+-]{_HOUR_AND_MINUTE})"

_SECONDS = slice(17, 19)
_BEFORE_FRACTION = 19
_MINUTES_OF_A_DAY = 24 * 60


def whole(pattern: str) -> str:
    """Return a pattern that a whole text must match, also where `$` matches before a last line's end."""
    return f"^{pattern}$(?!\\n)"


RFC3339_SCHEMA: dict[str, Any] = {
    "type": "string",
    "anyOf": [
        {"format": "date-time", "pattern": whole(f"{_DATE}[Tt]{_TIME}")},
        {"pattern": whole(f"{_DATE} {_TIME}")},
    ],
}
"""The texts that `parse_time` can read.

A space between date and time, which the standard leaves to applications, is not in the format `date-time`.
The patterns do not say how many days a month has, nor that a leap second ends a day in UTC.
"""


def parse_time(text: str) -> datetime:
    """Return the moment that a text names, to the microsecond.

    A leap second is read as the start of the second after it, for there is none in the computer's time.

    Raises:
        ValueError: It is not an RFC 3339 time with an offset, or it names a moment that does not exist.
    """
    if not _READABLE.fullmatch(text):
        raise ValueError("must be an RFC 3339 time with an offset, such as 2026-01-31T12:00:00Z")
    written = text.upper()
    return _after_leap_second(written) or datetime.fromisoformat(written)


def _after_leap_second(text: str) -> datetime | None:
    """Return the second after a leap second, or `None` if the text does not name one.

    Leap seconds end a day in UTC. Which days have one is decided a few months ahead, so that is not checked.
    """
    if text[_SECONDS] != "60":
        return None
    offset = text[_BEFORE_FRACTION:].lstrip(".0123456789")
    before = datetime.fromisoformat(f"{text[: _SECONDS.start]}59{offset}")
    shift = before.utcoffset() or timedelta()
    minute = before.hour * 60 + before.minute - shift // timedelta(minutes=1)
    if minute % _MINUTES_OF_A_DAY != _MINUTES_OF_A_DAY - 1:
        return None
    try:
        return before + timedelta(seconds=1)
    except OverflowError:  # at the end of the year 9999
        return datetime.max.replace(tzinfo=UTC)
