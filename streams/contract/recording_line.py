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

    What is not told here is as in `streams.recordings.recording.Recording`.

    Attributes:
        v: Version of the format.
        raw: Base64 of the request's bytes where they are not a JSON object, or one for lenient parsers only.
        key: Base64 of the request's key.
        headers: Name and base64 of the value of each of the request's headers, in order.
    """

    v: int
    request_id: str
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
