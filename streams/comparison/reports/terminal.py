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
from streams.output.printable import printable

MAX_SHOWN_REQUESTS = 10
MAX_ID_CHARS = 40


def print_comparison(comparison: Comparison, checks: Sequence[Check], console: Console | None = None) -> None:
    """Print what was found, the overlaps, the worst requests and the checks."""
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
        console.print(_overlaps(comparison), Text(), sep="\n")
    if comparison.relevance is not None and comparison.relevance.measures:
        _print_relevance(comparison.relevance, console)
    for finding in findings(comparison):
        console.print(Text(f"• {printable(finding)}"))
    if comparison.worst:
        console.print(Text(), _worst(comparison.worst), sep="\n")
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
    return table


def _figures(overlap: MeanOverlap) -> tuple[float | None, ...]:
    return overlap.jaccard, overlap.rbo, overlap.top1


def _print_relevance(relevance: Relevance, console: Console) -> None:
    table = _table("relevance", "base", "candidate", "difference", "better", "worse", "p")
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
    console.print(table)
    console.print(
        f"(judged by {relevance.level}; {relevance.requests:,} requests, {relevance.missing:,} judged ones"
        " not compared; p of a paired t-test)\n",
        style="dim",
        highlight=False,
    )


def _worst(worst: Sequence[Difference]) -> Table:
    table = _table("worst requests", "change", "Jaccard", "RBO", "lost", "new")
    table.add_column("why")
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
