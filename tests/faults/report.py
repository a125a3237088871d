"""What a scenario found, as a line for people and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Figure: TypeAlias = int | float | str


@dataclass(slots=True, kw_only=True)
class Report:
    """Figures of one scenario, and which of its conditions did not hold.

    Attributes:
        scenario: Its name.
        load: What was done to the stage, in words.
        figures: What was measured, by name.
        broken: The conditions that did not hold; none where it passed.
    """

    scenario: str
    load: str
    figures: dict[str, Figure] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def require(self, condition: str, *, holds: bool) -> None:
        """Note a condition that did not hold."""
        if not holds:
            self.broken.append(condition)

    def require_one_line(self, log: str, words: str) -> None:
        """Require that beside its log lines a worker has printed one line, with these words."""
        lines = [line for line in log.splitlines() if not line.startswith("{")]
        self.require(f"one line says {words!r}, not {lines[:3]}", holds=len(lines) == 1 and words in lines[0])

    @property
    def passed(self) -> bool:
        """Whether every condition held."""
        return not self.broken

    @property
    def line(self) -> str:
        """Everything in one line."""
        figures = " ".join(f"{name}={_shown(value)}" for name, value in self.figures.items())
        verdict = "PASS" if self.passed else f"FAIL ({'; '.join(self.broken)})"
        return f"{self.scenario}: {verdict} | {self.load} | {figures}"

    @property
    def document(self) -> dict[str, Any]:
        """Everything as an object for JSON."""
        return {
            "scenario": self.scenario,
            "passed": self.passed,
            "load": self.load,
            "figures": self.figures,
            "broken": self.broken,
        }


def _shown(value: Figure) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
