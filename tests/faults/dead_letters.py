"""What can be answered only with an error, and what can be neither answered nor kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.faults.load import Load, name_of
from tests.faults.report import Report
from tests.faults.results import reading
from tests.faults.supervisor import ended, one_worker
from tests.faults.trial import PACED_PORT, SESSION_TIMEOUT_S, Setup, trial
from tests.faults.waiting import eventually
from tests.support.topics import (
    committed_offsets,
    create_topics,
    delete_topics,
    end_offsets,
    read_all,
)
from tests.support.worker import StageTopics

EVERY = 5
"""One in so many requests is bad, or has a large result."""
PUBLISH_TIMEOUT_S = 4.0
LARGEST_RECORD = 10_000
PARTITIONS = 4


async def too_many_dead_letters(kafka: str, directory: Path, *, limit: int, requests: int) -> Report:
    """Send more requests that are not valid than may be dead-lettered in a minute."""
    report = Report(
        scenario="too-many-dead-letters",
        load=f"1 worker, at most {limit} dead letters a minute, {requests} requests, every {EVERY}th is bad",
    )
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    load = Load(topics, fields=_bad_now_and_then)
    limited = _environment(topics) | {"STAGE_MAX_DEAD_LETTERS_PER_MINUTE": str(limit)}
    async with one_worker(limited, directory / "limited.log") as worker:
        await load.send(requests)
        code = await ended(worker, deadline_s=60)
    answered = {_request_id(record.value) for record in await read_all(kafka, topics.results)}
    dead = await read_all(kafka, topics.dead_letters)
    lost = await _acknowledged(topics) - answered
    report.figures |= {
        "exit_code": code,
        "answered_before": len(answered),
        "dead_letters_before": len(dead),
        "acknowledged_unanswered": len(lost),
    }
    report.require_one_line(worker.log, "TooManyDeadLetters: more than stage.max-dead-letters-per-minute")
    report.require("the worker ends with 1", holds=code == 1)
    report.require("no more dead letters than the limit", holds=len(dead) <= limit)
    report.require("some requests are left", holds=len(answered) < requests)
    report.require("nothing unanswered is acknowledged", holds=not lost)
    async with reading(topics) as results, one_worker(_environment(topics), directory / "unlimited.log"):
        await results.complete(requests)
    dead = await read_all(kafka, topics.dead_letters)
    bad = {name_of(number).encode() for number in range(0, requests, EVERY)}
    report.figures |= {
        "without_result": results.missing(requests),
        "repeated": results.repeated,
        "dead_letters": len({record.key for record in dead}),
    }
    report.require("after a restart every request has a result", holds=results.missing(requests) == 0)
    report.require("and every bad one is a dead letter", holds={record.key for record in dead} == bad)
    return report


async def unpublishable_results(
    kafka: str, directory: Path, *, how: Literal["deleted", "tiny"], requests: int
) -> Report:
    """Take the results topic away under the worker, or let it accept few bytes only, then repair it."""
    report = Report(
        scenario=f"unpublishable-{how}",
        load=f"1 worker, {requests} requests before and {requests} after the results topic is {how}",
    )
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    load = Load(topics)
    environment = _environment(topics) | {"STAGE_PUBLISH_TIMEOUT": str(PUBLISH_TIMEOUT_S)}
    async with one_worker(environment, directory / "before.log") as worker:
        async with reading(topics) as results:
            await load.send(requests)
            await results.complete(requests)
        before = await end_offsets(kafka, topics.requests)
        await eventually(lambda: _committed(topics), before, deadline_s=30)
        if how == "deleted":
            await delete_topics(kafka, topics.results)
        else:
            await _alter(topics, {"max.message.bytes": "100"})
        await load.send(requests)
        code = await ended(worker, deadline_s=120)
    committed = await _committed(topics)
    if how == "deleted":
        await create_topics(kafka, topics.results, partitions=PARTITIONS)
    else:
        await _alter(topics, {"max.message.bytes": "1048588"})
    async with reading(topics) as results, one_worker(environment, directory / "after.log"):
        await results.complete(requests if how == "deleted" else 2 * requests)
    later = {name_of(number) for number in range(requests, 2 * requests)}
    lost = later - results.by_request.keys()
    report.figures |= {"exit_code": code, "without_result": len(lost), "repeated": results.repeated}
    report.require_one_line(worker.log, "the worker stopped")
    report.require("the worker ends with 1", holds=code == 1)
    report.require("nothing unanswered is acknowledged", holds=committed == before)
    report.require("with the topic mended every request has a result", holds=not lost)
    return report


async def broken_sequence(kafka: str, directory: Path, *, rate: float, requests: int) -> Report:
    """Let the producer of each worker leave a gap in its sequence, which the broker refuses from then on."""
    report = Report(
        scenario="broken-sequence",
        load=f"1 worker, {requests} requests at {rate:g}/s, a gap in the producer's sequence in each life",
    )
    settings = {"SEARCH_PORT": "tests.faults.search_ports:out_of_sequence"}
    async with trial(kafka, directory, Setup(settings=settings)) as stage:
        await stage.load.send(requests, rate=rate)
        await stage.results.complete(requests)
        codes = list(stage.workers.exit_codes)
        stage.count_results(report)
    first_log = await asyncio.to_thread((directory / "worker-0.log").read_text)
    report.require_one_line(first_log, "OutOfOrderSequenceNumber")
    report.require("workers ended", holds=len(codes) > 0)
    report.require("each with 1", holds=set(codes) <= {1})
    return report


async def too_large_results(kafka: str, directory: Path, *, requests: int) -> Report:
    """Send requests some of which have results that are larger than the results topic takes."""
    report = Report(
        scenario="too-large-results",
        load=f"1 worker, results of {LARGEST_RECORD} bytes at most, {requests} requests,"
        f" every {EVERY}th has a larger result",
    )
    topics = StageTopics(bootstrap=kafka)
    await create_topics(kafka, topics.requests, topics.dead_letters, partitions=PARTITIONS)
    await create_topics(
        kafka, topics.results, partitions=PARTITIONS, configs={"max.message.bytes": str(LARGEST_RECORD)}
    )
    load = Load(topics, fields=_large_now_and_then)
    async with (
        reading(topics) as results,
        one_worker(_environment(topics), directory / "worker.log") as worker,
    ):
        await load.send(requests)
        await results.complete(requests)
        code_while_running = worker.exit_code
    large = {name_of(number) for number in range(0, requests, EVERY)}
    failed = {name for name, answered in results.by_request.items() if answered.status == "failed"}
    dead = await read_all(kafka, topics.dead_letters)
    stages = {dict(record.headers)["lookup.errors.stage"] for record in dead}
    report.figures |= {
        "without_result": results.missing(requests),
        "failed": len(failed),
        "codes": " ".join(results.codes),
        "repeated": results.repeated,
        "dead_letters": len(dead),
        "stages": b" ".join(stages).decode(),
    }
    report.require("every request has a result", holds=results.missing(requests) == 0)
    report.require("those and only those are failed", holds=failed == large)
    report.require("with the code internal", holds=dict(results.codes) == {"internal": len(large)})
    report.require("each is dead-lettered", holds=sorted(_keys(dead)) == sorted(large))
    report.require("with stage publish", holds=stages == {b"publish"})
    report.require("the worker goes on", holds=code_while_running is None)
    report.require("each is answered once", holds=results.repeated == 0)
    return report


def _environment(topics: StageTopics) -> dict[str, str]:
    return topics.environment | PACED_PORT | {"KAFKA_SESSION_TIMEOUT": str(SESSION_TIMEOUT_S)}


def _bad_now_and_then(number: int) -> dict[str, Any]:
    return {"query": f"question {number} after {number % 20} ms", "retrieve_k": 5 if number % EVERY else 0}


def _large_now_and_then(number: int) -> dict[str, Any]:
    if number % EVERY:
        return {"query": f"question {number}", "retrieve_k": 5}
    widths = {"retrieve_k": 20, "return_n": 20, "max_chunks_per_document": 20}
    return {"query": f"question {number} " + "at length " * 60, "hints": "x" * 3_000, **widths}


def _request_id(value: bytes | None) -> str:
    return str(json.loads(value or b"")["request_id"])


def _keys(records: Any) -> list[str]:
    return [record.key.decode() for record in records]


async def _committed(topics: StageTopics) -> dict[int, int]:
    return await committed_offsets(topics.bootstrap, topics.name, topics.requests)


async def _acknowledged(topics: StageTopics) -> set[str]:
    """Return the requests that will not be delivered again."""
    committed = await _committed(topics)
    return {
        _request_id(record.value)
        for record in await read_all(topics.bootstrap, topics.requests)
        if record.offset < committed.get(record.partition, 0)
    }


async def _alter(topics: StageTopics, configs: Mapping[str, str]) -> None:
    """Change the configuration of the results topic."""
    client = AIOKafkaAdminClient(bootstrap_servers=topics.bootstrap)
    try:
        await client.start()
        await client.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topics.results, configs=dict(configs))]
        )
    finally:
        await client.close()
