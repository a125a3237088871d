"""Distributions in bounded memory."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.comparison.distributions import BINS, NOISE, Drift, Drifts, Shares


def collected(*differences: float) -> Drift:
    """Return the drift of differences."""
    drifts = Drifts()
    for difference in differences:
        drifts.add(difference)
    return drifts.drift()


def test_drift_has_mean_largest_and_95_percent_of_sizes() -> None:
    """Of 100 differences the 95th in size; the mean has signs, the sizes have none."""
    drift = collected(*(-place / 100 for place in range(1, 51)), *(place / 100 for place in range(51, 101)))
    assert (drift.pairs, drift.moved, drift.max_absolute) == (100, 100, 1.0)
    assert drift.mean == pytest.approx(0.25)
    assert drift.mean_absolute == pytest.approx(0.505)
    assert drift.p95_absolute == pytest.approx(0.95, rel=0.01)


def test_noise_is_no_move() -> None:
    """Engines add floats in another order each time."""
    drift = collected(NOISE / 2, 0.0, 0.5)
    assert (drift.pairs, drift.moved) == (3, 1)
    assert collected(*[0.0] * 99, 0.5).p95_absolute == 0.0


def test_no_pairs_have_no_drift() -> None:
    """All zero, and no division by it."""
    assert collected() == Drift()


@given(st.lists(st.floats(min_value=-1e300, max_value=1e300), min_size=1, max_size=50))
def test_quantile_is_the_exact_one_to_one_percent(differences: list[float]) -> None:
    """However large or small the differences are; never over the largest."""
    drift = collected(*differences)
    sizes = sorted(min(abs(each), 1e290) for each in differences)
    exact = sizes[math.ceil(0.95 * len(sizes)) - 1]
    assert drift.p95_absolute <= drift.max_absolute
    if exact > NOISE:
        assert exact * (1 - 1e-9) <= drift.p95_absolute <= exact * 1.01 * (1 + 1e-9)
    else:
        assert drift.p95_absolute == 0.0


@given(st.lists(st.floats(min_value=0.0, max_value=1.0), max_size=50))
def test_every_share_is_in_one_bin_and_only_one_is_in_the_last(shares: list[float]) -> None:
    """Equal parts of 0 to 1; exactly 1 is by itself."""
    found = Shares()
    for share in shares:
        found.add(share)
    assert sum(found.bins) == len(shares)
    assert found.bins[BINS] == shares.count(1.0)
    assert found.mean == (pytest.approx(math.fsum(shares) / len(shares)) if shares else None)
