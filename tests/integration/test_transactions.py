"""Requests written in transactions, on Apache Kafka: aborted ones are none, and markers hold nothing up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.topics import end_offsets, read_all, until_committed
from tests.support.worker import StageTopics, WorkerProcess, reading_results, request, run_command

pytestmark = pytest.mark.kafka

ENVIRONMENT = {"SEARCH_PORT": "tests.integration.search_ports:instant", "EMBEDDING_PROVIDER": "none"}
DEADLINE_S = 30.0


async def transact(
    topics: StageTopics, producer: Producer, *names: str, commit: bool, marker_at: int
) -> None:
    """Write requests in one transaction, end it, and wait for the marker, which brokers write later."""
    topic = topics.requests
    producer.begin_transaction()
    _write(producer, topic, *names)
    if commit:
        producer.commit_transaction(DEADLINE_S)
    else:
        producer.abort_transaction(DEADLINE_S)
    async with asyncio.timeout(DEADLINE_S):
        while await end_offsets(topics.bootstrap, topic) != {0: marker_at + 1}:  # noqa: ASYNC110 - a broker's
            await asyncio.sleep(0.05)


def _write(producer: Producer, topic: str, *names: str) -> None:
    for name in names:
        producer.produce(topic, request(name, query="q").value, name.encode())
    assert producer.flush(DEADLINE_S) == 0


async def test_aborted_requests_are_not_answered_and_the_commit_reaches_the_last_answered_one(
    kafka: str, tmp_path: Path
) -> None:
    """Requests lie between aborted ones and markers, the first gap right behind offset 0.

    What follows the last request, markers and aborted ones, stays uncommitted: it is no work.
    """
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    plain = Producer({"bootstrap.servers": kafka})
    transactional = Producer({"bootstrap.servers": kafka, "transactional.id": topics.name})
    transactional.init_transactions(DEADLINE_S)
    with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / "worker.log"):
        async with reading_results(topics, partitions=1) as log:
            _write(plain, topics.requests, "r-0")  # 0
            await until_committed(kafka, topics.name, topics.requests, {0: 1})
            await transact(topics, transactional, "aborted-1", "aborted-2", commit=False, marker_at=3)
            await transact(topics, transactional, "r-1", "r-2", commit=True, marker_at=6)
            await transact(topics, transactional, "aborted-3", commit=False, marker_at=8)
            _write(plain, topics.requests, "r-3")  # 9
            await transact(topics, transactional, "aborted-4", commit=False, marker_at=11)
            await log.wait_for([f"r-{number}" for number in range(4)], timeout_s=DEADLINE_S)
            await until_committed(kafka, topics.name, topics.requests, {0: 10})
            await transact(topics, transactional, "r-4", commit=True, marker_at=13)
            await log.wait_for(["r-4"], timeout_s=DEADLINE_S)
            await until_committed(kafka, topics.name, topics.requests, {0: 13})
    assert set(log.by_request) == {f"r-{number}" for number in range(5)}
    assert await read_all(kafka, topics.dead_letters) == ()
    output = tmp_path / "requests.jsonl"
    command = ("record", "--requests", "-o", str(output))
    done = await asyncio.to_thread(run_command, *command, environment=topics.environment)
    assert (done.code, len(output.read_bytes().splitlines())) == (0, 5), done.stderr


async def test_open_transaction_holds_back_what_is_behind_it_until_it_ends(
    kafka: str, tmp_path: Path
) -> None:
    """Nobody can know yet whether its requests count; once it is aborted, the others are answered."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    plain = Producer({"bootstrap.servers": kafka})
    transactional = Producer({"bootstrap.servers": kafka, "transactional.id": topics.name})
    transactional.init_transactions(DEADLINE_S)
    with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / "worker.log"):
        async with reading_results(topics, partitions=1) as log:
            _write(plain, topics.requests, "before")
            transactional.begin_transaction()
            _write(transactional, topics.requests, "open")
            _write(plain, topics.requests, "behind")
            await log.wait_for(["before"], timeout_s=DEADLINE_S)
            await until_committed(kafka, topics.name, topics.requests, {0: 1})
            assert set(log.by_request) == {"before"}
            transactional.abort_transaction(DEADLINE_S)
            await log.wait_for(["behind"], timeout_s=DEADLINE_S)
            await until_committed(kafka, topics.name, topics.requests, {0: 3})
    assert set(log.by_request) == {"before", "behind"}


async def test_restart_among_aborted_requests_goes_on_behind_them(kafka: str, tmp_path: Path) -> None:
    """Where reading begins at a committed offset without a record, commits go on all the same."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    plain = Producer({"bootstrap.servers": kafka})
    transactional = Producer({"bootstrap.servers": kafka, "transactional.id": topics.name})
    transactional.init_transactions(DEADLINE_S)
    _write(plain, topics.requests, "r-0", "r-1")
    for name, first, committed in (("first", ["r-0", "r-1"], 2), ("second", ["r-2"], 8)):
        with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / f"{name}.log"):
            async with reading_results(topics, partitions=1) as log:
                await log.wait_for(first, timeout_s=DEADLINE_S)
                await until_committed(kafka, topics.name, topics.requests, {0: committed})
        if name == "first":
            aborted = [f"aborted-{number}" for number in range(4)]
            await transact(topics, transactional, *aborted, commit=False, marker_at=6)
            _write(plain, topics.requests, "r-2")
