"""`lookup-stage topics`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import orjson

from streams.cli.options import count

MAX_COPIES = 2**15 - 1
"""As many as Kafka's protocol can say."""


@click.command(epilog="Example: lookup-stage topics --partitions 8 --replication 3")
@click.option("--partitions", type=count(), default=8, show_default=True, help="Of a new topic.")
@click.option(
    "--replication", type=count(maximum=MAX_COPIES), default=1, show_default=True, help="Of a new topic."
)
@click.option(
    "--recordings", is_flag=True, help="Include the topic of recordings although stage.recording is off."
)
@click.option("--dry-run", is_flag=True, help="Create nothing; exit 1 where something is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def topics(config_file: Path | None, /, *, as_json: bool, **wanted: Any) -> int:
    """Create missing topics, report the others."""
    from streams.kafka.topics import ensure_topics
    from streams.settings import loading

    states = asyncio.run(ensure_topics(loading.load(config_file), **wanted))
    if as_json:
        click.echo(orjson.dumps([asdict(state) for state in states]))
    else:
        for state in states:
            what = "created" if state.created else "exists" if state.partitions else "missing"
            note = f"  ({state.note})" if state.partitions and state.note else ""
            click.echo(f"{state.name:<24} {what:<8} {state.partitions} partitions{note}")
    return 1 if any(not state.partitions for state in states) else 0
