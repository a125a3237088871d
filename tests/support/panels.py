"""Draws panels of the dashboard from what a Prometheus has seen."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.support.prometheus import PanelQuery, PrometheusServer, Series, panel_queries

MAIN = (
    "Traffic",
    "Latency",
    "Uncommitted",
    "Search latency",
    "Circuit",
    "Retries",
    "Evidence blocks",
    "Dropped candidates",
    "Dead letters",
)
COLUMNS = 3
UNITS = {"s": "seconds", "reqps": "per second", "cps": "per second", "short": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What to draw, in seconds of the wall clock.

    Attributes:
        job: Whose panels.
        start: From when.
        end: To when.
        shaded: From when to when something was wrong.
        step_s: Seconds between points.
        window: How far back rates look.
    """

    job: str
    start: float
    end: float
    shaded: tuple[float, float]
    step_s: float = 1.0
    window: str = "5s"


def draw(prometheus: PrometheusServer, view: View, file: Path) -> None:
    """Draw the main panels into a file."""
    figure = Figure(figsize=(13, 8), layout="constrained")
    axes = figure.subplots(-(-len(MAIN) // COLUMNS), COLUMNS, squeeze=False).flat
    for title, axis in zip(MAIN, axes, strict=True):
        queries = [query for query in panel_queries() if query.panel == title]
        for query in queries:
            seen = prometheus.series(
                query.over(view.window, job=view.job), start=view.start, end=view.end, step_s=view.step_s
            )
            for series in sorted(seen, key=lambda series: _name(query, series)):
                _plot(axis, series, _name(query, series), view.start)
        _dress(axis, queries[0], view)
    figure.savefig(file, dpi=85)


def _plot(axis: Axes, series: Series, name: str, start: float) -> None:
    # A quantile of nothing is no number, and an axis of nothing but those cannot be drawn.
    points = [(time - start, value) for time, value in series.points if math.isfinite(value)]
    if any(value for _, value in points):
        axis.plot(*zip(*points, strict=True), label=name, linewidth=1.2)


def _dress(axis: Axes, query: PanelQuery, view: View) -> None:
    axis.set_title(query.panel, loc="left", fontsize=10, fontweight="bold")
    axis.set_xlabel("seconds", fontsize=8)
    axis.set_xlim(0, view.end - view.start)
    axis.axvspan(view.shaded[0] - view.start, view.shaded[1] - view.start, color="0.92")
    axis.set_ylabel(UNITS[query.unit], fontsize=8)
    if query.logarithmic and axis.get_lines():
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0, top=axis.get_ylim()[1] * 1.1)
    if query.texts:
        axis.set_yticks(list(query.texts), list(query.texts.values()))
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    if axis.get_lines():
        axis.legend(fontsize=7, frameon=False, loc="best")


def _name(query: PanelQuery, series: Series) -> str:
    return re.sub(r"{{(\w+)}}", lambda label: series.labels.get(label[1], ""), query.legend)
