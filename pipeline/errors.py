"""What can go wrong around a lookup, one meaning a leaf.

LookupStageError
├── ConfigurationError      the stage cannot start like this
├── LimitsExceeded          a request asks for more than is allowed
└── SearchError             a path got no answer
    ├── SearchUnavailable   the engine or the embedder cannot be reached or is failing; trying again may help
    ├── SearchTimeout       no answer in time; trying again may help
    └── SearchRejected      the question itself was refused; trying again will not help

The message of a `SearchError` goes into the published result: it says the same thing each time the same thing
happens. What the engine said, with its hosts and times, belongs to `__cause__`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

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
        attempts: How often it was asked, at least 1.
        call: What failed, the same for all who shared a call; `None` where nobody did.
    """

    code: ClassVar[ErrorCode]
    retryable: ClassVar[bool]
    attempts: int = 1
    call: object | None = None

    @property
    def problem(self) -> Problem:
        """The error as the result shows it."""
        return Problem(code=self.code, message=str(self))


class SearchUnavailable(SearchError):
    """The engine or the embedder cannot be reached, or is failing."""

    code = "search_unavailable"
    retryable = True


class SearchTimeout(SearchError):
    """The engine or the embedder did not answer in time."""

    code = "search_timeout"
    retryable = True


class SearchRejected(SearchError):
    """The engine or the embedder refused the question: a bad filter, a wrong dimension."""

    code = "search_rejected"
    retryable = False
