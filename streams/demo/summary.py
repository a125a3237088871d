"""What a demo session came to, in figures and in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streams.wire.results import LookupResult

ANSWERED = frozenset({"ok", "partial", "empty"})


def counted(number: int, one: str, several: str | None = None) -> str:
    """Return a number with its noun: `1 hit`, `2 hits`."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def summary_lines(results: Sequence[LookupResult], *, elapsed_s: float) -> list[str]:
    """Return what became of requests and hits, and how long it took, one sentence a line."""
    answered = sum(result.status in ANSWERED for result in results)
    searches = sum(len(result.paths) for result in results)
    pieces = [item for result in results for item in result.evidence]
    documents = {item.doc_id for item in pieces}
    retrieved = sum(result.ledger.retrieved for result in results)
    requests, found = counted(len(results), "request"), counted(retrieved, "hit")
    return [
        f"{answered} of {requests} answered: {counted(searches, 'search', 'searches')} found {found}.",
        f"{counted(len(pieces), 'piece')} of evidence from {counted(len(documents), 'document')}.",
        _dropped_line(results),
        f"{elapsed_s:.1f} s in all.",
    ]


def _dropped_line(results: Sequence[LookupResult]) -> str:
    cap = _range(result.limits.max_chunks_per_document for result in results if result.limits)
    return_n = _range(result.limits.return_n for result in results if result.limits)
    ledgers = [result.ledger for result in results]
    reasons = {
        f"over the document cap (at most {cap} of one document)": sum(
            ledger.over_document_cap for ledger in ledgers
        ),
        f"over return-n (at most {return_n} for a request)": sum(ledger.over_return_n for ledger in ledgers),
        "duplicates": sum(ledger.duplicates for ledger in ledgers),
        "over budget": sum(ledger.over_budget for ledger in ledgers),
        "rejected": sum(ledger.rejected for ledger in ledgers),
    }
    dropped = sum(reasons.values())
    if not dropped:
        return "No hit was dropped."
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"{counted(dropped, 'hit')} dropped: {why}."


def _range(numbers: Iterable[int]) -> str:
    different = sorted(set(numbers))
    return (
        " to ".join(str(number) for number in dict.fromkeys((different[0], different[-1])))
        if different
        else "-"
    )
