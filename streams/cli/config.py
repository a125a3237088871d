"""`lookup-stage config`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import orjson

from streams.output.printable import printable

MAX_ALIGNED_CHARS = 28
"""Longer values do not push the origins of all others to the right."""


@click.command(epilog="Example: RAG_RETURN_N=3 lookup-stage config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def config(config_file: Path | None, *, as_json: bool) -> None:
    """Show every setting and where it comes from.

    Secrets are masked.
    """
    from streams.cli.terminal import is_terminal
    from streams.settings import loading

    settings = loading.load(config_file)
    values, sources = loading.effective(settings), loading.sources(settings, config_file)
    if as_json:
        entries = {key: {"value": value, "from": sources[key]} for key, value in values.items()}
        click.echo(orjson.dumps(entries, option=orjson.OPT_INDENT_2))
        return
    rows = [("key", "value", "from")]
    rows += [(key, "-" if value is None else str(value), sources[key]) for key, value in values.items()]
    columns = shutil.get_terminal_size().columns if is_terminal() else None
    for line in lines(rows, columns):
        click.echo(printable(line))


def lines(rows: Sequence[tuple[str, str, str]], columns: int | None) -> Iterator[str]:
    """Return the lines of a table; values are never cut, nor broken by anything but the terminal.

    Args:
        rows: Key, value and origin.
        columns: How many the terminal has; a row that needs more is not aligned, or given three lines.
            `None` if every row is one line.
    """
    keys = max(len(key) for key, _, _ in rows)
    values = max((len(value) for _, value, _ in rows if len(value) <= MAX_ALIGNED_CHARS), default=0)
    for key, value, origin in rows:
        aligned, close = f"{key:<{keys}}  {value:<{values}}  {origin}", f"{key}  {value}  {origin}"
        fitting = [line for line in (aligned, close) if columns is None or len(line) <= columns]
        yield from fitting[:1] or (key, f"  {value}", f"  {origin}")
