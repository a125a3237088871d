"""Small charts as SVG: bars of a distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 420, 120
GAP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar, in the units of its chart's view box.

    Attributes:
        x: Left edge.
        y: Upper edge.
        width: Its width.
        height: Its height; 0 where nothing is counted, else at least 1.
        label: What it stands for.
        count: How many it stands for.
    """

    x: float
    y: float
    width: float
    height: float
    label: str
    count: int


def bars(counts: Sequence[int]) -> tuple[Bar, ...]:
    """Lay out the distribution of a share: equal parts of 0 to 1, and last exactly 1.

    Heights are square roots of counts: one request among thousands is still seen.
    """
    parts = len(counts) - 1
    most = max(counts, default=0) or 1
    step = WIDTH / len(counts)
    found = []
    for place, count in enumerate(counts):
        height = max((count / most) ** 0.5 * HEIGHT, 1.0) if count else 0.0
        label = f"{place / parts:.2f} to {(place + 1) / parts:.2f}" if place < parts else "exactly 1"
        found.append(
            Bar(
                x=round(place * step, 2),
                y=round(HEIGHT - height, 2),
                width=round(step - GAP, 2),
                height=round(height, 2),
                label=label,
                count=count,
            )
        )
    return tuple(found)
