"""What a comparison found, in sentences, causes before effects. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator

from streams.comparison.comparing import Comparison
from streams.comparison.differences import LossReason
from streams.comparison.store import FileCounts
from streams.comparison.summary import Totals

MAX_NAMED_SETTINGS = 8
MAX_NAMED_DOCUMENTS = 3

WHY: dict[LossReason, str] = {
    "not_retrieved": "not retrieved any more",
    "over_document_cap": "over the document cap",
    "over_return_n": "over return-n",
    "over_budget": "over the budget",
    "duplicate": "a duplicate now",
    "empty_content": "rejected: its content is blank now",
    "invalid_score": "rejected: its score is no number now",
    "unstable_identity": "under an unstable key, and neither key nor text was retrieved",
    "unexplained": "kept by this version: the candidate's result was made by another one",
}
"""Why evidence went, in words."""


def findings(comparison: Comparison) -> tuple[str, ...]:
    """Return what changed, a sentence each; one sentence where nothing did."""
    totals = comparison.totals
    found = (
        *_statuses(totals),
        *_coverage(comparison),
        *_settings(totals),
        *_losses(comparison),
        *_orders(totals),
        *_scores(totals),
        *_texts(totals),
        *_identities(totals),
    )
    return found or ("Nothing changed: the same evidence in the same order, with the same scores.",)


def _coverage(comparison: Comparison) -> Iterator[str]:
    if not comparison.totals.requests:
        yield "No request is in both files."
    for name, counts in (("base", comparison.base_counts), ("candidate", comparison.candidate_counts)):
        if counts.alone:
            yield f"{_requests(counts.alone)} only in the {name}: {_some(counts.alone_ids, counts.alone)}."
        yield from _repeats(name, counts)
    not_compared = comparison.totals.changes["not_compared"]
    if not_compared:
        yield (
            f"{_requests(not_compared)} not compared: the search did not answer the same queries on both"
            " sides."
        )
    relevance = comparison.relevance
    if relevance is not None and not relevance.requests:
        yield f"Relevance was not measured: of {_requests(relevance.missing)} judged none could be compared."


def _repeats(name: str, counts: FileCounts) -> Iterator[str]:
    if counts.repeated:
        verb = "repeats" if counts.repeated == 1 else "repeat"
        yield f"{_recordings(counts.repeated)} of the {name} {verb} another with the same result."
    if counts.replaced:
        verb = "repeats" if counts.replaced == 1 else "repeat"
        yield (
            f"{_recordings(counts.replaced)} of the {name} {verb} a request with another result, the last one"
            f" counts: {_some(counts.replaced_ids, counts.replaced)}."
        )


def _statuses(totals: Totals) -> Iterator[str]:
    for change in totals.status_changes:
        yield f"{_requests(change.requests)} went from {change.base} to {change.candidate}."


def _settings(totals: Totals) -> Iterator[str]:
    for change in totals.settings[:MAX_NAMED_SETTINGS]:
        yield f"{change.name}: {change.base} → {change.candidate} in {_requests(change.requests)}."


def _losses(comparison: Comparison) -> Iterator[str]:
    for reason, count in comparison.totals.lost.items():
        yield f"{_pieces(count)} lost: {WHY[reason]}."
    if comparison.totals.new:
        yield f"{_pieces(comparison.totals.new)} new."
    gone = comparison.gone
    if gone.count:
        named = ", ".join(
            f"{document.doc_id} (in {_requests(document.requests)})"
            for document in gone.most_used[:MAX_NAMED_DOCUMENTS]
        )
        more = gone.count - MAX_NAMED_DOCUMENTS
        rest = f" and {more:,} more" if more > 0 else ""
        what = "1 document is" if gone.count == 1 else f"{gone.count:,} documents are"
        yield f"{what} not retrieved by any request any more: {named}{rest}."


def _orders(totals: Totals) -> Iterator[str]:
    if totals.changes["reordered"]:
        yield f"{_requests(totals.changes['reordered'])} with the same evidence in another order."


def _scores(totals: Totals) -> Iterator[str]:
    drift = totals.drift
    if not drift.moved:
        return
    figures = (
        f"mean {drift.mean:+.3g}, of sizes mean {drift.mean_absolute:.3g}, 95 % at most"
        f" {drift.p95_absolute:.3g}, largest {drift.max_absolute:.3g}"
    )
    if drift.moved * 2 > drift.pairs:
        yield (
            f"Scores moved throughout, in {drift.moved:,} of {drift.pairs:,} common pieces ({figures}):"
            " another embedding, metric or index answers."
        )
    else:
        yield f"Scores of {drift.moved:,} of {drift.pairs:,} common pieces moved ({figures})."


def _texts(totals: Totals) -> Iterator[str]:
    if totals.rewritten:
        yield f"{_pieces(totals.rewritten)} under the same key with another text."
    if totals.resized:
        yield f"{_pieces(totals.resized)} shortened otherwise than before."


def _identities(totals: Totals) -> Iterator[str]:
    if totals.renamed:
        yield (
            f"{_pieces(totals.renamed)} with the same text under another vector: or content: key: unstable"
            " identities, not counted as lost."
        )


def _some(ids: tuple[str, ...], count: int) -> str:
    return ", ".join(ids) + (", …" if count > len(ids) else "")


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count:,} requests"


def _recordings(count: int) -> str:
    return "1 recording" if count == 1 else f"{count:,} recordings"


def _pieces(count: int) -> str:
    return "1 piece of evidence" if count == 1 else f"{count:,} pieces of evidence"
