"""Below what a comparison counts as a regression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline.errors import ConfigurationError
from streams.comparison.comparing import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A threshold and what was found.

    Attributes:
        name: What is looked at, one of `MEASURES`.
        threshold: The least it may be.
        value: What it is; `None` where nothing could be compared, which fails.
    """

    name: str
    threshold: float
    value: float | None

    @property
    def passed(self) -> bool:
        """Whether the value reaches the threshold."""
        return self.value is not None and self.value >= self.threshold


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _joined(comparison: Comparison) -> float | None:
    requests = comparison.totals.requests
    return _share(requests, requests + comparison.base_counts.alone)


def _relevance(place: int) -> Callable[[Comparison], float | None]:
    def value(comparison: Comparison) -> float | None:
        relevance = comparison.relevance
        return relevance.measures[place].candidate if relevance and relevance.measures else None

    return value


RELEVANCE: Mapping[str, Callable[[Comparison], float | None]] = {
    "ndcg": _relevance(0),
    "recall": _relevance(1),
    "mrr": _relevance(2),
}

MEASURES: Mapping[str, Callable[[Comparison], float | None]] = {
    "jaccard": lambda comparison: comparison.totals.chunks.jaccard,
    "rbo": lambda comparison: comparison.totals.chunks.rbo,
    "top1": lambda comparison: comparison.totals.chunks.top1,
    "document-jaccard": lambda comparison: comparison.totals.documents.jaccard,
    "document-rbo": lambda comparison: comparison.totals.documents.rbo,
    "document-top1": lambda comparison: comparison.totals.documents.top1,
    "identical": lambda comparison: _share(
        comparison.totals.changes["identical"], comparison.totals.compared
    ),
    "retained": lambda comparison: comparison.totals.retained,
    "status": lambda comparison: _share(comparison.totals.statuses_kept, comparison.totals.requests),
    "joined": _joined,
    **RELEVANCE,
}
"""What a threshold may look at, each 0 to 1 and better the higher."""


def threshold(text: str, *, judged: bool) -> tuple[str, float]:
    """Read a threshold such as `jaccard=0.98`.

    Args:
        text: Name and least value.
        judged: Whether there are judgements of relevance.

    Raises:
        ConfigurationError: One line saying what is wrong with it and what is allowed.
    """
    name, _, figure = text.partition("=")
    allowed = f"must be NAME=SHARE with a share from 0 to 1 and a name of {', '.join(MEASURES)}"
    if name not in MEASURES:
        raise ConfigurationError(f"--fail-under {text!r}: {allowed}")
    if name in RELEVANCE and not judged:
        raise ConfigurationError(f"--fail-under {text!r}: {name} needs --qrels")
    try:
        least = float(figure)
    except ValueError:
        least = -1.0
    if not 0.0 <= least <= 1.0:
        raise ConfigurationError(f"--fail-under {text!r}: {allowed}")
    return name, least


def check(comparison: Comparison, thresholds: Mapping[str, float]) -> tuple[Check, ...]:
    """Hold a comparison against thresholds, in their order."""
    return tuple(
        Check(name=name, threshold=least, value=MEASURES[name](comparison))
        for name, least in thresholds.items()
    )
