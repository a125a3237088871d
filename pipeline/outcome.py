"""From the answers of the paths to the outcome of the lookup: the pure half of a lookup.

The same function serves the live stage and the replay of recorded answers.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from pipeline.processor import Processed, process
from pipeline.projector import Projected, project
from pipeline.values import statically_frozen


@statically_frozen(frozen=True, slots=True, kw_only=True)
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


def conclude(
    answers: Sequence[PathAnswer], *, limits: Limits, budget: Budget, explain: bool = True
) -> Outcome:
    """Process and project the hits of the paths that answered.

    Args:
        answers: One a query, in the request's order.
        limits: The widths in force.
        budget: The budget in force.
        explain: Whether to list what was dropped, which the ledger counts in any case.

    Returns:
        `ok` or `empty` where every path answered, `failed` with the first path's error where none did, else
        `partial`. Equal answers give an equal outcome.
    """
    processed = process([answer.hits for answer in answers if answer.error is None], limits)
    projected = project(processed.blocks, budget)
    status = _status(answers, found=bool(projected.evidence))
    return Outcome(
        status=status,
        evidence=projected.evidence,
        paths=tuple([_report(answer) for answer in answers]),
        ledger=_ledger(processed, projected),
        dropped=_dropped(processed, projected) if explain else (),
        error=answers[0].error if status == "failed" else None,
    )


def _status(answers: Sequence[PathAnswer], *, found: bool) -> LookupStatus:
    failed = len([answer for answer in answers if answer.error is not None])
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


def _ledger(processed: Processed, projected: Projected) -> Ledger:
    return Ledger(
        retrieved=processed.retrieved,
        rejected=len(processed.rejected),
        duplicates=len(processed.duplicates) + len(projected.duplicates),
        over_document_cap=len(processed.over_document_cap),
        over_return_n=len(processed.over_return_n),
        over_budget=len(projected.over_budget),
        projected=len(projected.evidence),
    )


def _dropped(processed: Processed, projected: Projected) -> tuple[Dropped, ...]:
    dropped = (*processed.dropped, *projected.dropped)
    return tuple(sorted(dropped, key=lambda drop: (drop.query, drop.rank)))
