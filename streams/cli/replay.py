"""`lookup-stage replay`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from pipeline.errors import ConfigurationError, LookupStageError
from streams.cli.options import PositiveNumber, count, may_overwrite
from streams.output.files import check_kept

if TYPE_CHECKING:
    from streams.recordings.files import NumberedRecording
    from streams.recordings.recording import RecordingUnreadable
    from streams.settings.model import Settings

EXAMPLE = (
    "Example: lookup-stage replay lookups.jsonl.zst -o other.jsonl.zst --set rag.max-chunks-per-document=3"
)
GROUPS = ("rag", "projection")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What the command line asks for."""

    config_file: Path | None
    file: Path
    output: Path | None
    mode: Literal["frozen", "live"] | None
    assignments: tuple[str, ...]
    to_topic: str | None
    force: bool
    concurrency: int
    rate: float | None
    keep_going: bool


@click.command(epilog=EXAMPLE)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the replayed recordings, ending in .jsonl or .jsonl.zst, or - for standard output.",
)
@click.option(
    "--frozen", "mode", flag_value="frozen", help="Replay recorded hits; the default where the file has any."
)
@click.option("--live", "mode", flag_value="live", help="Ask the configured search again.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Another value of a rag.* or projection.* key; may be given several times.",
)
@click.option("--to-topic", metavar="TOPIC", help="Send the requests to a topic instead.")
@click.option(
    "--force", is_flag=True, help="Overwrite the file of -o; let --to-topic be a topic of the stage."
)
@click.option(
    "--concurrency",
    type=count(),
    default=16,
    show_default=True,
    help="With --live: most requests in work at once.",
)
@click.option(
    "--rate",
    type=PositiveNumber(),
    help="With --live and --to-topic: most requests a second.",
)
@click.option("--keep-going", is_flag=True, help="Replay the lines before one that cannot be read.")
@click.pass_obj
def replay(config_file: Path | None, /, **options: Any) -> None:
    """Replay a file of recordings.

    Frozen replay puts recorded hits through the rules as they are now: no broker, no search. Without --set it
    exits 1 where a result is not byte for byte the recorded one. Live replay asks the configured search; it
    exits 1 where the search failed. The output is a file of recordings, to be compared with FILE.
    """
    wanted = ReplayOptions(config_file=config_file, **options)
    _check(wanted)
    if wanted.to_topic is not None:
        asyncio.run(_resend(wanted, wanted.to_topic))
        return
    with _recordings(wanted) as recordings:
        ahead = list(islice(recordings, 1))
        alone = any(numbered.recording.paths is None for numbered in ahead)
        mode = wanted.mode or ("live" if alone else "frozen")
        (_live if mode == "live" else _frozen)(wanted, chain(ahead, recordings))


def _check(wanted: ReplayOptions) -> None:
    if wanted.to_topic is None:
        if wanted.output is None:
            raise click.UsageError("-o FILE or --to-topic TOPIC must be given")
        check_kept("-o", wanted.output, {"the file that is replayed": wanted.file})
        may_overwrite("-o", wanted.output, force=wanted.force)
        return
    for option, given in (
        ("-o", wanted.output),
        ("--set", wanted.assignments),
        ("--frozen or --live", wanted.mode),
    ):
        if given:
            raise click.UsageError(f"{option} does not go with --to-topic, which only sends requests")


@contextmanager
def _recordings(wanted: ReplayOptions) -> Iterator[Iterator[NumberedRecording]]:
    from streams.cli.progress import progress_bar
    from streams.recordings.files import read_recordings

    with progress_bar("replaying") as progress:
        yield read_recordings(wanted.file, progress=progress, keep_going=_note if wanted.keep_going else None)


def _note(error: RecordingUnreadable) -> None:
    click.echo(f"lookup-stage: {error}; the lines before it are kept", err=True)


def _frozen(wanted: ReplayOptions, recordings: Iterator[NumberedRecording]) -> None:
    from streams.recordings.files import writing_recordings
    from streams.replay.changes import limit_change
    from streams.replay.frozen import replay_frozen
    from streams.settings import loading

    given = loading.assignments(wanted.assignments, groups=GROUPS)
    change = limit_change(*loading.load_limits(given)) if given else None
    with writing_recordings(_output(wanted)) as write:
        replayed = replay_frozen(wanted.file, recordings, write, change)
    if replayed.differing:
        raise LookupStageError(
            f"{wanted.file}: {replayed.differing} of {replayed.replayed} results are not as recorded,"
            f" first {replayed.first}"
        )
    what = "under other limits" if given else "each result byte for byte as recorded"
    click.echo(f"{replayed.replayed} recordings replayed, {what}", err=True)


def _live(wanted: ReplayOptions, recordings: Iterator[NumberedRecording]) -> None:
    from streams.observability import logs
    from streams.settings import loading

    given = loading.assignments(wanted.assignments, groups=GROUPS)
    settings = loading.load(wanted.config_file, given)
    logs.configure(settings.stage)
    asyncio.run(_ask_again(wanted, settings, recordings))


async def _ask_again(
    wanted: ReplayOptions, settings: Settings, recordings: Iterator[NumberedRecording]
) -> None:
    from streams.recordings.files import writing_recordings
    from streams.replay.live import replay_live
    from streams.worker.bootstrap import running_live_replay

    async with running_live_replay(settings) as replaying:
        with writing_recordings(_output(wanted)) as write:
            await replay_live(recordings, write, replaying, concurrency=wanted.concurrency, rate=wanted.rate)
    if replaying.failed:
        raise LookupStageError(
            f"{wanted.file}: the search failed for {replaying.failed} of {replaying.replayed} requests,"
            f" first {replaying.first}"
        )
    click.echo(f"{replaying.replayed} requests replayed", err=True)


async def _resend(wanted: ReplayOptions, topic: str) -> None:
    from streams.replay.resending import check_topic, resend
    from streams.settings import loading

    kafka = loading.load(wanted.config_file).kafka
    if not wanted.force:
        check_topic(kafka, topic)
    with _recordings(wanted) as recordings:
        count = await resend(kafka, topic, recordings, rate=wanted.rate)
    click.echo(f"{count} requests sent to {topic}", err=True)


def _output(wanted: ReplayOptions) -> Path:
    if wanted.output is None:
        raise ConfigurationError("-o FILE must be given")
    return wanted.output
