"""Dead letters: requests that could not be answered with evidence, kept byte for byte."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pipeline.errors import LookupStageError, SearchError
from streams.records import ConsumedRecord, ProducedRecord

Stage: TypeAlias = Literal["decode", "validate", "search", "publish"]

ERROR_HEADER_PREFIX = "lookup.errors."
MAX_MESSAGE_CHARS = 500
SECONDS_PER_MINUTE = 60

_REASONS = {"decode": "unreadable", "validate": "invalid_request", "publish": "too_large"}


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
        if self.stage == "search":
            return self.error.code if isinstance(self.error, SearchError) else "internal"
        return _REASONS[self.stage]


class TooManyDeadLetters(LookupStageError):
    """So many requests cannot be answered that the fault is more likely here: a person should look."""


class DeadLetterLimit:
    """Stops a worker before a bad deployment drains the requests topic into the dead letters."""

    def __init__(self, per_minute: int) -> None:
        """Takes the most dead letters in any minute, at least 1."""
        self._per_minute = per_minute
        self._times: deque[float] = deque(maxlen=per_minute)

    def count(self, now_s: float) -> None:
        """Counts one dead letter.

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


def dead_letter_record(request: ConsumedRecord, failure: Failure, *, topic: str) -> ProducedRecord:
    """Turns a request into its dead letter: key, value and headers untouched, then the error's headers."""
    error_headers = {
        "topic": request.topic,
        "partition": request.partition,
        "offset": request.offset,
        "timestamp": request.timestamp_ms,
        "stage": failure.stage,
        "retryable": str(failure.retryable).lower(),
        "exception.class.name": type(failure.error).__name__,
        "exception.message": describe(failure.error),
        "attempts": failure.attempts,
    }
    return ProducedRecord(
        topic=topic,
        key=request.key,
        value=request.value,
        headers=request.headers
        + tuple(
            (f"{ERROR_HEADER_PREFIX}{name}", str(value).encode("utf-8", "replace"))
            for name, value in error_headers.items()
        ),
    )


def describe(error: BaseException) -> str:
    """Gives an error and what caused it as one line of at most 500 characters."""
    text = str(error) or type(error).__name__
    cause = error.__cause__
    if cause is not None:
        behind = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
        text = f"{text} (caused by {behind})"
    return " ".join(text.split())[:MAX_MESSAGE_CHARS]
