"""The members of a recording's line, as `streams.recordings.recording` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from pipeline.model import Budget, Limits, PathStatus, Problem, SearchHit
from streams.recordings.recording import Captured, RecordedIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPathLine:
    """One query of the fan-out and what the search said to it.

    Attributes:
        query: Index of the query in the request, from 0.
        text: The query.
        status: Whether the search answered.
        error: Why it did not answer.
        hits: As the search port returned them, before identity and post-processing.
    """

    query: int
    text: str
    status: PathStatus
    error: Problem | None
    hits: list[SearchHit]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingLine:
    """One lookup with everything that its result was made of.

    Attributes:
        v: Version of the format.
        request: The request as it was sent; where `raw` is there, its id alone.
        raw: Base64 of the request's bytes where they are JSON for lenient parsers only.
        key: Base64 of the request's key.
        headers: Name and base64 of the value of each of the request's headers, in order.
        captured: Where the request was read.
        index: What was searched, null where nobody knows.
        paths: One for each query, in order; none where the result is not made of hits; null where the request
            alone was recorded.
        limits: The widths in force.
        budget: The budget in force.
        result: The result as it was published, null where the request alone was recorded.
    """

    v: int
    request: dict[str, Any]
    raw: str | None
    key: str | None
    headers: list[Annotated[list[str | None], Field(min_length=2, max_length=2)]]
    captured: Captured
    index: RecordedIndex | None
    paths: list[RecordedPathLine] | None
    limits: Limits | None
    budget: Budget | None
    result: dict[str, Any] | None
