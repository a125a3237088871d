"""A comparison as one HTML page: no network, no script but its own, whatever the evidence says."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from streams.comparison.comparing import Comparison
from streams.comparison.differences import Difference
from streams.comparison.findings import WHY, findings
from streams.comparison.reports.cards import cards
from streams.comparison.reports.charts import HEIGHT, WIDTH, bars
from streams.comparison.reports.words import share, why
from streams.comparison.thresholds import Check

_FOLDER = "templates"


def html_page(comparison: Comparison, checks: Sequence[Check]) -> str:
    """Return the page; the requests that changed most are in it whole, all others as figures.

    Everything that comes from recordings is escaped, and the page's policy lets no script and no style be
    used but its own, and nothing be loaded.
    """
    environment = Environment(
        loader=PackageLoader("streams.comparison.reports", _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script, style = _own("page.js"), _own("page.css")
    return environment.get_template("page.html").render(
        comparison=comparison,
        totals=comparison.totals,
        checks=checks,
        findings=findings(comparison),
        script=Markup(script),  # noqa: S704 - the package's own file
        style=Markup(style),  # noqa: S704 - the package's own file
        script_hash=_hash(script),
        style_hash=_hash(style),
        bars=bars,
        chart_size=(WIDTH, HEIGHT),
        cards=cards,
        share=share,
        why=why,
        reasons=WHY,
        drift=_drift,
    )


def _own(name: str) -> str:
    return (files("streams.comparison.reports") / _FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _drift(difference: Difference) -> float:
    """Return the largest change of a score in a request."""
    return max((abs(pair.candidate.score - pair.base.score) for pair in difference.pairs), default=0.0)
