"""Distributions of figures in bounded memory."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

BINS = 20
"""Equal parts of 0 to 1; exactly 1 is a bin of its own, the last."""

NOISE = 1e-6
"""Scores that differ by less are taken for equal: engines add floats in another order each time."""

_GROWTH = 1.01
_LARGEST = 1e290
"""So that no sum of differences can overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How scores of the same evidence moved, candidate minus base.

    Attributes:
        pairs: How many pieces both sides have.
        moved: How many of them have another score.
        mean: Mean difference.
        mean_absolute: Mean size of the difference.
        max_absolute: Largest size.
        p95_absolute: The size that 95 % do not exceed, to 1 %.
    """

    pairs: int = 0
    moved: int = 0
    mean: float = 0.0
    mean_absolute: float = 0.0
    max_absolute: float = 0.0
    p95_absolute: float = 0.0


class Shares:
    """Counts figures from 0 to 1, and adds them up."""

    def __init__(self) -> None:
        self.bins = [0] * (BINS + 1)
        self.count = 0
        self._total = 0.0

    def add(self, share: float) -> None:
        """Count a figure."""
        self.bins[int(share * BINS)] += 1
        self.count += 1
        self._total += share

    @property
    def mean(self) -> float | None:
        """The mean, or `None` of nothing."""
        return self._total / self.count if self.count else None


class Drifts:
    """Collects differences of scores.

    Sizes are counted in bins that grow by 1 %, so that a quantile needs a few thousand counters however many
    differences there are.
    """

    def __init__(self) -> None:
        self._sizes: Counter[int] = Counter()
        self._pairs = 0
        self._moved = 0
        self._total = 0.0
        self._absolute = 0.0
        self._largest = 0.0

    def add(self, difference: float) -> None:
        """Count one pair's difference."""
        size = abs(difference := min(max(difference, -_LARGEST), _LARGEST))
        self._pairs += 1
        self._total += difference
        self._absolute += size
        self._largest = max(self._largest, size)
        if size > NOISE:
            self._moved += 1
            self._sizes[math.ceil(math.log(size, _GROWTH))] += 1

    def drift(self) -> Drift:
        """Return what was collected."""
        if not self._pairs:
            return Drift()
        return Drift(
            pairs=self._pairs,
            moved=self._moved,
            mean=self._total / self._pairs,
            mean_absolute=self._absolute / self._pairs,
            max_absolute=self._largest,
            p95_absolute=min(self._quantile(0.95), self._largest),
        )

    def _quantile(self, share: float) -> float:
        rank = math.ceil(share * self._pairs) - (self._pairs - self._moved)
        if rank <= 0:
            return 0.0
        exponents = sorted(self._sizes)
        counts = accumulate(self._sizes[exponent] for exponent in exponents)
        return _GROWTH ** next(
            exponent for exponent, count in zip(exponents, counts, strict=True) if count >= rank
        )
