"""One demo session: index, start the real worker in a process of its own, ask over Kafka."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import yaml

from pipeline.errors import LookupStageError
from streams.client import LookupClient, connected_client
from streams.indexing import IndexReport
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

    async def ask(self, questions: Sequence[Question]) -> list[LookupResult]:
        """Ask over Kafka, all at once, and await the results in order.

        Raises:
            LookupStageError: The worker ended or did not answer.
        """
        asking = asyncio.gather(
            *(
                self.client.look_up({"queries": list(question)}, timeout_s=ANSWER_TIMEOUT_S)
                for question in questions
            )
        )
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


def demo_settings(bootstrap_servers: str, folder: Path) -> Settings:
    """Point the settings at the demo's own broker and index; everything else stays as the user has it."""
    return loading.load(overrides=_overrides(bootstrap_servers, folder))


def bundled_questions() -> list[Question]:
    """Return the questions that the bundled runbooks answer."""
    entries = yaml.safe_load((RUNBOOKS.parent / "questions.yaml").read_text(encoding="utf-8"))
    return [(entry,) if isinstance(entry, str) else tuple(entry) for entry in entries]


def questions_about(documents: Path) -> list[Question]:
    """Make questions of a folder's own headings: of each document in turn, at most a dozen."""
    headings = [
        list(dict.fromkeys(chunk.breadcrumb for chunk in document.chunks if chunk.breadcrumb))
        for document in read_documents(documents)
    ]
    in_turn = (heading for row in zip_longest(*headings) for heading in row if heading)
    return [(heading,) for heading in islice(in_turn, MOST_QUESTIONS)]


async def index(settings: Settings, documents: Path, folder: Path) -> IndexReport:
    """Index documents in a process of its own: Milvus Lite gives its file to one process at a time.

    Raises:
        LookupStageError: Indexing failed, and why.
    """
    process = await _start(settings, folder, "index", str(documents), "--json", stdout=PIPE)
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise LookupStageError(f"indexing failed: {_last_line(folder)}")
    return IndexReport(**orjson.loads(output))


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
    overrides = _overrides(settings.kafka.bootstrap_servers, folder)
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


def _overrides(bootstrap_servers: str, folder: Path) -> dict[str, str]:
    return {
        "kafka.bootstrap-servers": bootstrap_servers,
        "kafka.group-id": "lookup-stage-demo",
        "milvus.uri": str(folder / "knowledge.db"),
        "milvus.collection": "runbooks",
        "stage.log-format": "json",
        "metrics.port": "0",
    }


def _last_line(folder: Path) -> str:
    lines = (folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing was logged"
