"""What can go wrong around a lookup, one meaning a leaf.

LookupStageError
├── ConfigurationError      the stage cannot start like this
├── LimitsExceeded          a request asks for more than is allowed
└── SearchError             a path got no answer
    ├── SearchUnavailable   the engine or the embedder cannot be reached or is failing; trying again may help
    │   └── SearchFailed    it failed, and nobody knows yet whether the question or the engine is at fault
    ├── SearchTimeout       no answer in time; trying again may help
    └── SearchRejected      the question itself was refused; trying again will not help

The message of a `SearchError` goes into the published result: it says the same thing each time the same thing
happens. What the engine said, with its hosts and times, belongs to `__cause__`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

from pipeline.model import ErrorCode, Problem


class LookupStageError(Exception):
    """Root of every error this product raises on purpose."""


class ConfigurationError(LookupStageError):
    """The stage cannot start: a setting, or what it points at, is not as it must be. One line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceededLimit:
    """One width that a request may not have.

    Attributes:
        field: The request's field.
        value: What it asked for.
        allowed: What it may ask for.
    """

    field: str
    value: int
    allowed: str


class LimitsExceeded(LookupStageError):
    """A request asks for more than it may.

    Attributes:
        exceeded: Every width that is too large, at least one.
    """

    def __init__(self, exceeded: Iterable[ExceededLimit]) -> None:
        self.exceeded = tuple(exceeded)
        super().__init__("; ".join(f"{e.field} is {e.value}, must be {e.allowed}" for e in self.exceeded))


class SearchError(LookupStageError):
    """A path got no answer.

    Attributes:
        code: The code in the result.
        retryable: Whether the same question may be answered later.
        doubtful: Whether the question itself may be at fault. Such a failure counts as an outage only if a
            question that is known to be good fails as well.
        attempts: How often it was asked, at least 1.
        call: What failed, the same for all who shared a call; `None` where nobody did.
        retry_after_s: Seconds before which asking again is pointless, where the other side named them.
    """

    code: ClassVar[ErrorCode]
    retryable: ClassVar[bool]
    doubtful: ClassVar[bool] = False
    attempts: int = 1
    call: object | None = None
    retry_after_s: float | None = None

    @property
    def problem(self) -> Problem:
        """The error as the result shows it."""
        return Problem(code=self.code, message=str(self))


class SearchUnavailable(SearchError):
    """The engine or the embedder cannot be reached, or is failing."""

    code = "search_unavailable"
    retryable = True


class SearchFailed(SearchUnavailable):
    """The engine or the embedder failed, and its answer does not tell whether the question is at fault.

    It is `SearchUnavailable` until a question that is known to be good has been answered after it. Then the
    question is at fault, and `concluded` returns a `SearchRejected`.

    Attributes:
        refusal: The message if the question is at fault; `None` if such a failure never is proof of that, as
            that of a gateway.
        repeats: Whether the other side has said that it refuses the question, so that asking the same again
            is pointless once the question is known to be at fault.
        cleared: Whether a good question was answered after the failure.
    """

    doubtful = True
    refusal: str | None = None
    repeats: bool = False
    cleared: bool = False

    @classmethod
    def maybe_refused(cls, message: str, refusal: str, *, repeats: bool = False) -> Self:
        """Return a failure that is a refusal if a good question is answered."""
        error = cls(message)
        error.refusal, error.repeats = refusal, repeats
        return error

    @property
    def is_refusal(self) -> bool:
        """Whether the question is known to be at fault."""
        return self.cleared and self.refusal is not None

    def concluded(self) -> SearchError:
        """Return what the failure was: a rejection of the question, or unavailability."""
        known: SearchError
        known = SearchRejected(self.refusal) if self.is_refusal else SearchUnavailable(*self.args)
        known.attempts, known.call, known.retry_after_s = self.attempts, self.call, self.retry_after_s
        known.__cause__ = self.__cause__
        return known


class SearchTimeout(SearchError):
    """The engine or the embedder did not answer in time."""

    code = "search_timeout"
    retryable = True
    doubtful = True


class SearchRejected(SearchError):
    """The engine or the embedder refused the question: a bad filter, a wrong dimension."""

    code = "search_rejected"
    retryable = False
