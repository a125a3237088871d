"""Which offsets may be committed where some have no record."""

from __future__ import annotations

import pytest

from streams.worker.offset_gaps import OffsetGaps

TP = ("lookup.requests", 0)


def delivered(*offsets: int, begin: int | None) -> OffsetGaps:
    """Return what is known once records were delivered, from a place on."""
    gaps, previous = OffsetGaps(), begin
    for offset in offsets:
        gaps.note(TP, previous, offset)
        previous = offset
    return gaps


@pytest.mark.parametrize(
    ("offsets", "begin", "committed", "done", "count"),
    [
        pytest.param((0, 1, 2), None, None, (0, 1, 2), 3, id="no gap"),
        pytest.param((0, 1, 2), None, None, (0, 2), 1, id="one is in work"),
        pytest.param((4, 5), None, None, (4, 5), 2, id="nothing committed, the first ones have no record"),
        pytest.param((0, 4, 5), None, None, (0, 4, 5), 3, id="behind offset 0"),
        pytest.param((0, 4, 5), None, 1, (4, 5), 2, id="behind offset 0, which is committed"),
        pytest.param((3, 9, 10), 3, 3, (3, 9, 10), 3, id="in the middle"),
        pytest.param((3, 9, 10), 3, 3, (9, 10), 0, id="the one before the gap is in work"),
        pytest.param((9,), 3, 3, (9,), 1, id="reading began in a gap"),
        pytest.param((3, 10**12), 3, 4, (10**12,), 1, id="a trillion offsets were compacted away"),
        pytest.param((3, 4), 3, 3, (4,), 0, id="one that was dropped is no gap"),
        pytest.param((3, 4), 3, 5, (3, 4), 2, id="delivered again"),
        pytest.param((), None, None, (), 0, id="nothing is done"),
    ],
)
def test_commits_pass_gaps_and_nothing_else(
    offsets: tuple[int, ...], begin: int | None, committed: int | None, done: tuple[int, ...], count: int
) -> None:
    """An offset is passed if it has no record, and never if its record is not done."""
    assert delivered(*offsets, begin=begin).contiguous(TP, done, committed) == count


def test_gaps_that_are_committed_are_forgotten() -> None:
    """Memory does not grow, and the gap at the commit stays known until it is passed."""
    gaps = delivered(*range(0, 3_000, 3), begin=None)
    assert gaps.contiguous(TP, range(0, 2_998, 3), None) == 1_000
    assert len(gaps._behind[TP]) == 0
    gaps.note(TP, 2_997, 3_010)
    assert gaps.contiguous(TP, (3_010,), 2_998) == 1


def test_gaps_of_another_partition_do_not_count() -> None:
    """Nor do those of one that was given away."""
    gaps = delivered(0, 4, begin=None)
    assert gaps.contiguous(("lookup.requests", 1), (0, 4), None) == 1
    gaps.forget([TP])
    assert gaps.contiguous(TP, (0, 4), None) == 1
