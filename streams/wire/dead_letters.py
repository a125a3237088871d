"""Dead letters: requests that could not be answered with evidence, kept byte for byte."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from pipeline.errors import LookupStageError, SearchError
from streams.kafka.records import ConsumedRecord, Headers, ProducedRecord

Stage: TypeAlias = Literal["decode", "validate", "search", "publish"]

ERROR_HEADER_PREFIX = "lookup.errors."
MAX_MESSAGE_CHARS = 500
SECONDS_PER_MINUTE = 60

LEFT_OUT_BYTES = 200
"""More than the headers take that say what was left out of a dead letter."""

_REASONS = {"decode": "unreadable", "validate": "invalid_request", "publish": "too_large"}


class RecordUndecodable(Exception):
    """A record, or a batch of records, that Kafka's own format does not allow to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a request is dead-lettered.

    Attributes:
        stage: Where it went wrong.
        retryable: Whether sending it again may help.
        error: The exception, with what was behind it as its cause.
        attempts: How often it was tried, at least 1.
    """

    stage: Stage
    retryable: bool
    error: BaseException
    attempts: int = 1

    @property
    def reason(self) -> str:
        """Names what went wrong in one of a few words, for metrics."""
        if isinstance(self.error, RecordUndecodable):
            return "undecodable"
        if self.stage == "search":
            return self.error.code if isinstance(self.error, SearchError) else "internal"
        return _REASONS[self.stage]


class TooManyDeadLetters(LookupStageError):
    """So many requests cannot be answered that the fault is more likely here: a person should look."""


class DeadLetterLimit:
    """Stops a worker before a bad deployment drains the requests topic into the dead letters."""

    def __init__(self, per_minute: int) -> None:
        """Initialize with the most dead letters in any minute, at least 1."""
        self._per_minute = per_minute
        self._times: deque[float] = deque(maxlen=per_minute)

    def count(self, now_s: float) -> None:
        """Count one dead letter.

        Args:
            now_s: Seconds of a clock that only goes forward.

        Raises:
            TooManyDeadLetters: It is one too many.
        """
        if len(self._times) == self._per_minute and now_s - self._times[0] < SECONDS_PER_MINUTE:
            raise TooManyDeadLetters(
                f"more than stage.max-dead-letters-per-minute = {self._per_minute} dead letters in a minute"
            )
        self._times.append(now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHeaders:
    """What the headers of a dead letter say that come behind the request's own.

    Their names have dots for `_` and begin with `lookup.errors.`; their values are UTF-8 text.

    Attributes:
        topic: Topic that the request was read from.
        partition: Its partition there.
        offset: Its offset there; of a batch that cannot be decoded, the first one.
        timestamp: Its time, in milliseconds since the epoch.
        stage: Where it went wrong.
        retryable: Whether sending it again may help.
        exception_class_name: Class of the error.
        exception_message: The error and what caused it, one line of at most 500 characters.
        attempts: How often the search was tried, at least 1.
        last_offset: Last offset of a batch that cannot be decoded; absent where it is only one.
        value_bytes: Size of the value where the topic takes only a part of the record; else absent.
        headers_left_out: How many headers of the request were left out of such a record; absent if none.
        key_bytes: Size of the key where only its beginning is there; else absent.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    stage: Stage
    retryable: bool
    exception_class_name: str
    exception_message: str
    attempts: int
    last_offset: int | None = None
    value_bytes: int | None = None
    headers_left_out: int | None = None
    key_bytes: int | None = None

    def as_headers(self) -> Headers:
        """Return the headers in the order above."""
        return tuple(
            (error_header(field.name), _text(getattr(self, field.name)).encode("utf-8", "replace"))
            for field in fields(self)
            if getattr(self, field.name) is not None
        )


def error_header(field: str) -> str:
    """Return the header of one of the fields: `exception_message` is `lookup.errors.exception.message`."""
    return ERROR_HEADER_PREFIX + field.replace("_", ".")


def dead_letter_record(request: ConsumedRecord, failure: Failure, *, topic: str) -> ProducedRecord:
    """Turn a request into its dead letter: key, value and headers untouched, then the error's headers."""
    first = request.offset if request.undecodable is None else request.undecodable.first_offset
    error = ErrorHeaders(
        topic=request.topic,
        partition=request.partition,
        offset=first,
        timestamp=request.timestamp_ms,
        stage=failure.stage,
        retryable=failure.retryable,
        exception_class_name=type(failure.error).__name__,
        exception_message=describe(failure.error),
        attempts=failure.attempts,
        last_offset=None if first == request.offset else request.offset,
    )
    return ProducedRecord(
        topic=topic, key=request.key, value=request.value, headers=request.headers + error.as_headers()
    )


def shortened(letter: ProducedRecord, excess_bytes: int, *, own_headers: int) -> ProducedRecord:
    """Return a dead letter with less of its value, and headers that say what was left out.

    Where the value is not what makes it too large, the headers of the request are left out as well, and then
    the end of the key.

    Args:
        letter: A dead letter that is too large for its topic.
        excess_bytes: By how much.
        own_headers: How many of its headers, the first ones, are the request's own.
    """
    value, excess = _cut(letter.value, excess_bytes + LEFT_OUT_BYTES)
    left_out = {"value_bytes": len(letter.value or b"")}
    key, own, errors = letter.key, letter.headers[:own_headers], letter.headers[own_headers:]
    if excess > 0:
        left_out["headers_left_out"] = len(own)
        excess -= sum(len(name.encode()) + len(content or b"") for name, content in own)  # at least
        own = ()
    if excess > 0:
        left_out["key_bytes"] = len(key or b"")
        key, _ = _cut(key, excess)
    told = tuple((error_header(field), str(count).encode()) for field, count in left_out.items())
    return ProducedRecord(topic=letter.topic, key=key, value=value, headers=(*own, *errors, *told))


def _cut(data: bytes | None, excess_bytes: int) -> tuple[bytes | None, int]:
    """Return the beginning of some bytes, and by how much what is left is still too large."""
    if data is None:
        return None, excess_bytes
    kept = max(0, len(data) - excess_bytes)
    return data[:kept], excess_bytes - (len(data) - kept)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe(error: BaseException) -> str:
    """Return an error and what caused it as one line of at most 500 characters."""
    text = str(error) or type(error).__name__
    cause = error.__cause__
    if cause is not None:
        behind = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
        text = f"{text} (caused by {behind})"
    return " ".join(text.split())[:MAX_MESSAGE_CHARS]
