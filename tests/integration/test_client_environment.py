"""The client in an environment that has its own requirements and nothing else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.worker import StageTopics, WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "deploy" / "client-requirements.txt"

AGENT = """
import asyncio
from streams import check_citations
from streams import connected_client
from streams import load_settings

async def main():
    async with connected_client(load_settings().kafka) as client:
        result = await client.look_up({"query": "a stuck consumer group", "return_n": 2}, timeout_s=60)
    cited = [item.document_id for item in result.evidence]
    print(result.status, *check_citations(result, cited).projected)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a fresh environment with the client's requirements."""
    folder = tmp_path_factory.mktemp("agent")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    interpreter = folder / "bin" / "python"
    subprocess.run(
        [interpreter, "-m", "pip", "install", "--quiet", "--no-deps", "-r", REQUIREMENTS, ROOT],
        check=True,
        timeout=480,
    )
    return interpreter


def run_agent(python: Path, environment: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the agent far from the checkout, so that it imports what is installed."""
    return subprocess.run(
        [python, "-c", AGENT],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def test_client_looks_up_with_its_own_requirements_alone(
    python: Path, kafka: str, tmp_path: Path
) -> None:
    """An agent's image needs no Faust, no pymilvus and no model."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    port = {"SEARCH_PORT": "tests.integration.search_ports:instant"}
    with WorkerProcess(topics.environment | port, tmp_path / "worker.log"):
        agent = await asyncio.to_thread(run_agent, python, topics.environment, tmp_path)
    assert (agent.returncode, agent.stderr) == (0, "")
    assert agent.stdout.split() == ["ok", "doc0#chunk-0", "doc1#chunk-1"]


def test_client_s_environment_has_neither_engine_nor_worker(python: Path) -> None:
    """The list of requirements is short, and what it leaves out is not there."""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "freeze"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    names = {line.partition("==")[0].lower().replace("_", "-") for line in listed.splitlines()}
    assert {"lookup-stage", "aiokafka", "orjson", "pydantic"} <= names
    assert names & {"faust-streaming", "pymilvus", "wordllama", "numpy", "grpcio", "rich"} == set()
    assert len(names - {"pip", "setuptools"}) < 18
