"""How alike two rankings are. Pure functions, symmetric, 1.0 for equal rankings and never outside 0 to 1."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

PERSISTENCE = 0.9
"""The p of rank-biased overlap: the first 10 ranks carry 86 % of the weight (Webber et al. 2010)."""


def jaccard(left: Sequence[Hashable], right: Sequence[Hashable], *, depth: int) -> float:
    """Return the share of items that both have among those that either has, in the first `depth` of each.

    Returns:
        0.0 to 1.0, whatever the order; 1.0 where both are empty.
    """
    first, second = set(left[:depth]), set(right[:depth])
    union = first | second
    return len(first & second) / len(union) if union else 1.0


def rank_biased_overlap(
    left: Sequence[Hashable], right: Sequence[Hashable], *, p: float = PERSISTENCE
) -> float:
    """Return the extrapolated rank-biased overlap, RBO_ext.

    It weighs the agreement at each depth, the first ranks most, and assumes that it goes on as it was beyond
    the ends of the lists. So a ranking and a prefix of it have 1.0: nothing that can be seen disagrees.

    Args:
        left: Best first, no item twice.
        right: Best first, no item twice; the lists may have different lengths.
        p: How far down the reader goes, over 0 and under 1.

    Returns:
        0.0 to 1.0; 1.0 where both are empty, 0.0 where one is.

    Source: W. Webber, A. Moffat, J. Zobel, "A similarity measure for indefinite rankings", ACM TOIS 28(4),
    2010, equation 32.
    """
    if left == right:
        return 1.0
    shorter, longer = (left, right) if len(left) <= len(right) else (right, left)
    s, l = len(shorter), len(longer)  # noqa: E741 - the paper's names
    if s == 0:
        return 0.0
    overlaps = _overlaps(shorter, longer)
    x_s, x_l = overlaps[s - 1], overlaps[l - 1]
    seen = sum(overlap / d * p**d for d, overlap in enumerate(overlaps, start=1))
    assumed = sum(x_s * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    beyond = ((x_l - x_s) / l + x_s / s) * p**l
    return round(
        (1 - p) / p * (seen + assumed) + beyond, 12
    )  # so that a ranking and a prefix have exactly 1.0


def same_first(left: Sequence[Hashable], right: Sequence[Hashable]) -> bool:
    """Return whether both rankings have the same first item, or both have none."""
    return left[:1] == right[:1]


def _overlaps(shorter: Sequence[Hashable], longer: Sequence[Hashable]) -> list[int]:
    """Return, for each depth of the longer list, how many items both have down to it."""
    above_in_shorter: set[Hashable] = set()
    above_in_longer: set[Hashable] = set()
    overlaps: list[int] = []
    common = 0
    for depth, item in enumerate(longer):
        above_in_longer.add(item)
        common += item in above_in_shorter
        if depth < len(shorter):
            above_in_shorter.add(shorter[depth])
            common += shorter[depth] in above_in_longer
        overlaps.append(common)
    return overlaps
