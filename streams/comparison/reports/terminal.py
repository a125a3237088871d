"""A comparison on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streams.comparison.comparing import Comparison
from streams.comparison.differences import Difference
from streams.comparison.findings import findings
from streams.comparison.relevance import Relevance
from streams.comparison.reports.words import share, why
from streams.comparison.summary import MeanOverlap
from streams.comparison.thresholds import Check
from streams.printable import printable

MAX_SHOWN_REQUESTS = 10
MAX_ID_CHARS = 40


def print_comparison(comparison: Comparison, checks: Sequence[Check], console: Console | None = None) -> None:
    """Prints what was found, the overlaps, the worst requests and the checks."""
    console = console or Console()
    totals = comparison.totals
    console.print(Text(printable(f"{comparison.base} → {comparison.candidate}"), style="bold"))
    console.print(
        f"requests in both: {totals.requests:,}, compared: {totals.compared:,}"
        f" ({totals.changes['identical']:,} identical, {totals.changes['reordered']:,} reordered,"
        f" {totals.changes['changed']:,} changed); results the same to the byte:"
        f" {totals.identical_results:,}\n",
        highlight=False,
    )
    if totals.compared:
        console.print(_overlaps(comparison))
    if comparison.relevance is not None and comparison.relevance.measures:
        console.print(_relevance(comparison.relevance))
    for finding in findings(comparison):
        console.print(Text(f"• {printable(finding)}"))
    if comparison.worst:
        console.print(_worst(comparison.worst))
    for one in checks:
        console.print(_check(one))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(columns[0], overflow="fold")
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _overlaps(comparison: Comparison) -> Table:
    table = _table("overlap", f"Jaccard@{comparison.depth}", "RBO", "same top 1")
    levels = {"by evidence": comparison.totals.chunks, "by document": comparison.totals.documents}
    for name, overlap in levels.items():
        table.add_row(name, *map(share, _figures(overlap)))
    table.add_row("")
    return table


def _figures(overlap: MeanOverlap) -> tuple[float | None, ...]:
    return overlap.jaccard, overlap.rbo, overlap.top1


def _relevance(relevance: Relevance) -> Table:
    judged = f"relevance, judged by {relevance.level}"
    table = _table(judged, "base", "candidate", "difference", "better", "worse", "p (paired t-test)")
    for one in relevance.measures:
        table.add_row(
            one.name,
            share(one.base),
            share(one.candidate),
            f"{one.candidate - one.base:+.4f}",
            f"{one.better:,}",
            f"{one.worse:,}",
            "-" if one.p_value is None else f"{one.p_value:.3g}",
        )
    table.add_row(f"{relevance.requests:,} requests, {relevance.missing:,} judged ones not compared\n")
    return table


def _worst(worst: Sequence[Difference]) -> Table:
    table = _table("\nworst requests", "\nchange", "\nJaccard", "\nRBO", "\nlost", "\nnew")
    table.add_column("\nwhy")
    for difference in worst[:MAX_SHOWN_REQUESTS]:
        overlap = difference.chunks
        table.add_row(
            Text(_short(printable(difference.base.request_id))),
            difference.change,
            share(None if overlap is None else overlap.jaccard),
            share(None if overlap is None else overlap.rbo),
            str(len(difference.lost)),
            str(len(difference.new)),
            Text(why(difference)),
        )
    return table


def _short(request_id: str) -> str:
    return request_id if len(request_id) <= MAX_ID_CHARS else f"{request_id[: MAX_ID_CHARS - 1]}…"


def _check(one: Check) -> Text:
    verdict, style = ("passed", "green") if one.passed else ("FAILED", "bold red")
    return Text.assemble(
        (verdict, style), f" {one.name} is {share(one.value)}, must be at least {one.threshold:g}"
    )
