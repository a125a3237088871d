"""The commands as people run them, on Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.support.worker import StageTopics, WorkerProcess, run_command

pytestmark = pytest.mark.kafka

NO_SEARCH = {"SEARCH_PORT": "tests.integration.search_ports:instant", "EMBEDDING_PROVIDER": "none"}
NOWHERE = "127.0.0.1:1"


def test_topics_creates_what_is_missing_and_reports_what_differs(kafka: str) -> None:
    """`topics` creates, reports, and with --dry-run exits 1 where something is missing."""
    topics = StageTopics(bootstrap=kafka)
    missing = run_command("topics", "--dry-run", environment=topics.environment)
    assert missing.code == 1
    assert missing.stdout.count("missing") == 3
    created = run_command("topics", "--partitions", "2", environment=topics.environment)
    assert created.code == 0
    assert created.stdout.count("created") == 3
    again = run_command("topics", "--partitions", "3", "--json", environment=topics.environment)
    states = orjson.loads(again.stdout)
    assert [(state["partitions"], state["note"]) for state in states] == [(2, "has 2 partitions, not 3")] * 3


def test_topics_has_that_of_recordings_where_any_are_made(kafka: str) -> None:
    """Without `stage.recording` nobody needs it; with it a worker does not start without."""
    topics = StageTopics(bootstrap=kafka)
    environment = topics.environment | {"STAGE_RECORDING": "0.5"}
    assert topics.recordings not in run_command("topics", environment=topics.environment).stdout
    worker = run_command("worker", environment=environment | NO_SEARCH)
    assert (worker.code, topics.recordings in worker.stderr) == (2, True)
    created = run_command("topics", environment=environment)
    assert created.stdout.count("created") == 1
    assert f"{topics.recordings}" in created.stdout


@pytest.mark.parametrize("arguments", [[], ["--requests"]], ids=["recordings", "requests"])
def test_the_command_that_a_hint_names_creates_the_topic(
    kafka: str, tmp_path: Path, arguments: list[str]
) -> None:
    """`record` works after it, although no worker records."""
    topics, out = StageTopics(bootstrap=kafka), str(tmp_path / "out.jsonl")
    missing = run_command("record", *arguments, "-o", out, environment=topics.environment)
    assert missing.code == 2
    hint = missing.stderr.split("`")[1].split()
    assert hint[0] == "lookup-stage"
    assert run_command(*hint[1:], environment=topics.environment).code == 0
    done = run_command("record", *arguments, "-o", out, environment=topics.environment)
    assert (done.code, done.stderr) == (0, f"0 recordings written to {out}\n")


async def test_ask_prints_evidence_and_ledger(kafka: str, tmp_path: Path) -> None:
    """`ask` sends one request and shows its result; --json gives the result itself."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    with WorkerProcess(topics.environment | NO_SEARCH, tmp_path / "worker.log"):
        shown = run_command("ask", "what is up", "--explain", environment=topics.environment)
        printed = run_command(
            "ask", "first", "second", "--return-n", "2", "--json", environment=topics.environment
        )
        failed = run_command("ask", "boom", environment=topics.environment)
    assert shown.code == 0, shown.stderr
    assert "doc0#chunk-0" in shown.stdout
    assert "20 retrieved" in shown.stdout
    result = orjson.loads(printed.stdout)
    assert [item["document_id"] for item in result["evidence"]] == ["doc0#chunk-0", "doc1#chunk-1"]
    assert result["ledger"]["duplicates"] == 20
    assert failed.code == 1
    assert "internal" in failed.stdout


async def test_any_port_named_in_the_settings_replaces_milvus(kafka: str, tmp_path: Path) -> None:
    """A later adapter replaces the search without a change to the pipeline: `package.module:factory`."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    port = NO_SEARCH | {"SEARCH_PORT": "tests.integration.search_ports:two_rows"}
    with WorkerProcess(topics.environment | port, tmp_path / "worker.log"):
        printed = run_command(
            "ask", "north", "--vector", "[0.1, 0.9]", "--json", environment=topics.environment
        )
    assert [item["content"] for item in orjson.loads(printed.stdout)["evidence"]] == ["north", "east"]


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"RAG_RETRIEVE_K": "many"}, "rag.retrieve-k = 'many' (environment RAG_RETRIEVE_K): must be"),
        ({"RAG_RETRIEVE_K": "3"}, "rag.return-n = 5 (default) must not be greater than rag.retrieve-k = 3"),
        ({"KAFKA_BOOTSTRAP_SERVERS": NOWHERE}, "no broker can be reached"),
        ({"KAFKA_TOPICS_RESULTS": "not-there"}, "there is no topic not-there"),
        ({"SEARCH_PORT": "nobody.knows:it"}, "search.port = 'nobody.knows:it': must be"),
        ({"LOOKUP_CONFIG": "not-there.yaml"}, "not-there.yaml: cannot be read"),
    ],
)
async def test_a_worker_that_cannot_start_says_why_in_one_line(
    kafka: str, environment: dict[str, str], complaint: str
) -> None:
    """Wrong settings and unreachable brokers: one line on standard error, exit 2, no traceback."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    ended = run_command("worker", environment=topics.environment | NO_SEARCH | environment)
    assert ended.code == 2
    assert complaint in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr


@pytest.mark.milvus
async def test_a_worker_without_its_collection_says_so_in_one_line(kafka: str, milvus_uri: str) -> None:
    """A missing collection, an unreachable Milvus: one line on standard error, exit 2, no traceback."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    for environment, complaint in (
        ({"MILVUS_URI": milvus_uri, "MILVUS_COLLECTION": "nowhere"}, "no collection nowhere"),
        ({"MILVUS_URI": f"http://{NOWHERE}"}, NOWHERE),
    ):
        ended = run_command("worker", environment=topics.environment | environment)
        assert ended.code == 2
        assert complaint in ended.stderr
        assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr
