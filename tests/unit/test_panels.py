"""Pictures of the dashboard are drawn of whatever a Prometheus has seen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.support.panels import View, draw
from tests.support.prometheus import PrometheusServer, Series, panel_queries

LABELS = {name: name for query in panel_queries() for name in re.findall(r"{{(\w+)}}", query.legend)}


class Seen:
    """Stands for a Prometheus whose every query has one series of the same values."""

    def __init__(self, *values: float) -> None:
        self._values = values

    def series(self, _expression: str, *, start: float, **_span: float) -> Iterator[Series]:
        """Yield a value a second."""
        yield Series(
            labels=LABELS, points=tuple((start + at, value) for at, value in enumerate(self._values))
        )


@pytest.mark.parametrize("values", [(1.0, 2.0), (math.nan, 0.5), (math.nan,), (0.0,), (math.inf,), ()])
def test_panels_are_drawn_of_any_values(tmp_path: Path, values: tuple[float, ...]) -> None:
    """A quantile of no requests is no number; before the first scrape there is nothing at all."""
    file = tmp_path / "panels.png"
    view = View(job="stage", start=100.0, end=110.0, shaded=(103.0, 105.0))
    draw(cast("PrometheusServer", Seen(*values)), view, file)
    assert file.read_bytes().startswith(b"\x89PNG")
