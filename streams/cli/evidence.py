"""Results as people like to read them."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from streams.wire.results import LookupResult, Rejection

SNIPPET_CHARS = 160


def print_result(question: str, result: LookupResult, console: Console | None = None) -> None:
    """Print a question, its evidence and the ledger."""
    console = console or Console()
    console.print(Text(question, style="bold"))
    if result.evidence:
        console.print(_evidence_table(result))
    if result.error is not None:
        console.print(Text(f"{result.error.code}: {result.error.message}", style="red"))
    if isinstance(result.error, Rejection):
        for field in result.error.fields:
            console.print(Text(f"  {field.field} = {field.value}: {field.problem}", style="red"))
    console.print(_ledger_line(result))
    for dropped in result.dropped or ():
        into = f" into {dropped.merged_into}" if dropped.merged_into else ""
        console.print(
            Text(
                f"  dropped {dropped.document_id} (query {dropped.query}, rank {dropped.rank}):"
                f" {dropped.reason}{into}",
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
        where = Text.assemble((item.document_id, "bold cyan"), "  ", (item.source or "", "dim"))
        where.append(f"\n{_snippet(item.content)}")
        table.add_row(str(item.rank), f"{item.score:.3f}", where)
    return table


def _snippet(content: str) -> str:
    text = " ".join(content.split())
    return text if len(text) <= SNIPPET_CHARS else f"{text[: SNIPPET_CHARS - 1]}…"


def _ledger_line(result: LookupResult) -> Text:
    ledger = result.ledger
    dropped = {
        "rejected": ledger.rejected,
        "duplicates": ledger.duplicates,
        "over the document cap": ledger.over_document_cap,
        "over return-n": ledger.over_return_n,
        "over budget": ledger.over_budget,
    }
    parts = [f"{ledger.retrieved} retrieved"]
    parts += [f"{count} {reason}" for reason, count in dropped.items() if count]
    return Text(f"{result.status}: {' - '.join(parts)} = {ledger.projected} projected", style="dim")
