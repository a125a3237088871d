"""`lookup-stage config`."""

from __future__ import annotations

from pathlib import Path

import click
import orjson


@click.command(epilog="Example: RAG_RETURN_N=3 lookup-stage config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def config(config_file: Path | None, *, as_json: bool) -> None:
    """Shows every setting, its value and where that comes from; secrets are masked."""
    from rich.console import Console
    from rich.table import Table

    from streams import configuration

    settings = configuration.load(config_file)
    values = configuration.effective(settings)
    if as_json:
        entries = {key: {"value": value, "from": configuration.origin(key)} for key, value in values.items()}
        click.echo(orjson.dumps(entries, option=orjson.OPT_INDENT_2))
        return
    table = Table("key", "value", "from", box=None, pad_edge=False)
    for key, value in values.items():
        table.add_row(key, "-" if value is None else str(value), configuration.origin(key))
    Console().print(table)
