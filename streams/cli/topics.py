"""`lookup-stage topics`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import click
import orjson


@click.command(epilog="Example: lookup-stage topics --partitions 8 --replication 3")
@click.option(
    "--partitions", type=click.IntRange(min=1), default=8, show_default=True, help="Of a new topic."
)
@click.option(
    "--replication", type=click.IntRange(min=1), default=1, show_default=True, help="Of a new topic."
)
@click.option("--dry-run", is_flag=True, help="Create nothing; exit 1 where something is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def topics(
    config_file: Path | None, *, partitions: int, replication: int, dry_run: bool, as_json: bool
) -> int:
    """Create missing topics, reports the others."""
    from streams.kafka.topics import ensure_topics
    from streams.settings import loading

    settings = loading.load(config_file)
    states = asyncio.run(
        ensure_topics(settings, partitions=partitions, replication=replication, dry_run=dry_run)
    )
    if as_json:
        click.echo(orjson.dumps([asdict(state) for state in states]))
    else:
        for state in states:
            what = "created" if state.created else "exists" if state.partitions else "missing"
            note = f"  ({state.note})" if state.partitions and state.note else ""
            click.echo(f"{state.name:<24} {what:<8} {state.partitions} partitions{note}")
    return 1 if any(not state.partitions for state in states) else 0
