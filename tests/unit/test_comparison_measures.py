"""Overlap of rankings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.comparison.measures import PERSISTENCE, jaccard, rank_biased_overlap, same_first

RANKINGS = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=8)
PERSISTENCES = st.sampled_from([0.1, 0.5, PERSISTENCE, 0.98])


def extrapolated(left: list[str], right: list[str], p: float) -> float:
    """Sum the definition term by term, far beyond where p leaves any weight.

    Within the shorter list agreement is what is seen; where only the longer one goes on, the shorter is
    assumed to go on agreeing as it did; after both, agreement stays what it was.
    """
    s, l = sorted((len(left), len(right)))  # noqa: E741

    def common(depth: int) -> int:
        return len({*left[:depth]} & {*right[:depth]})

    def agreement(depth: int) -> float:
        depth = min(depth, l)
        assumed = (depth - s) * common(s) / s if depth > s else 0.0
        return (common(depth) + assumed) / depth

    return (1 - p) * sum(p ** (depth - 1) * agreement(depth) for depth in range(1, 3_000))


# Jaccard


@pytest.mark.parametrize(
    ("left", "right", "depth", "value"),
    [
        ("abc", "abc", 10, 1.0),
        ("abc", "cab", 10, 1.0),
        ("abc", "abd", 10, 0.5),
        ("abc", "abd", 2, 1.0),
        ("abc", "def", 10, 0.0),
        ("abcde", "ab", 10, 0.4),
        ("", "", 10, 1.0),
        ("", "a", 10, 0.0),
    ],
)
def test_jaccard_is_the_share_of_common_items(left: str, right: str, depth: int, value: float) -> None:
    """Of the first `depth` of each, whatever their order; two empty lists are alike."""
    assert jaccard(left, right, depth=depth) == value


# Rank-biased overlap


@pytest.mark.parametrize(
    ("left", "right", "p", "value"),
    [
        ("abcde", "bcdae", 0.9, 0.828),  # 0.1 (0 + 0.9 / 2 + 0.81 * 2 / 3 + 0.729 + 0.6561) + 0.59049
        ("ab", "ba", 0.5, 0.5),  # nothing agrees at depth 1, everything at 2 and beyond: 1/4 + 1/8 + …
        ("a", "ba", 0.5, 0.25),  # nothing agrees at depth 1, one of two at 2 and beyond
        ("ab", "abcd", 0.9, 1.0),
        ("abc", "def", 0.9, 0.0),
        ("", "", 0.9, 1.0),
        ("", "abc", 0.9, 0.0),
    ],
)
def test_rank_biased_overlap_has_known_values(left: str, right: str, p: float, value: float) -> None:
    """Worked out by hand from the definition."""
    assert rank_biased_overlap(left, right, p=p) == pytest.approx(value, abs=1e-12)


@given(RANKINGS.filter(bool), RANKINGS.filter(bool), PERSISTENCES)
def test_rank_biased_overlap_is_the_infinite_sum_of_its_definition(
    left: list[str], right: list[str], p: float
) -> None:
    """The closed form equals the sum, for lists of one length and of two."""
    assert rank_biased_overlap(left, right, p=p) == pytest.approx(extrapolated(left, right, p), abs=1e-9)


def test_rank_biased_overlap_minds_the_first_ranks_most() -> None:
    """A swap at the top costs more than one at the bottom."""
    assert rank_biased_overlap("abcde", "bacde") < rank_biased_overlap("abcde", "abced") < 1.0


# Laws of all measures


@given(RANKINGS, RANKINGS, st.integers(min_value=1, max_value=8), PERSISTENCES)
def test_measures_are_symmetric_and_within_bounds(
    left: list[str], right: list[str], depth: int, p: float
) -> None:
    """0 to 1, and neither side is the first."""
    overlap = rank_biased_overlap(left, right, p=p)
    assert 0.0 <= overlap <= 1.0
    assert overlap == rank_biased_overlap(right, left, p=p)
    assert 0.0 <= jaccard(left, right, depth=depth) <= 1.0
    assert jaccard(left, right, depth=depth) == jaccard(right, left, depth=depth)
    assert same_first(left, right) == same_first(right, left)


@given(RANKINGS, st.integers(min_value=1, max_value=8), PERSISTENCES)
def test_a_ranking_is_wholly_like_itself(ranking: list[str], depth: int, p: float) -> None:
    """Identity gives 1.0."""
    assert jaccard(ranking, ranking, depth=depth) == 1.0
    assert rank_biased_overlap(ranking, ranking, p=p) == pytest.approx(1.0, abs=1e-12)
    assert same_first(ranking, ranking)


@given(RANKINGS, RANKINGS)
def test_only_equal_sets_have_a_jaccard_of_one(left: list[str], right: list[str]) -> None:
    """Jaccard over whole lists is 1.0 for the same items and for nothing else."""
    assert (jaccard(left, right, depth=10) == 1.0) == (set(left) == set(right))
