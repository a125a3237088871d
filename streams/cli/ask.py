"""`lookup-stage ask`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import orjson

from pipeline.errors import LookupStageError
from streams.cli.options import PositiveNumber, count
from streams.settings.model import KafkaSettings
from streams.wire.results import LookupResult

ANSWERED = frozenset({"ok", "partial", "empty"})


@click.command(epilog='Example: lookup-stage ask "What does the runbook say about a stuck consumer group?"')
@click.argument("questions", nargs=-1, required=True, metavar='"QUESTION"...')
@click.option("--request-id", help="Id of the request; made up where none is given.")
@click.option("--return-n", type=count(), help="Most evidence blocks.")
@click.option("--retrieve-k", type=count(), help="Most hits for each question.")
@click.option("--max-chunks-per-document", type=count(), help="Most blocks of one document.")
@click.option("--tenant", help="Tenant whose documents are searched.")
@click.option("--filter", metavar="JSON", help='Conditions, such as \'{"team": ["sre", "db"]}\'.')
@click.option("--vector", metavar="JSON", help="Embedding of a single question.")
@click.option("--explain", is_flag=True, help="Say of every hit that was dropped why it was.")
@click.option("--timeout", type=PositiveNumber(), default=30.0, show_default=True, help="Seconds to wait.")
@click.option("--json", "as_json", is_flag=True, help="Print the result's JSON.")
@click.pass_obj
def ask(
    config_file: Path | None,
    /,
    questions: tuple[str, ...],
    *,
    timeout: float,
    as_json: bool,
    **fields: Any,
) -> int:
    """Send a request and show its result.

    Several questions are paths of one request.

    Exits 1 where the result is `failed`, `expired` or `rejected`, or does not come in time.
    """
    from streams.cli.evidence import print_result
    from streams.settings import loading
    from streams.wire.results import encode_result

    request = {name: value for name, value in fields.items() if value not in (None, False)}
    request |= {name: _parsed(name, request[name]) for name in ("filter", "vector") if name in request}
    request["queries"] = list(questions)
    result = asyncio.run(_ask(loading.load(config_file).kafka, request, timeout))
    if as_json:
        click.echo(encode_result(result))
    else:
        print_result(" / ".join(questions), result)
    return 0 if result.status in ANSWERED else 1


async def _ask(kafka: KafkaSettings, request: dict[str, Any], timeout_s: float) -> LookupResult:
    from aiokafka.errors import KafkaError

    from streams.client import connected_client

    async with connected_client(kafka) as client:
        try:
            return await client.look_up(request, timeout_s=timeout_s)
        except KafkaError as error:
            raise LookupStageError(f"the request cannot be sent: {error}") from error
        except TimeoutError:
            raise LookupStageError(
                f"no result within {timeout_s:g} s: is a worker running on {kafka.topics.requests}?"
            ) from None


def _parsed(option: str, text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise click.UsageError(f"--{option} = {text!r}: must be JSON: {error}") from error
