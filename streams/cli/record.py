"""`lookup-stage record`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streams.cli.options import may_overwrite

if TYPE_CHECKING:
    from streams.kafka.topic_reader import Span
    from streams.replay.capture import Capture
    from streams.settings.model import KafkaSettings


MAX_OFFSET = 2**63 - 1
MAX_OFFSET_DIGITS = 19
EPOCH = datetime.fromtimestamp(0, UTC)


class BoundType(click.ParamType):
    """An offset, or an RFC 3339 time."""

    name = "OFFSET|TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | datetime:
        """Read one of the two."""
        text = str(value)
        if text.isascii() and text.isdigit():
            if len(text) > MAX_OFFSET_DIGITS or int(text) > MAX_OFFSET:
                self.fail(f"{text:.40} must be an offset from 0 to {MAX_OFFSET}", param, ctx)
            return int(text)
        try:
            moment = datetime.fromisoformat(text.upper())
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            self.fail(
                f"{text!r} must be an offset, or an RFC 3339 time with an offset from UTC such as"
                " 2026-01-31T12:00:00Z",
                param,
                ctx,
            )
        if moment < EPOCH:
            self.fail(f"{text!r} must not be before 1970, where Kafka's time begins", param, ctx)
        return moment


@click.command(
    epilog="Example: lookup-stage record --from 2026-01-31T00:00:00Z --to 2026-01-31T23:59:59Z"
    " -o lookups.jsonl.zst"
)
@click.option("--from", "first", type=BoundType(), help="First offset of each partition, or earliest time.")
@click.option("--to", "last", type=BoundType(), help="Last offset of each partition, or latest time.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File that ends in .jsonl or .jsonl.zst, or - for standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@click.option(
    "--requests", "requests_alone", is_flag=True, help="Record the requests topic: requests without hits."
)
@click.pass_obj
def record(
    config_file: Path | None,
    /,
    *,
    output: Path,
    force: bool,
    requests_alone: bool,
    **bounds: Any,
) -> None:
    """Take recordings from their topic to a file.

    Both bounds belong to the range. Without them it begins where the topic does and ends where it ends when
    this starts; it never waits for more. No consumer group is joined. The file is there once it is whole; a
    file that exists keeps its content until then. What was written before an interruption is kept, and where
    is said.
    """
    from streams.kafka.topic_reader import Span
    from streams.settings import loading

    span = Span(**bounds)
    _check_order(span)
    kafka = loading.load(config_file).kafka
    may_overwrite("-o", output, force=force)
    capture = asyncio.run(_record(kafka, span, output, requests_alone=requests_alone))
    click.echo(f"{capture.recordings} recordings written to {output}", err=True)
    if capture.passed_over:
        click.echo(f"{capture.passed_over} records passed over, the first at {capture.first}", err=True)
    if capture.undecodable.offsets:
        click.echo(str(capture.undecodable), err=True)


def _check_order(span: Span) -> None:
    first, last = span.first, span.last
    if isinstance(first, datetime) and isinstance(last, datetime) and first > last:
        raise click.UsageError(f"--from = {first.isoformat()}: must not be after --to = {last.isoformat()}")
    if isinstance(first, int) and isinstance(last, int) and first > last:
        raise click.UsageError(f"--from = {first}: must not be greater than --to = {last}")


async def _record(kafka: KafkaSettings, span: Span, output: Path, *, requests_alone: bool) -> Capture:
    from streams.cli.progress import progress_bar
    from streams.recordings.files import writing_recordings
    from streams.replay.capture import Capture

    capture = Capture()
    with writing_recordings(output, keep_if_failed=True) as write, progress_bar("recording") as progress:
        await capture.run(kafka, span, requests_alone=requests_alone, write=write, progress=progress)
    return capture
