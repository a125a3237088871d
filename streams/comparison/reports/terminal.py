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
MIN_NAME_CHARS = 12
"""Of the first column of a table; in less its words are broken."""

_GAP = "  "
_WHY = "why"


def print_comparison(comparison: Comparison, checks: Sequence[Check], console: Console) -> None:
    """Print what was found, the overlaps, the worst requests and the checks."""
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
        _print_overlaps(comparison, console)
    if comparison.relevance is not None and comparison.relevance.measures:
        _print_relevance(comparison.relevance, console)
    for finding in findings(comparison):
        console.print(Text(f"• {printable(finding)}"))
    if comparison.worst:
        console.print()
        _print_worst(comparison.worst, console)
    for one in checks:
        console.print(_check(one))


def _print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table, or below each other on a terminal that is too narrow for their figures."""
    figures = sum(len(column) + len(_GAP) for column in columns[1:])
    if MIN_NAME_CHARS + figures > console.width:
        for name, *values in rows:
            console.print(Text(name))
            for column, value in zip(columns[1:], values, strict=True):
                console.print(Text(f"  {column} {value}"))
    else:
        console.print(_table(columns, rows))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="dim")
    table.add_column(columns[0], overflow="fold")
    for column in columns[1:]:
        if column == _WHY:
            table.add_column(column)
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _print_overlaps(comparison: Comparison, console: Console) -> None:
    levels = {"by evidence": comparison.totals.chunks, "by document": comparison.totals.documents}
    rows = [[name, *map(share, _figures(overlap))] for name, overlap in levels.items()]
    _print_table(console, ["overlap", f"Jaccard@{comparison.depth}", "RBO", "same top 1"], rows)
    console.print()


def _figures(overlap: MeanOverlap) -> tuple[float | None, ...]:
    return overlap.jaccard, overlap.rbo, overlap.top1


def _print_relevance(relevance: Relevance, console: Console) -> None:
    rows = [
        [
            one.name,
            share(one.base),
            share(one.candidate),
            f"{one.candidate - one.base:+.4f}",
            f"{one.better:,}",
            f"{one.worse:,}",
            "-" if one.p_value is None else f"{one.p_value:.3g}",
        ]
        for one in relevance.measures
    ]
    _print_table(console, ["relevance", "base", "candidate", "difference", "better", "worse", "p"], rows)
    console.print(
        f"(judged by {relevance.level}; {relevance.requests:,} requests, {relevance.missing:,} judged ones"
        " not compared; p of a paired t-test)\n",
        style="dim",
        highlight=False,
    )


def _print_worst(worst: Sequence[Difference], console: Console) -> None:
    rows = [
        [
            _short(printable(difference.base.request_id)),
            difference.change,
            share(None if difference.chunks is None else difference.chunks.jaccard),
            share(None if difference.chunks is None else difference.chunks.rbo),
            str(len(difference.lost)),
            str(len(difference.new)),
            why(difference),
        ]
        for difference in worst[:MAX_SHOWN_REQUESTS]
    ]
    _print_table(console, ["worst requests", "change", "Jaccard", "RBO", "lost", "new", _WHY], rows)


def _short(request_id: str) -> str:
    return request_id if len(request_id) <= MAX_ID_CHARS else f"{request_id[: MAX_ID_CHARS - 1]}…"


def _check(one: Check) -> Text:
    verdict, style = ("passed", "green") if one.passed else ("FAILED", "bold red")
    return Text.assemble(
        (verdict, style), f" {one.name} is {share(one.value)}, must be at least {one.threshold:g}"
    )
