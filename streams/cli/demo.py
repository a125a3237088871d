"""`lookup-stage demo`."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from streams.demo.session import DemoSession, Question
    from streams.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demo:
    """What the reader asked to see."""

    documents: Path | None
    questions: tuple[str, ...]
    keep: bool
    as_json: bool

    def say(self, line: str) -> None:
        """Print what is going on, beside the results."""
        click.echo(line, err=self.as_json)


@click.command(epilog='Example: lookup-stage demo --docs ./runbooks --ask "How do I roll back?"')
@click.option(
    "--docs",
    "documents",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Your own folder of Markdown instead of the bundled runbooks.",
)
@click.option("--ask", "questions", multiple=True, help="Your own question; may be given several times.")
@click.option("--keep", is_flag=True, help="Leave broker and worker running until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demo(documents: Path | None, questions: tuple[str, ...], *, keep: bool, as_json: bool) -> None:
    """Show the whole stage at work.

    Needs no server and no download. Starts a broker in this process, indexes ten operations runbooks into
    Milvus Lite, starts the real worker, sends a dozen lookups over Kafka and prints question, evidence and
    ledger.
    """
    _require_packages()
    from streams.demo.broker import InProcessBroker
    from streams.demo.session import demo_settings

    wanted = _Demo(documents=documents, questions=questions, keep=keep, as_json=as_json)
    with (
        tempfile.TemporaryDirectory(prefix="lookup-stage-demo-", ignore_cleanup_errors=True) as folder,
        InProcessBroker() as broker,
    ):
        settings = demo_settings(broker.bootstrap_servers, Path(folder))
        topics = settings.kafka.topics
        broker.create_topics((topics.requests, topics.results, topics.dead_letters))
        asyncio.run(_run(wanted, settings, Path(folder)))


def _require_packages() -> None:
    if any(importlib.util.find_spec(name) is None for name in ("confluent_kafka", "milvus_lite")):
        raise ConfigurationError(
            "the demo needs packages that are not installed: pip install 'lookup-stage[demo]'"
        )


async def _run(wanted: _Demo, settings: Settings, folder: Path) -> None:
    from streams.demo.session import RUNBOOKS, index, running_session

    report = await index(settings, wanted.documents or RUNBOOKS, folder)
    wanted.say(f"Indexed {report.documents} documents, {report.chunks} chunks, into Milvus Lite.")
    async with running_session(settings, folder) as session:
        wanted.say(f"Broker on {settings.kafka.bootstrap_servers}, worker started.\n")
        await _show(wanted, session, _questions(wanted))
        if wanted.keep:
            _say_how_to_reach(wanted, settings)
            await _interrupted()


def _questions(wanted: _Demo) -> Sequence[Question]:
    from streams.demo.session import bundled_questions, questions_about

    if wanted.questions:
        return [(question,) for question in wanted.questions]
    return bundled_questions() if wanted.documents is None else questions_about(wanted.documents)


async def _show(wanted: _Demo, session: DemoSession, questions: Sequence[Question]) -> None:
    from streams.cli.evidence import print_result
    from streams.wire.results import encode_result

    results = await session.ask(questions)
    if wanted.as_json:
        entries = [
            {"queries": question, "result": orjson.Fragment(encode_result(result))}
            for question, result in zip(questions, results, strict=True)
        ]
        click.echo(orjson.dumps(entries, option=orjson.OPT_INDENT_2))
        return
    for question, result in zip(questions, results, strict=True):
        print_result(" / ".join(question), result)


async def _interrupted() -> None:
    """Wait for Ctrl-C, which is how this is meant to end."""
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    await interrupted.wait()


def _say_how_to_reach(wanted: _Demo, settings: Settings) -> None:
    address = f"KAFKA_BOOTSTRAP_SERVERS={settings.kafka.bootstrap_servers}"
    wanted.say("Broker and worker go on until Ctrl-C. From another terminal:\n")
    wanted.say(f'  {address} lookup-stage ask "How do I roll back a deployment?"')
