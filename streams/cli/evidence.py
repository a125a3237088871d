"""Results as people like to read them."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streams.cli import terminal
from streams.output.printable import printable
from streams.wire.results import LookupResult, Rejection

SNIPPET_CHARS = 160
OVER_RETURN_N = "over return-n"


def print_result(question: str, result: LookupResult, console: Console | None = None) -> None:
    """Print a question, its evidence and the ledger."""
    console = console or terminal.console()
    console.print(Text(printable(question), style="bold"))
    if result.evidence:
        console.print(_evidence_table(result))
    if result.error is not None:
        console.print(Text(printable(f"{result.error.code}: {result.error.message}"), style="red"))
    if isinstance(result.error, Rejection):
        for field in result.error.fields:
            console.print(Text(printable(f"  {field.field} = {field.value}: {field.problem}"), style="red"))
    empty_places = _empty_places(result)
    if empty_places is not None:
        console.print(Text(empty_places))
    console.print(_ledger_line(result))
    for dropped in result.dropped or ():
        into = f" into {dropped.merged_into}" if dropped.merged_into else ""
        console.print(
            Text(
                printable(
                    f"  dropped {dropped.document_id} (query {dropped.query}, rank {dropped.rank}):"
                    f" {dropped.reason}{into}"
                ),
                style="dim",
            )
        )
    console.print()


def _evidence_table(result: LookupResult) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=True, header_style="dim")
    table.add_column("#", justify="right", style="dim")
    table.add_column("score", justify="right")
    table.add_column("document_id, source and snippet", ratio=1)
    for item in result.evidence:
        where = Text.assemble(
            (printable(item.document_id), "bold cyan"), "  ", (printable(item.source or ""), "dim")
        )
        where.append(f"\n{_snippet(item.content)}")
        table.add_row(str(item.rank), f"{item.score:.3f}", where)
    return table


def _snippet(content: str) -> str:
    text = printable(" ".join(content.split()))
    return text if len(text) <= SNIPPET_CHARS else f"{text[: SNIPPET_CHARS - 1]}…"


def _empty_places(result: LookupResult) -> str | None:
    """Say why there are fewer pieces of evidence than asked for, or `None` where there are as many."""
    limits, projected = result.limits, result.ledger.projected
    if result.status not in {"ok", "partial"} or limits is None or projected >= limits.return_n:
        return None
    # The cut to return-n leaves no place empty.
    reasons = [f"{count} {why}" for why, count in _dropped(result).items() if count and why != OVER_RETURN_N]
    return f"{projected} of {limits.return_n} pieces: {', '.join(reasons) or 'no more were found'}"


def _dropped(result: LookupResult) -> dict[str, int]:
    ledger = result.ledger
    return {
        "rejected": ledger.rejected,
        "duplicates": ledger.duplicates,
        "over the document cap": ledger.over_document_cap,
        OVER_RETURN_N: ledger.over_return_n,
        "over budget": ledger.over_budget,
    }


def _ledger_line(result: LookupResult) -> Text:
    ledger = result.ledger
    parts = [f"{ledger.retrieved} retrieved"]
    parts += [f"{count} {reason}" for reason, count in _dropped(result).items() if count]
    return Text(f"{result.status}: {' - '.join(parts)} = {ledger.projected} projected", style="dim")
