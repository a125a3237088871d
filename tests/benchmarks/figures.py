"""What a benchmark comes to: figures, medians over interleaved rounds, and what must be shown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure.

    Attributes:
        name: What it is.
        value: The median of the rounds.
        unit: Of the value: `/s`, `µs`, `ms`, `s`, or `x` for a ratio.
        bound: What it must be `at least` or `at most`, if anything.
        limit: The bound.
        rounds: The value of each round.
    """

    name: str
    value: float
    unit: str
    bound: Literal["at least", "at most"] | None = None
    limit: float | None = None
    rounds: tuple[float, ...] = ()

    @property
    def margin(self) -> float | None:
        """How many times better than the bound it is; `None` where nothing is asked."""
        if self.limit is None:
            return None
        if self.bound == "at least":
            return self.value / self.limit
        return self.limit / self.value if self.value > 0 else math.inf

    @property
    def met(self) -> bool | None:
        """Whether it is as it must be; `None` where nothing is asked."""
        return None if self.margin is None else self.margin >= 1

    def __str__(self) -> str:
        value = f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:.3g}"
        met = "yes" if self.met else "NO"
        asked = "" if self.limit is None else f"  ({self.bound} {self.limit:g}: {met})"
        return f"{self.name:<66} {value:>9} {self.unit}{asked}"


def interleaved(
    contestants: Mapping[str, Callable[[], float]], rounds: int, say: Callable[[str], object]
) -> dict[str, list[float]]:
    """Measure each contestant once a round, so that whatever disturbs the machine disturbs them all."""
    measured: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, measure in contestants.items():
            say(f"round {number + 1} of {rounds}: {name}")
            measured[name].append(measure())
    return measured


def rate(name: str, values: Sequence[float], unit: str = "/s") -> Figure:
    """Return the median of the rounds."""
    return Figure(name=name, value=statistics.median(values), unit=unit, rounds=tuple(values))


def ratio(
    name: str, values: Sequence[float], others: Sequence[float], *, at_least: float | None = None
) -> Figure:
    """Return the median of the rounds' ratios."""
    rounds = tuple(value / other for value, other in zip(values, others, strict=True))
    return Figure(
        name=name,
        value=statistics.median(rounds),
        unit="x",
        bound=None if at_least is None else "at least",
        limit=at_least,
        rounds=rounds,
    )
