"""Figures about the pieces into which documents were divided."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_LEAST_SHARE_OF_WORDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceStatistics:
    """How long pieces are, in characters; all 0 where there are none.

    Attributes:
        shortest: Length of the shortest.
        median: Half of them are at most this long.
        longest: Length of the longest.
        mostly_markup: How many have letters and digits in less than a quarter of what is not white space.
    """

    shortest: int
    median: int
    longest: int
    mostly_markup: int


def statistics_of(pieces: Sequence[str]) -> PieceStatistics:
    """Return the figures of pieces, none of them blank."""
    lengths = [len(piece) for piece in pieces] or [0]
    return PieceStatistics(
        shortest=min(lengths),
        median=statistics.median_low(lengths),
        longest=max(lengths),
        mostly_markup=sum(map(_is_mostly_markup, pieces)),
    )


def _is_mostly_markup(piece: str) -> bool:
    shown = "".join(piece.split())
    return sum(map(str.isalnum, shown)) < _LEAST_SHARE_OF_WORDS * len(shown)
