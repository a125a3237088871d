"""One demo session: index, start the real worker in a process of its own, ask over Kafka."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

import yaml

from pipeline.errors import LookupStageError
from streams import configuration
from streams.client import LookupClient, connected_client
from streams.results import LookupResult
from streams.setting_sources import environment_name
from streams.settings import Settings

Question: TypeAlias = tuple[str, ...]
"""One question, or several that are asked in one request."""

RUNBOOKS = Path(str(files("streams.demo"))) / "runbooks"
ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSession:
    """A running demo.

    Attributes:
        settings: What the worker runs with.
        client: Connected to the worker's topics.
    """

    settings: Settings
    client: LookupClient

    async def ask(self, question: Question) -> LookupResult:
        """Asks over Kafka and awaits the result."""
        return await self.client.look_up({"queries": list(question)}, timeout_s=ANSWER_TIMEOUT_S)


def demo_settings(bootstrap_servers: str, folder: Path) -> Settings:
    """Points the settings at the demo's own broker and index; everything else stays as the user has it."""
    return configuration.load(overrides=_overrides(bootstrap_servers, folder))


def bundled_questions() -> list[Question]:
    """Gives the questions that the bundled runbooks answer."""
    entries = yaml.safe_load((RUNBOOKS.parent / "questions.yaml").read_text(encoding="utf-8"))
    return [(entry,) if isinstance(entry, str) else tuple(entry) for entry in entries]


@asynccontextmanager
async def running_session(settings: Settings, folder: Path) -> AsyncIterator[DemoSession]:
    """Starts the worker in a process of its own and a client beside it.

    Raises:
        LookupStageError: The worker ended; its last line says why.
    """
    log_file = folder / "worker.log"
    overrides = _overrides(settings.kafka.bootstrap_servers, folder)
    environment = {environment_name(key): value for key, value in overrides.items()}
    with log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "streams", "worker", stderr=log, env=os.environ | environment
        )
    try:
        async with connected_client(settings.kafka) as client:
            yield DemoSession(settings=settings, client=client)
    except TimeoutError:
        raise LookupStageError(f"the worker did not answer; its last line: {_last_line(log_file)}") from None
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _overrides(bootstrap_servers: str, folder: Path) -> dict[str, str]:
    return {
        "kafka.bootstrap-servers": bootstrap_servers,
        "kafka.group-id": "lookup-stage-demo",
        "milvus.uri": str(folder / "knowledge.db"),
        "milvus.collection": "runbooks",
        "stage.log-format": "json",
    }


def _last_line(log_file: Path) -> str:
    lines: Sequence[str] = log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "(none)"
