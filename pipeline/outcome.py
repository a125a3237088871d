"""From the answers of the paths to the outcome of the lookup: the pure half of a lookup.

The same function serves the live stage and the replay of recorded answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.model import (
    Budget,
    Dropped,
    Ledger,
    Limits,
    LookupStatus,
    Outcome,
    PathHits,
    PathReport,
    Problem,
)
from pipeline.processor import process
from pipeline.projector import project


@dataclass(frozen=True, slots=True, kw_only=True)
class PathAnswer:
    """What the search said to one query.

    Attributes:
        query: Index of the query in the request, from 0.
        hits: As the port returned them; none where it failed.
        error: Why it failed, `None` where it answered.
    """

    query: int
    hits: PathHits
    error: Problem | None = None


def conclude(answers: Sequence[PathAnswer], *, limits: Limits, budget: Budget) -> Outcome:
    """Processes and projects the hits of the paths that answered.

    Args:
        answers: One a query, in the request's order.
        limits: The widths in force.
        budget: The budget in force.

    Returns:
        `ok` or `empty` where every path answered, `failed` with the first path's error where none did, else
        `partial`. Equal answers give an equal outcome.
    """
    processed = process((answer.hits for answer in answers if answer.error is None), limits)
    projected = project(processed.blocks, budget)
    dropped = sorted((*processed.dropped, *projected.dropped), key=lambda drop: (drop.query, drop.rank))
    status = _status(answers, found=bool(projected.evidence))
    return Outcome(
        status=status,
        evidence=projected.evidence,
        paths=tuple(_report(answer) for answer in answers),
        ledger=_ledger(processed.retrieved, dropped, projected=len(projected.evidence)),
        dropped=tuple(dropped),
        error=answers[0].error if status == "failed" else None,
    )


def _status(answers: Sequence[PathAnswer], *, found: bool) -> LookupStatus:
    failed = sum(answer.error is not None for answer in answers)
    if failed == len(answers):
        return "failed"
    if failed:
        return "partial"
    return "ok" if found else "empty"


def _report(answer: PathAnswer) -> PathReport:
    return PathReport(
        query=answer.query,
        status="ok" if answer.error is None else "failed",
        hits=len(answer.hits.hits),
        error=answer.error,
    )


def _ledger(retrieved: int, dropped: Sequence[Dropped], *, projected: int) -> Ledger:
    count = Counter(drop.reason for drop in dropped)
    return Ledger(
        retrieved=retrieved,
        rejected=count["empty_content"] + count["invalid_score"],
        duplicates=count["duplicate"],
        over_document_cap=count["over_document_cap"],
        over_return_n=count["over_return_n"],
        over_budget=count["over_budget"],
        projected=projected,
    )
