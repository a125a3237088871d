"""One demo session: index, start the real worker in a process of its own, ask over Kafka."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from importlib.resources import files
from itertools import count, islice, zip_longest
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeAlias

import orjson
import yaml

from pipeline.errors import ConfigurationError, LookupStageError
from streams.client import LookupClient, connected_client
from streams.indexing import IndexReport
from streams.indexing.chunks import Chunk
from streams.indexing.documents import read_documents
from streams.settings import loading
from streams.settings.model import Settings
from streams.settings.sources import environment_name
from streams.wire.results import LookupResult

Question: TypeAlias = tuple[str, ...]
"""One question, or several that are asked in one request."""

RUNBOOKS = Path(str(files("streams.demo"))) / "runbooks"
ANSWER_TIMEOUT_S = 60.0
MOST_QUESTIONS = 12
MAX_HEADING_CHARS = 120
BREADCRUMB_SEPARATOR = " > "
LOG_FILE = "demo.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSession:
    """A running demo.

    Attributes:
        client: Connected to the worker's topics.
        worker: The worker's process.
        folder: Where index and log are.
    """

    client: LookupClient
    worker: Process
    folder: Path

    async def ask(
        self, questions: Sequence[Question], *, on_answered: Callable[[int], object]
    ) -> list[LookupResult]:
        """Ask over Kafka, all at once, and await the results in order.

        Args:
            questions: What to ask.
            on_answered: Told after each result how many there are.

        Raises:
            LookupStageError: The worker ended or did not answer.
        """
        answered = count(1)

        async def ask_one(question: Question) -> LookupResult:
            result = await self.client.look_up({"queries": list(question)}, timeout_s=ANSWER_TIMEOUT_S)
            on_answered(next(answered))
            return result

        asking = asyncio.gather(*map(ask_one, questions))
        ending = asyncio.ensure_future(self.worker.wait())
        first_of: set[asyncio.Future[Any]] = {asking, ending}
        try:
            await asyncio.wait(first_of, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise LookupStageError(f"the worker ended: {_last_line(self.folder)}")
            return asking.result()
        except TimeoutError:
            raise LookupStageError(f"the worker did not answer: {_last_line(self.folder)}") from None
        finally:
            asking.cancel()
            ending.cancel()


def demo_settings(bootstrap_servers: str, folder: Path, *, metrics_port: int) -> Settings:
    """Point the settings at the demo's own broker and index; everything else stays as the user has it.

    Args:
        bootstrap_servers: Where the broker is.
        folder: Where the index is to be.
        metrics_port: The worker's port for metrics; 0 for none.
    """
    return loading.load(overrides=_overrides(bootstrap_servers, folder, metrics_port))


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def bundled_questions() -> list[Question]:
    """Return the questions that the bundled runbooks answer."""
    entries = yaml.safe_load((RUNBOOKS.parent / "questions.yaml").read_text(encoding="utf-8"))
    return [(entry,) if isinstance(entry, str) else tuple(entry) for entry in entries]


def questions_about(documents: Path) -> list[Question]:
    """Make questions of a folder's own headings: of each document in turn, at most a dozen.

    A document without headings is asked for by its name.

    Raises:
        ConfigurationError: There is nothing in it to ask for.
    """
    questions = [
        list(dict.fromkeys(question_of(chunk) for chunk in document.chunks))
        for document in read_documents(documents)
    ]
    in_turn = (question for row in zip_longest(*questions) for question in row if question)
    found: list[Question] = [(question,) for question in islice(in_turn, MOST_QUESTIONS)]
    if not found:
        raise ConfigurationError(f"{documents}: the documents in it are blank")
    return found


def question_of(chunk: Chunk) -> str:
    """Make the question that a chunk's innermost heading answers."""
    title = _shortened(chunk.title or chunk.doc_id)
    heading = _shortened((chunk.breadcrumb or title).rpartition(BREADCRUMB_SEPARATOR)[2])
    if heading.endswith("?"):
        return heading
    return f"What is said about {heading}?" if heading == title else f"What does {title} say about {heading}?"


def _shortened(text: str) -> str:
    return shorten(text, MAX_HEADING_CHARS, placeholder="")


async def index(settings: Settings, documents: Path, folder: Path) -> IndexReport:
    """Index documents in a process of its own: Milvus Lite gives its file to one process at a time.

    Raises:
        LookupStageError: Indexing failed, and why.
    """
    process = await _start(settings, folder, "index", str(documents), "--json", stdout=PIPE)
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise LookupStageError(f"indexing failed: {_last_line(folder)}")
    found = orjson.loads(output)
    return IndexReport(**{field.name: found[field.name] for field in fields(IndexReport)})


@asynccontextmanager
async def running_session(settings: Settings, folder: Path) -> AsyncIterator[DemoSession]:
    """Start the worker in a process of its own and a client beside it."""
    worker = await _start(settings, folder, "worker", stdout=DEVNULL)
    try:
        async with connected_client(settings.kafka) as client:
            yield DemoSession(client=client, worker=worker, folder=folder)
    finally:
        if worker.returncode is None:
            worker.terminate()
        await worker.wait()


async def _start(settings: Settings, folder: Path, *arguments: str, stdout: int) -> Process:
    overrides = _overrides(settings.kafka.bootstrap_servers, folder, settings.metrics.port)
    environment = {environment_name(key): value for key, value in overrides.items()}
    with (folder / LOG_FILE).open("ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "streams",
            *arguments,
            stdout=stdout,
            stderr=log,
            env=os.environ | environment,
        )


def _overrides(bootstrap_servers: str, folder: Path, metrics_port: int) -> dict[str, str]:
    return {
        "kafka.bootstrap-servers": bootstrap_servers,
        "kafka.group-id": "lookup-stage-demo",
        "milvus.uri": str(folder / "knowledge.db"),
        "milvus.collection": "runbooks",
        "stage.log-format": "json",
        "metrics.port": str(metrics_port),
    }


def _last_line(folder: Path) -> str:
    lines = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing was logged"
