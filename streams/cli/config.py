"""`lookup-stage config`."""

from __future__ import annotations

from pathlib import Path

import click
import orjson


@click.command(epilog="Example: RAG_RETURN_N=3 lookup-stage config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def config(config_file: Path | None, *, as_json: bool) -> None:
    """Show every setting and where it comes from.

    Secrets are masked.
    """
    from rich.console import Console
    from rich.table import Table

    from streams.settings import loading

    settings = loading.load(config_file)
    values, sources = loading.effective(settings), loading.sources(settings, config_file)
    if as_json:
        entries = {key: {"value": value, "from": sources[key]} for key, value in values.items()}
        click.echo(orjson.dumps(entries, option=orjson.OPT_INDENT_2))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("key", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    for key, value in values.items():
        table.add_row(key, "-" if value is None else str(value), sources[key])
    Console().print(table)
