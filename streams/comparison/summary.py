"""What changed over all requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from streams.comparison.alignment import is_unstable
from streams.comparison.differences import CHANGES, Change, Difference, LossReason, Overlap
from streams.comparison.distributions import Drift, Drifts, Shares
from streams.comparison.setting_changes import SettingChange, setting_changes

MAX_SETTING_CHANGES = 1_000
"""Requests may bring budgets of their own: so many different changes are counted apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanOverlap:
    """How alike the rankings are over all compared requests; `None` where there are none.

    Attributes:
        jaccard: Mean share of common items, 0 to 1.
        rbo: Mean extrapolated rank-biased overlap, 0 to 1.
        top1: Share of requests whose first item is the same, 0 to 1.
        jaccard_bins: Requests by Jaccard: 20 equal parts of 0 to 1, then exactly 1.
        rbo_bins: Requests by rank-biased overlap, likewise.
    """

    jaccard: float | None
    rbo: float | None
    top1: float | None
    jaccard_bins: tuple[int, ...]
    rbo_bins: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChange:
    """Requests whose result has another status; `none` stands for a request without a result."""

    base: str
    candidate: str
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What changed over all requests that both files have.

    Attributes:
        requests: How many there are.
        identical_results: Results that are the same to the byte.
        changes: Requests by what became of their evidence.
        statuses_kept: Requests whose result has the status it had.
        status_changes: The others, by the statuses.
        chunks: Overlap by evidence.
        documents: Overlap by document.
        evidence: Evidence of the base in compared requests.
        kept: How much of it the candidate has too.
        lost: The rest, by reason.
        new: Evidence that only the candidate has.
        new_unstable: How much of it has an unstable key.
        renamed: Kept evidence that has another, unstable key.
        rewritten: Kept evidence that has another text.
        resized: Kept evidence that was shortened otherwise.
        drift: How the scores of kept evidence moved.
        settings: Limits, budgets and indexes that differ.
    """

    requests: int
    identical_results: int
    changes: Mapping[Change, int]
    statuses_kept: int
    status_changes: tuple[StatusChange, ...]
    chunks: MeanOverlap
    documents: MeanOverlap
    evidence: int
    kept: int
    lost: Mapping[LossReason, int]
    new: int
    new_unstable: int
    renamed: int
    rewritten: int
    resized: int
    drift: Drift
    settings: tuple[SettingChange, ...]

    @property
    def compared(self) -> int:
        """Requests whose evidence could be compared."""
        return self.requests - self.changes["not_compared"]

    @property
    def retained(self) -> float | None:
        """Share of the base's evidence that the candidate has too, 0 to 1; `None` of none."""
        return self.kept / self.evidence if self.evidence else None


class _Overlaps:
    """Adds up the overlaps of requests."""

    def __init__(self) -> None:
        self._jaccard, self._rbo, self._top1 = Shares(), Shares(), Shares()

    def add(self, overlap: Overlap) -> None:
        """Count one request's."""
        self._jaccard.add(overlap.jaccard)
        self._rbo.add(overlap.rbo)
        self._top1.add(overlap.top1)

    def mean(self) -> MeanOverlap:
        """Return what was added up."""
        return MeanOverlap(
            jaccard=self._jaccard.mean,
            rbo=self._rbo.mean,
            top1=self._top1.mean,
            jaccard_bins=tuple(self._jaccard.bins),
            rbo_bins=tuple(self._rbo.bins),
        )


class SummaryTally:
    """Adds up differences, in memory that does not grow with them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._changes: Counter[Change] = Counter()
        self._lost: Counter[LossReason] = Counter()
        self._statuses: Counter[tuple[str, str]] = Counter()
        self._settings: Counter[tuple[str, str, str]] = Counter()
        self._chunks, self._documents = _Overlaps(), _Overlaps()
        self._drifts = Drifts()

    def add(self, difference: Difference) -> None:
        """Count one request."""
        base, candidate = difference.base, difference.candidate
        self._counts["requests"] += 1
        self._counts["identical_results"] += not difference.differs
        self._changes[difference.change] += 1
        if difference.status_changed:
            self._statuses[base.status or "none", candidate.status or "none"] += 1
        for change in setting_changes(base, candidate):
            if change in self._settings or len(self._settings) < MAX_SETTING_CHANGES:
                self._settings[change] += 1
        if difference.chunks is not None and difference.documents is not None:
            self._chunks.add(difference.chunks)
            self._documents.add(difference.documents)
            self._add_evidence(difference)

    def _add_evidence(self, difference: Difference) -> None:
        self._counts["evidence"] += len(difference.base.items)
        self._counts["new"] += len(difference.new)
        self._counts["new_unstable"] += sum(is_unstable(item.key) for item in difference.new)
        self._lost.update(lost.reason for lost in difference.lost)
        for pair in difference.pairs:
            self._counts["kept"] += 1
            self._counts["renamed"] += pair.renamed
            self._counts["rewritten"] += pair.rewritten
            self._counts["resized"] += pair.resized
            self._drifts.add(pair.candidate.score - pair.base.score)

    def totals(self) -> Totals:
        """Return what was added up."""
        counts = self._counts
        return Totals(
            requests=counts["requests"],
            identical_results=counts["identical_results"],
            changes={change: self._changes[change] for change in CHANGES},
            statuses_kept=counts["requests"] - self._statuses.total(),
            status_changes=tuple(
                StatusChange(base=base, candidate=candidate, requests=requests)
                for (base, candidate), requests in self._statuses.most_common()
            ),
            chunks=self._chunks.mean(),
            documents=self._documents.mean(),
            evidence=counts["evidence"],
            kept=counts["kept"],
            lost=dict(self._lost.most_common()),
            new=counts["new"],
            new_unstable=counts["new_unstable"],
            renamed=counts["renamed"],
            rewritten=counts["rewritten"],
            resized=counts["resized"],
            drift=self._drifts.drift(),
            settings=tuple(
                SettingChange(name=name, base=base, candidate=candidate, requests=requests)
                for (name, base, candidate), requests in self._settings.most_common()
            ),
        )
