"""`lookup-stage index`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from streams.indexing import IndexReport

DEFAULT_CHUNK_SIZE = 800
SMALLEST_CHUNK_SIZE, LARGEST_CHUNK_SIZE = 100, 16_000
"""A fence or a table needs some room, and Milvus stores 65,535 bytes of text."""


@click.command(epilog="Example: MILVUS_URI=http://localhost:19530 lookup-stage index runbooks/")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--chunk-size",
    type=click.IntRange(SMALLEST_CHUNK_SIZE, LARGEST_CHUNK_SIZE),
    help=f"Most characters of a chunk of Markdown.  [default: {DEFAULT_CHUNK_SIZE}]",
)
@click.option(
    "--dry-run", is_flag=True, help="Check everything and say what would be written; no server needed."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def index(
    config_file: Path | None, path: Path, chunk_size: int | None, *, dry_run: bool, as_json: bool
) -> None:
    """Write the chunks of documents to Milvus.

    PATH is a folder of Markdown, or a JSON Lines file of chunks, which may be compressed with gzip or
    Zstandard. Everything is checked before anything is written. Indexing the same again changes nothing; a
    document that became shorter leaves no stale chunks.
    """
    from streams.cli.progress import progress_bar
    from streams.indexing import plan_index
    from streams.settings import loading
    from streams.worker.bootstrap import index_path

    if chunk_size is not None and not path.is_dir():
        raise ConfigurationError("--chunk-size divides folders of Markdown; a file has its chunks already")
    size = DEFAULT_CHUNK_SIZE if chunk_size is None else chunk_size
    settings = loading.load(config_file)
    if dry_run:
        report = plan_index(path, chunk_size=size)
    else:
        with progress_bar("chunks") as progress:
            report = asyncio.run(index_path(settings, path, progress, chunk_size=size))
    if report.passed_over:
        counts = (f"{what} ({count:,})" for what, count in sorted(report.passed_over.items()))
        click.echo(f"passed over in {path}: {', '.join(counts)}", err=True)
    if as_json:
        click.echo(orjson.dumps(asdict(report)))
    else:
        click.echo(_told(report, settings.milvus.collection, dry_run=dry_run))


def _told(report: IndexReport, collection: str, *, dry_run: bool) -> str:
    done = (
        f"would go to {collection}; nothing was written"
        if dry_run
        else f"in {collection} ({report.deleted} stale ones deleted)"
    )
    pieces = report.pieces
    return (
        f"{report.documents} documents, {report.chunks} chunks {done}\n"
        f"characters of a chunk: {pieces.shortest:,} to {pieces.longest:,}, median {pieces.median:,};"
        f" mostly markup: {pieces.mostly_markup:,}"
    )
