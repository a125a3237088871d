"""`lookup-stage index`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path

import click
import orjson


@click.command(epilog="Example: MILVUS_URI=http://localhost:19530 lookup-stage index runbooks/")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def index(config_file: Path | None, path: Path, *, as_json: bool) -> None:
    """Write the chunks of documents to Milvus.

    PATH is a folder of Markdown, or a JSON Lines file of chunks. Indexing the same again changes nothing; a
    document that became shorter leaves no stale chunks.
    """
    from streams.cli.progress import progress_bar
    from streams.settings import loading
    from streams.worker.bootstrap import index_path

    settings = loading.load(config_file)
    with progress_bar("chunks") as progress:
        report = asyncio.run(index_path(settings, path, progress))
    if as_json:
        click.echo(orjson.dumps(asdict(report)))
    else:
        click.echo(
            f"{report.documents} documents, {report.chunks} chunks in {settings.milvus.collection}"
            f" ({report.deleted} stale ones deleted)"
        )
