"""Figures about pieces."""

from __future__ import annotations

from streams.indexing.statistics import PieceStatistics, statistics_of


def test_lengths_and_markup_are_counted() -> None:
    """White space is no markup."""
    pieces = ["word", "two words   and more", "| - | - | a |", "```\n}\n)\n```"]
    assert statistics_of(pieces) == PieceStatistics(shortest=4, median=11, longest=20, mostly_markup=2)


def test_no_pieces_have_no_length() -> None:
    """A folder of blank documents is no error."""
    assert statistics_of([]) == PieceStatistics(shortest=0, median=0, longest=0, mostly_markup=0)
