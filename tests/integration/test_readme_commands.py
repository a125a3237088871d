"""The commands of README and pages, each run as it stands there, with only the addresses changed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
import yaml

from pipeline.adapters.milvus_collection import MilvusCollection
from streams.demo.session import RUNBOOKS
from tests.adapters.milvus import connected, unique_name
from tests.support.contract import check_result
from tests.support.fixtures import require_tool
from tests.support.pages import text_of
from tests.support.probing import WorkerPort
from tests.support.worker import StageTopics

pytestmark = [pytest.mark.kafka, pytest.mark.milvus]

COMMAND_TIMEOUT_S = 60
READY_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """Somebody who follows the pages in a folder of their own.

    Attributes:
        folder: Where they are, with some runbooks in it.
        topics: Topics that stand for those on the pages.
        milvus_uri: The Milvus that runs elsewhere.
        port: Where their worker shows itself.
    """

    folder: Path
    topics: StageTopics
    milvus_uri: str
    port: WorkerPort

    def script(self, text: str) -> list[str]:
        """Return the command that runs a block's text, with the addresses of what runs here."""
        for written, here in (
            ("kafka:9092", self.topics.bootstrap),
            ("http://milvus:19530", self.milvus_uri),
            ("localhost:9464", f"127.0.0.1:{self.port.number}"),
            ("lookup.requests", self.topics.requests),
            ("lookup.results", self.topics.results),
        ):
            text = text.replace(written, here)
        if "import asyncio" in text:
            return [sys.executable, "-c", text]
        return ["bash", "-euo", "pipefail", "-c", text]

    def environment(self) -> dict[str, str]:
        """Return what is in force beside what the blocks themselves export."""
        return (
            os.environ
            | self.topics.environment
            | self.port.environment
            | {
                "MILVUS_COLLECTION": self.topics.name,
                "STAGE_RECORDING": "all",
                "PATH": f"{self.folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(Path(__file__).parents[2]),
            }
        )

    def run(self, name: str) -> str:
        """Run a block and return what it printed."""
        return self.run_text(text_of(name))

    def run_text(self, text: str) -> str:
        """Run what stands in a block and return what it printed."""
        finished = subprocess.run(
            self.script(text),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout


@pytest.fixture(scope="module")
def newcomer(kafka: str, milvus_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """Yield somebody whose worker is running."""
    folder = tmp_path_factory.mktemp("newcomer")
    _install(folder / ".venv" / "bin")
    (folder / "runbooks").mkdir()
    for name in ("bad-deployment-rollback", "disk-full", "kafka-consumer-group-stuck"):
        shutil.copy(RUNBOOKS / f"{name}.md", folder / "runbooks")
    topics = StageTopics(bootstrap=kafka, name=unique_name())
    somebody = Newcomer(folder=folder, topics=topics, milvus_uri=milvus_uri, port=WorkerPort())
    log = folder / "worker.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            somebody.script(text_of("worker")),
            cwd=folder,
            env=somebody.environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as worker,
    ):
        try:
            _wait_until_ready(somebody.port, worker, log)
            yield somebody
        finally:
            os.killpg(worker.pid, signal.SIGTERM)
            worker.wait(COMMAND_TIMEOUT_S)
    with connected(MilvusCollection(uri=milvus_uri, collection=topics.name)) as client:
        client.drop_collection(topics.name)


def test_ask_shows_evidence_and_metrics_count_it(newcomer: Newcomer) -> None:
    """Topics, index, worker, ask and a look at the metrics: no step is missing."""
    require_tool("curl")
    printed = newcomer.run("ask")
    assert "kafka-consumer-group-stuck#chunk-0" in printed
    assert 'lookup_requests_total{status="ok"}' in printed


def test_agent_of_the_readme_prints_evidence(newcomer: Newcomer) -> None:
    """Ten lines are an agent."""
    assert len([line for line in text_of("agent").splitlines() if line]) <= 10
    first, *others = newcomer.run("agent").splitlines()
    assert first.startswith("bad-deployment-rollback#chunk-")
    assert others


def test_python_example_prints_evidence_and_checks_citations(newcomer: Newcomer) -> None:
    """The client awaits its result, and the guard tells citations apart."""
    first, *_ = lines = newcomer.run("python").splitlines()
    assert first.startswith("bad-deployment-rollback#chunk-")
    assert lines[-3] == f"in the evidence: ('{first.split()[0]}',)"
    assert lines[-2].startswith(
        "whole documents: {'bad-deployment-rollback': ('bad-deployment-rollback#chunk-"
    )
    assert lines[-1] == "not in the evidence: ('made-up#chunk-0',)"


@pytest.mark.parametrize(("block", "request_id"), [("kcat", "r-42"), ("cloud-event", "e-43")])
def test_exchange_with_another_client_prints_the_result(
    newcomer: Newcomer, block: str, request_id: str
) -> None:
    """A request that a console producer sent has its result, in the contract."""
    require_tool("kcat")
    value = newcomer.run(block).encode()
    result = orjson.loads(value)
    assert (result["request_id"], result["status"]) == (request_id, "ok")
    check_result(
        value,
        (
            ("content-type", b"application/json"),
            ("lookup-request-id", request_id.encode()),
            ("lookup-status", b"ok"),
        ),
    )


def test_dead_letters_can_be_looked_at(newcomer: Newcomer) -> None:
    """The three commands run one after the other, also where there is nothing to show."""
    newcomer.run("dead-letters")


def test_config_shows_where_a_value_comes_from(newcomer: Newcomer) -> None:
    """What the line sets is in force."""
    printed = newcomer.run("config")
    (line,) = [line for line in printed.splitlines() if line.startswith("rag.return-n")]
    assert line.split()[1] == "3"
    assert "environment" in line


def test_contract_is_written(newcomer: Newcomer) -> None:
    """The files are where the command says."""
    for file in newcomer.run("contract").splitlines():
        assert orjson.loads((newcomer.folder / file).read_bytes())


def test_recordings_are_replayed_and_compared_by_hand_and_in_ci(newcomer: Newcomer) -> None:
    """Another cap shows what it costs; unchanged, the workflow's own step passes its thresholds."""
    newcomer.run("ask")
    shown = newcomer.run("regression")
    assert "max_chunks_per_document: 2 → 1" in shown
    assert "over the document cap" in shown
    assert (newcomer.folder / "report.html").stat().st_size > 0
    steps = yaml.safe_load(text_of("workflow"))["jobs"]["compare"]["steps"]
    [step] = [step for step in steps if step.get("name") == "Replay and compare"]
    checked = newcomer.run_text(step["run"])
    assert checked.count("passed ") == 3
    assert "FAILED" not in checked


def test_a_public_collection_is_compared_with_its_judgements(newcomer: Newcomer) -> None:
    """Converted, indexed, asked, recorded, replayed and measured: no step is missing."""
    require_tool("kcat")
    collection = newcomer.folder / "techqa"
    collection.mkdir()
    lines = {
        "docs.jsonl": {"doc_id": "lag", "title": "Consumer lag", "text": "Restart the consumer. " * 80},
        "queries.jsonl": {"query_id": "q-1", "text": "What to do about consumer lag?"},
    }
    for name, line in lines.items():
        (collection / name).write_bytes(orjson.dumps(line))
    (collection / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq-1\tlag\t1\n", encoding="utf-8")
    newcomer.run("collection")
    _wait_until_recorded(newcomer, b'"q-1"')
    shown = newcomer.run("collection-compare")
    [recall] = [line.split() for line in shown.splitlines() if line.startswith("recall@10")]
    assert recall[1:3] == ["1.0000", "1.0000"]


def _wait_until_recorded(newcomer: Newcomer, text: bytes) -> None:
    give_up = time.monotonic() + COMMAND_TIMEOUT_S
    file = newcomer.folder / "so-far.jsonl"
    newcomer.run_text("lookup-stage record -o so-far.jsonl")
    while text not in file.read_bytes():
        assert time.monotonic() < give_up
        newcomer.run_text("lookup-stage record -o so-far.jsonl --force")


def _install(folder: Path) -> None:
    """Make what `pip install` makes of a virtual environment, for the interpreter that the tests run in."""
    folder.mkdir(parents=True)
    for name, arguments in (("lookup-stage", " -m streams"), ("python", "")):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    (folder / "activate").write_text(f'PATH="{folder}:$PATH"\n', encoding="utf-8")


def _wait_until_ready(port: WorkerPort, worker: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + READY_TIMEOUT_S
    while port.get("/readyz").status != 200:
        assert worker.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < give_up, log.read_text(encoding="utf-8")
        time.sleep(0.1)
