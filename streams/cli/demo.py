"""`lookup-stage demo`."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from pipeline.errors import ConfigurationError
from streams.cli.demo_story import HEADLINE, Story, tell_how_to_reach, tell_summary, tell_what_is_next

if TYPE_CHECKING:
    from streams.demo.session import Question
    from streams.settings.model import Settings
    from streams.wire.results import LookupResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demo:
    """What the reader asked to see."""

    documents: Path | None
    questions: tuple[str, ...]
    keep: bool
    as_json: bool
    story: Story


@click.command(epilog='Example: lookup-stage demo --docs ./runbooks --ask "How do I roll back?"')
@click.option(
    "--docs",
    "documents",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Your own folder of Markdown, and questions made of its headings, instead of the bundled ones.",
)
@click.option("--ask", "questions", multiple=True, help="Your own question; may be given several times.")
@click.option(
    "--keep", is_flag=True, help="Leave broker and worker running until Ctrl-C, and say how to reach them."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demo(documents: Path | None, questions: tuple[str, ...], *, keep: bool, as_json: bool) -> int:
    """Show the whole stage at work.

    Needs no server and no download. Starts a broker in this process, indexes ten operations runbooks into
    Milvus Lite, starts the real worker, sends a dozen lookups over Kafka and prints question, evidence and
    ledger, and what all of it came to.

    Exits 1 where a request is not answered.
    """
    _require_packages()
    began = time.monotonic()
    story = Story(on_stderr=as_json)
    story.tell(HEADLINE, style="bold")
    wanted = _Demo(documents=documents, questions=questions, keep=keep, as_json=as_json, story=story)
    with (
        tempfile.TemporaryDirectory(prefix="lookup-stage-demo-", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        with story.status("Starting the broker"):
            settings = _start_broker(stack, Path(folder), keep=keep)
        return asyncio.run(_run(wanted, settings, Path(folder), began))


def _require_packages() -> None:
    if any(importlib.util.find_spec(name) is None for name in ("confluent_kafka", "milvus_lite")):
        raise ConfigurationError(
            "the demo needs packages that are not installed: pip install 'lookup-stage[demo]'"
        )


def _start_broker(stack: ExitStack, folder: Path, *, keep: bool) -> Settings:
    from streams.demo.broker import InProcessBroker
    from streams.demo.session import demo_settings, free_port

    broker = stack.enter_context(InProcessBroker())
    settings = demo_settings(broker.bootstrap_servers, folder, metrics_port=free_port() if keep else 0)
    topics = settings.kafka.topics
    broker.create_topics((topics.requests, topics.results, topics.dead_letters))
    return settings


async def _run(wanted: _Demo, settings: Settings, folder: Path, began: float) -> int:
    from streams.demo.session import RUNBOOKS, index, running_session
    from streams.demo.summary import ANSWERED, counted, summary_lines

    story = wanted.story
    with story.status("Indexing documents"):
        report = await index(settings, wanted.documents or RUNBOOKS, folder)
    documents, chunks = counted(report.documents, "document"), counted(report.chunks, "chunk")
    story.tell(f"Indexed {documents}, {chunks}, into Milvus Lite.")
    questions, origin = _questions(wanted)
    async with running_session(settings, folder) as session:
        story.tell(f"Broker on {settings.kafka.bootstrap_servers}, worker started.")
        story.tell(f"Asking {counted(len(questions), 'question')} over Kafka, {origin}.\n")
        with story.status("The worker is starting") as update:
            results = await session.ask(
                questions, on_answered=lambda count: update(f"{count} of {len(questions)} answered")
            )
        _show(wanted, questions, results)
        tell_summary(story, summary_lines(results, elapsed_s=time.monotonic() - began))
        if wanted.keep:
            tell_how_to_reach(story, settings, questions[0][0])
            await _interrupted()
            story.tell("Stopping broker and worker.")
        else:
            tell_what_is_next(story, asked=bool(wanted.questions), own_documents=wanted.documents is not None)
    return 0 if all(result.status in ANSWERED for result in results) else 1


def _questions(wanted: _Demo) -> tuple[Sequence[Question], str]:
    """Return the questions, and where they come from."""
    from streams.demo.session import bundled_questions, questions_about

    if wanted.questions:
        return [(question,) for question in wanted.questions], "yours"
    if wanted.documents is None:
        return bundled_questions(), "about the runbooks"
    return questions_about(wanted.documents), "made of your documents' own headings"


def _show(wanted: _Demo, questions: Sequence[Question], results: Sequence[LookupResult]) -> None:
    from streams.cli.evidence import print_result
    from streams.wire.results import encode_result

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
