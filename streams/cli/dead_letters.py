"""`lookup-stage dead-letters`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import orjson

from streams.cli.options import PositiveNumber
from streams.output.printable import printable

if TYPE_CHECKING:
    from streams.kafka.topic_reader import PassedOver
    from streams.replay.redrive import DeadLetter, DeadLetterFilter

Command = TypeVar("Command", bound=Callable[..., Any])

MAX_SHOWN_ID_CHARS = 200
"""As long as an id may be: only those of invalid requests are longer."""


def _selection(command: Command) -> Command:
    """Add the options that choose among dead letters."""
    for option in (
        click.option("--reason", help="Only those whose reason contains this, such as `decode`."),
        click.option("--retryable", "retryable_only", is_flag=True, help="Only those worth sending again."),
        click.option("--request-id", help="Only this request's."),
    ):
        command = option(command)
    return command


@click.group("dead-letters", epilog="Example: lookup-stage dead-letters list --retryable")
def dead_letters() -> None:
    """List, show and redrive dead letters."""


@dead_letters.command("list", epilog="Example: lookup-stage dead-letters list --reason decode")
@_selection
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines.")
@click.pass_obj
def list_command(config_file: Path | None, /, *, as_json: bool, **selection: Any) -> None:
    """List dead letters, a line each."""
    asyncio.run(_list(config_file, _wanted(selection), _json_line if as_json else _text_line))


@dead_letters.command(epilog="Example: lookup-stage dead-letters show --request-id r-1")
@_selection
@click.pass_obj
def show(config_file: Path | None, /, **selection: Any) -> None:
    """Show dead letters whole: key, value, headers and error."""
    asyncio.run(_list(config_file, _wanted(selection), _whole))


@dead_letters.command(epilog="Example: lookup-stage dead-letters redrive --retryable --rate 50 --dry-run")
@_selection
@click.option(
    "--rate",
    type=PositiveNumber(),
    default=100.0,
    show_default=True,
    help="Most requests a second.",
)
@click.option("--dry-run", is_flag=True, help="Send nothing, say what would be sent.")
@click.pass_obj
def redrive(config_file: Path | None, /, *, rate: float, dry_run: bool, **selection: Any) -> None:
    """Send the requests of dead letters to the requests topic again; a request keeps its id."""
    asyncio.run(_redrive(config_file, _wanted(selection), rate=rate, dry_run=dry_run))


def _wanted(selection: dict[str, Any]) -> DeadLetterFilter:
    from streams.replay.redrive import DeadLetterFilter

    return DeadLetterFilter(**selection)


async def _list(
    config_file: Path | None, wanted: DeadLetterFilter, line: Callable[[DeadLetter], str | bytes]
) -> None:
    from streams.kafka.topic_reader import PassedOver
    from streams.replay.redrive import dead_letters as read
    from streams.settings import loading

    passed_over = PassedOver()
    async for letter in read(loading.load(config_file).kafka, wanted, passed_over):
        click.echo(line(letter))
    _tell(passed_over)


async def _redrive(config_file: Path | None, wanted: DeadLetterFilter, *, rate: float, dry_run: bool) -> None:
    from streams.kafka.topic_reader import PassedOver
    from streams.replay.redrive import redrive as send_again
    from streams.settings import loading

    count, passed_over, kafka = 0, PassedOver(), loading.load(config_file).kafka
    async for letter in send_again(kafka, wanted, passed_over, rate=rate, dry_run=dry_run):
        count += 1
        click.echo(_text_line(letter))
    click.echo(f"{count} requests {'would be sent' if dry_run else 'sent'} again", err=True)
    _tell(passed_over)


def _tell(passed_over: PassedOver) -> None:
    if passed_over.offsets:
        click.echo(str(passed_over), err=True)


def _text_line(letter: DeadLetter) -> str:
    again = "retryable" if letter.retryable else "final"
    message = letter.errors.get("exception.message", "")
    request_id = (letter.request_id or "-")[:MAX_SHOWN_ID_CHARS]
    return printable(f"{letter.place}  {request_id}  {letter.reason}  {again}  {message}")


def _json_line(letter: DeadLetter) -> bytes:
    return orjson.dumps({"place": letter.place, "request_id": letter.request_id, "errors": letter.errors})


def _whole(letter: DeadLetter) -> str:
    lines = [letter.place, f"  key: {_readable(letter.record.key)}"]
    lines += [f"  header {name}: {_readable(value)}" for name, value in letter.headers]
    lines += [f"  error {name}: {value}" for name, value in letter.errors.items()]
    return "\n".join(map(printable, [*lines, f"  value: {_readable(letter.record.value)}"]))


def _readable(value: bytes | None) -> str:
    """Return bytes as text where they are text, and as Python writes bytes where they are not."""
    if value is None:
        return "(null)"
    try:
        return value.decode()
    except UnicodeDecodeError:
        return repr(value)
