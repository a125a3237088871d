"""The requests that changed most."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from streams.comparison.differences import Difference

Severity = tuple[float, ...]


def severity(difference: Difference) -> Severity:
    """Return how much a request changed; larger is worse.

    A changed status comes first, then the share of evidence that was lost, then the order, then texts, then
    scores.
    """
    overlap = difference.chunks
    return (
        float(difference.status_changed),
        len(difference.lost) / len(difference.base.items) if difference.lost else 0.0,
        1.0 - overlap.rbo if overlap is not None else 0.0,
        1.0 - overlap.jaccard if overlap is not None else 0.0,
        float(sum(pair.rewritten or pair.resized for pair in difference.pairs)),
        max((abs(pair.candidate.score - pair.base.score) for pair in difference.pairs), default=0.0),
    )


@dataclass(order=True, slots=True)
class _Entry:
    severity: Severity
    earlier: int
    difference: Difference = field(compare=False)


class Worst:
    """Keeps the requests that changed most, and forgets the others."""

    def __init__(self, count: int) -> None:
        """Initialize with how many to keep."""
        self._count = count
        self._seen = 0
        self._heap: list[_Entry] = []

    def add(self, difference: Difference) -> None:
        """Look at one request; one that did not change is never kept."""
        found = severity(difference)
        if not any(found):
            return
        self._seen += 1
        entry = _Entry(found, -self._seen, difference)
        if len(self._heap) < self._count:
            heapq.heappush(self._heap, entry)
        elif self._heap:
            heapq.heappushpop(self._heap, entry)

    def differences(self) -> tuple[Difference, ...]:
        """Return them, the worst first, the earlier of two that are as bad."""
        return tuple(entry.difference for entry in sorted(self._heap, reverse=True))
