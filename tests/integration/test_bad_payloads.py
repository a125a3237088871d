"""Whatever bytes come in: the worker goes on, and every one of them is accounted for."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from tests.integration.bad_payloads import ERROR_HEADERS, Bad, bad_payloads, readable_id
from tests.support.contract import check_error_headers
from tests.support.topics import StoredRecord, committed_offsets, create_topics, end_offsets, read_all
from tests.support.worker import (
    Payload,
    StageTopics,
    WorkerProcess,
    reading_results,
    request,
    run_command,
    send_all,
)

pytestmark = pytest.mark.kafka

BAD, GOOD, LARGE, SEED = 5_000, 500, 30, 20_260_131
PRIVATE = "zanzibar"
"""In every query, and so in all evidence: where it is seen, something leaks."""

MEGABYTE = 1_024 * 1_024
HUGE, HUGE_REQUESTS = 20 * MEGABYTE, 30
SLOW, NOISE = 0, 2
MEMORY_BOUND = 1_024 * MEGABYTE
"""The worker holds 128 MB of requests; each may be there some six times over while it is read or sent on."""

ENVIRONMENT = {
    "SEARCH_PORT": "tests.integration.search_ports:instant",
    "EMBEDDING_PROVIDER": "none",
    "STAGE_MAX_DEAD_LETTERS_PER_MINUTE": "1000000",
    "STAGE_LOG_LEVEL": "debug",
}


@pytest.mark.timeout(300)
async def test_thousands_of_bad_payloads_do_not_cost_one_good_request(kafka: str, tmp_path: Path) -> None:
    """Good requests are answered, bad ones rejected or dead-lettered byte for byte, and the sums balance."""
    bad = bad_payloads(BAD, large=LARGE, seed=SEED)
    ids = [readable_id(each.payload) for each in bad]
    good = [request(f"good-{number}", query=f"{PRIVATE} {number}") for number in range(GOOD)]
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / "worker.log") as worker:
        async with reading_results(topics) as log:
            await _send(topics, _mixed([each.payload for each in bad], good))
            answered = {each for each in ids if each is not None}
            await log.wait_for([*answered, *(f"good-{number}" for number in range(GOOD))], timeout_s=120)
            await _wait_for_records(topics, topics.dead_letters, BAD)
        worker.send(signal.SIGTERM)
        assert worker.wait(timeout_s=40) == 0
    for number in range(GOOD):
        assert _status(log.by_request[f"good-{number}"]) == "ok"
    for each, request_id in zip(bad, ids, strict=True):
        if request_id is not None:
            _check_rejected(each, log.by_request[request_id])
    assert {name: len(records) for name, records in log.by_request.items() if len(records) > 1} == {}
    assert log.by_request.keys() == answered | {f"good-{number}" for number in range(GOOD)}
    dead = await read_all(kafka, topics.dead_letters)
    assert Counter(map(_request_of, dead)) == Counter(
        (each.payload.key, each.payload.value, each.payload.headers) for each in bad
    )
    ends = await end_offsets(kafka, topics.requests)
    assert sum(ends.values()) == BAD + GOOD
    assert await committed_offsets(kafka, topics.name, topics.requests) == ends
    _check_log(worker.log)


def test_generated_payloads_are_of_both_sorts_and_the_same_each_time() -> None:
    """Thousands can be answered and thousands cannot, and a failure can be looked at again."""
    first, second = (bad_payloads(BAD, large=0, seed=SEED) for _ in range(2))
    assert first == second
    readable = sum(readable_id(each.payload) is not None for each in first)
    assert BAD / 4 < readable < BAD * 3 / 4
    assert any(each.payload.value is None and each.payload.key is None for each in first)


@pytest.mark.timeout(300)
async def test_requests_of_many_megabytes_do_not_exhaust_memory(kafka: str, tmp_path: Path) -> None:
    """600 MB of requests of 20 MB each are never in memory at once, though some wait long for the search."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=4, configs={"max.message.bytes": str(HUGE + 2 * MEGABYTE)})
    producer = AIOKafkaProducer(bootstrap_servers=kafka, max_request_size=HUGE + MEGABYTE)
    await producer.start()
    for number in range(HUGE_REQUESTS):
        await producer.send_and_wait(topics.requests, value=_huge(number), partition=number % 4)
    await producer.stop()
    answered = [f"huge-{number}" for number in range(HUGE_REQUESTS) if number % 3 != NOISE]
    environment = topics.environment | ENVIRONMENT | {"SEARCH_TIMEOUT": "3"}
    with WorkerProcess(environment, tmp_path / "worker.log") as worker:
        at_rest = _peak_memory(worker)
        async with reading_results(topics) as log:
            await log.wait_for(answered, timeout_s=120)
            await _wait_for_records(topics, topics.dead_letters, HUGE_REQUESTS)
        assert _peak_memory(worker) - at_rest < MEMORY_BOUND
        worker.send(signal.SIGTERM)
        assert worker.wait(timeout_s=40) == 0
    assert Counter(_status(log.by_request[name]) for name in answered) == {
        "failed": HUGE_REQUESTS // 3,
        "rejected": HUGE_REQUESTS // 3,
    }


async def test_id_that_no_result_can_carry_does_not_stop_the_worker(kafka: str, tmp_path: Path) -> None:
    """A result has the id in key, header and value: a long id is a dead letter, and others are answered."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    monster = request("x" * 400_000, query=PRIVATE)
    with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / "worker.log"):
        async with reading_results(topics, 1) as log:
            await send_all(topics, [Payload(value=monster.value), request("after", query=PRIVATE)])
            await log.wait_for(["after"], timeout_s=30)
    (dead,) = await read_all(kafka, topics.dead_letters)
    assert dead.value == monster.value


async def test_dead_letter_of_the_largest_request_has_room(kafka: str, tmp_path: Path) -> None:
    """Topics that the command makes take the largest request that Kafka does, with the error's headers."""
    topics = StageTopics(bootstrap=kafka)
    created = await asyncio.to_thread(run_command, "topics", environment=topics.environment)
    assert created.code == 0, created.stderr
    largest = Payload(value=b"\xff" * (1_048_588 - 100), headers=(("own", b"1"),))
    producer = AIOKafkaProducer(bootstrap_servers=kafka, max_request_size=2 * MEGABYTE)
    await producer.start()
    await producer.send_and_wait(topics.requests, value=largest.value, headers=list(largest.headers))
    await producer.stop()
    with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / "worker.log"):
        await _wait_for_records(topics, topics.dead_letters, 1)
    (dead,) = await read_all(kafka, topics.dead_letters)
    assert _request_of(dead) == (None, largest.value, largest.headers)


async def test_dead_letters_are_made_for_the_requests_that_are_there(kafka: str) -> None:
    """Where requests may be larger, so may dead letters, and the command says so where they may not."""
    topics = StageTopics(bootstrap=kafka)
    await create_topics(kafka, topics.requests, configs={"max.message.bytes": str(HUGE)})
    small = topics.environment | {"KAFKA_TOPICS_DEAD_LETTERS": f"{topics.name}.small"}
    await create_topics(kafka, f"{topics.name}.small")
    command = ("topics", "--partitions", "1", "--json")
    made = await asyncio.to_thread(run_command, *command, environment=topics.environment)
    again = await asyncio.to_thread(run_command, *command, environment=topics.environment)
    told = await asyncio.to_thread(run_command, *command, environment=small)
    assert [state["created"] for state in orjson.loads(made.stdout)] == [False, True, True]
    assert [state["note"] for state in orjson.loads(again.stdout)] == ["", "", ""]
    assert "a request with the error's headers may have" in orjson.loads(told.stdout)[2]["note"]


@pytest.mark.parametrize("form", ["json", "console"])
async def test_log_quotes_neither_queries_nor_evidence(kafka: str, tmp_path: Path, form: str) -> None:
    """Whatever becomes of a request, also where the search port raises with the query in its words."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    queries = [f"{PRIVATE} {what}" for what in ("ok", "boom", "hang", "none", "x" * 9_000)]
    sent = [request(f"r-{number}", query=query) for number, query in enumerate(queries)]
    environment = topics.environment | ENVIRONMENT | {"STAGE_LOG_FORMAT": form, "SEARCH_TIMEOUT": "0.5"}
    worker = WorkerProcess(environment, tmp_path / "worker.log")
    worker.launch()
    try:
        async with reading_results(topics) as log:
            await send_all(topics, [*sent, Payload(value=f"{PRIVATE} is not JSON".encode())])
            await log.wait_for([f"r-{number}" for number in range(len(sent))], timeout_s=60)
            await _wait_for_records(topics, topics.dead_letters, 4)
        worker.send(signal.SIGTERM)
        assert worker.wait(timeout_s=40) == 0
    finally:
        worker.kill()
    assert [_status(log.by_request[f"r-{number}"]) for number in range(len(sent))] == [
        "ok",
        "failed",
        "failed",
        "empty",
        "rejected",
    ]
    assert "search_failed_unforeseen" in worker.log
    assert "KeyError" in worker.log
    if form == "json":
        _check_log(worker.log)
    assert PRIVATE not in worker.log


def _huge(number: int) -> bytes:
    """Make a request of 20 MB whose search takes too long, one that is invalid, or noise, in turn."""
    if number % 3 == NOISE:
        return b"\xc0" + b"x" * HUGE
    query = b'"hang"' if number % 3 == SLOW else b"5"
    return b'{"request_id": "huge-%d", "query": %b, "padding": "%b"}' % (number, query, b"x" * HUGE)


def _peak_memory(worker: WorkerProcess) -> int:
    """Return the most bytes of memory that a worker has had so far."""
    status = Path(f"/proc/{worker.pid}/status").read_text(encoding="ascii")
    (peak,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1_024


def _mixed(bad: Sequence[Payload], good: Sequence[Payload]) -> list[Payload]:
    """Put a good one after every few bad ones."""
    share = len(bad) // len(good)
    mixed = []
    for number, each in enumerate(good):
        mixed += [*bad[number * share : (number + 1) * share], each]
    return mixed


async def _send(topics: StageTopics, payloads: Sequence[Payload]) -> None:
    """Send all; tombstones without key first, in batches: the producer takes them no other way."""
    nothing = [payload for payload in payloads if _is_nothing(payload)]
    producer = AIOKafkaProducer(bootstrap_servers=topics.bootstrap)
    await producer.start()
    try:
        for number, payload in enumerate(nothing):
            batch = producer.create_batch()
            batch.append(key=None, value=None, timestamp=None, headers=list(payload.headers))
            await (await producer.send_batch(batch, topics.requests, partition=number % 4))
    finally:
        await producer.stop()
    await send_all(topics, (payload for payload in payloads if not _is_nothing(payload)))


def _is_nothing(payload: Payload) -> bool:
    return payload.value is None and payload.key is None


async def _wait_for_records(topics: StageTopics, topic: str, count: int) -> None:
    async with asyncio.timeout(60):
        while sum((await end_offsets(topics.bootstrap, topic)).values()) < count:
            pass


def _status(records: Sequence[StoredRecord]) -> Any:
    return orjson.loads(records[0].value or b"")["status"]


def _check_rejected(bad: Bad, records: Sequence[StoredRecord]) -> None:
    result = orjson.loads(records[0].value or b"")
    assert (result["status"], result["error"]["code"]) == ("rejected", "invalid_request"), bad.kind
    named = [problem["field"] for problem in result["error"]["fields"]]
    assert all(named), bad.kind
    assert named, bad.kind
    if bad.field is not None and "request" not in named:
        assert bad.field in {name.partition("[")[0].partition(".")[0] for name in named}, (bad.kind, named)


def _request_of(dead: StoredRecord) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]:
    """Accept the error's headers, which come last, off a dead letter."""
    own, error = dead.headers[: -len(ERROR_HEADERS)], dead.headers[-len(ERROR_HEADERS) :]
    assert [name for name, _ in error] == [f"lookup.errors.{name}" for name in ERROR_HEADERS]
    check_error_headers(error)
    return dead.key, dead.value, own


def _check_log(log: str) -> None:
    """Every line is a JSON object with the same four fields, and none quotes a query or its evidence."""
    for line in log.splitlines():
        assert orjson.loads(line).keys() >= {"event", "level", "logger", "timestamp"}
    assert PRIVATE not in log
