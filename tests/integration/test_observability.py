"""What a real worker shows of itself on its port."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from streams.kafka.topics import dead_letters_too_small
from streams.observability.catalogue import METRICS
from streams.settings.model import KafkaSettings, TopicSettings
from tests.support.fixtures import require_tool
from tests.support.probing import WorkerPort
from tests.support.spans import SpanCollector
from tests.support.topics import create_topics
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

ENVIRONMENT = {"SEARCH_PORT": "tests.integration.search_ports:instant", "EMBEDDING_PROVIDER": "none"}
PARTITIONS = 2
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def test_a_worker_shows_what_it_does(kafka: str, tmp_path: Path) -> None:
    """Every metric has its series, the counts are those of the traffic, and it leaves well."""
    topics, port = StageTopics(bootstrap=kafka), WorkerPort()
    await topics.create(partitions=PARTITIONS)
    sent = [
        *(request(f"ok-{number}", query="q", retrieve_k=20) for number in range(10)),
        request("two", queries=["q", "none"], retrieve_k=20),
        request("none", query="none"),
        request("partial", queries=["q", "boom"]),
        request("boom", query="boom"),
        request("bad", query=5),
        request("late", query="q", expires_at="2020-01-01T00:00:00Z"),
        Payload(value=b"not json"),
    ]
    with WorkerProcess(topics.environment | ENVIRONMENT | port.environment, tmp_path / "log") as worker:
        async with reading_results(topics, PARTITIONS) as log:
            await send_all(topics, sent)
            await log.wait_for([*(f"ok-{n}" for n in range(10)), "two", "late"], timeout_s=60)
        await port.until(lambda port: port.metrics()['lookup_requests_total{status="unreadable"}'] == 1)
        await port.until(lambda port: port.get("/readyz").status == 200)
        await port.until(lambda port: _total(port, "lookup_uncommitted_offsets") == 0)
        seen, text = port.metrics(), port.get("/metrics").body
        assert port.get("/livez").status == 200
        assert port.get("/nothing").status == 404
        worker.send(signal.SIGTERM)
        assert worker.wait(timeout_s=40) == 0
    assert '"dead_letter_topic_too_small"' in worker.log  # the test's topics are as Kafka makes them
    assert '"logger": "faust' not in worker.log
    assert f'"metrics_port": {port.number}' in worker.log
    _check_counts(seen, topics)
    _check_with_prometheus(text)


def _check_counts(seen: dict[str, float], topics: StageTopics) -> None:
    for status, count in {
        "ok": 11,
        "empty": 1,
        "partial": 1,
        "failed": 1,
        "expired": 1,
        "rejected": 1,
        "unreadable": 1,
    }.items():
        assert seen[f'lookup_requests_total{{status="{status}"}}'] == count, status
    assert seen["lookup_processing_duration_seconds_count"] == 17
    assert seen['lookup_search_duration_seconds_count{outcome="ok"}'] == 14
    assert seen['lookup_search_duration_seconds_count{outcome="internal"}'] == 2
    assert seen["lookup_search_batch_size_sum"] == 16
    assert seen['lookup_dead_letters_total{reason="internal"}'] == 1
    assert seen['lookup_dead_letters_total{reason="invalid_request"}'] == 1
    assert seen['lookup_dead_letters_total{reason="unreadable"}'] == 1
    # 20 hits of four documents, two of each may stay, and five of those eight are returned.
    assert seen['lookup_dropped_candidates_total{reason="over_document_cap"}'] == 12 * 12
    assert seen['lookup_dropped_candidates_total{reason="over_return_n"}'] == 12 * 3
    assert seen["lookup_evidence_blocks_sum"] == 12 * 5
    assert seen["lookup_evidence_blocks_count"] == 13
    assert seen["lookup_in_flight_requests"] == 0
    for partition in range(PARTITIONS):
        labels = f'{{partition="{partition}",topic="{topics.requests}"}}'
        for gauge in ("consumer_lag_messages", "uncommitted_offsets", "oldest_uncommitted_age_seconds"):
            assert seen[f"lookup_{gauge}{labels}"] == 0
    assert seen['lookup_circuit_state{engine="search"}'] == 0
    names = {series.partition("{")[0] for series in seen if series.startswith("lookup_")}
    assert {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name in names} == {
        metric.name for metric in METRICS
    }


def _check_with_prometheus(text: str) -> None:
    """Let Prometheus's own linter read what a worker serves."""
    checked = subprocess.run(
        [require_tool("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


async def test_a_trace_is_exported_as_the_standard_variables_say(kafka: str, tmp_path: Path) -> None:
    """From the request's header to the result's, all that the worker did reaches the collector."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=PARTITIONS)
    with SpanCollector() as collector:
        environment = topics.environment | ENVIRONMENT | collector.environment | {"TRACING_ENABLED": "true"}
        async with reading_results(topics, PARTITIONS) as log:
            with WorkerProcess(environment, tmp_path / "log"):
                traced = (("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01".encode()), ("tracestate", b"v=1"))
                await send_all(topics, [replace(request("r-1", query="q"), headers=traced)])
                await log.wait_for(["r-1"], timeout_s=60)
    headers = dict(log.by_request["r-1"][0].headers)
    spans = {span.name: span for span in collector.spans}
    process, send = spans[f"process {topics.requests}"], spans[f"send {topics.results}"]
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert process.parent_span_id.hex() == "00f067aa0ba902b7"
    assert spans["search"].parent_span_id == send.parent_span_id == process.span_id
    assert headers["traceparent"] == f"00-{TRACE}-{send.span_id.hex()}-01".encode()
    assert headers["tracestate"] == b"v=1"
    assert collector.services == {"lookup-stage"}


@pytest.mark.parametrize("moment", ["/livez", "/readyz"])
async def test_a_worker_that_is_told_to_stop_while_it_starts_stops_well(
    kafka: str, tmp_path: Path, moment: str
) -> None:
    """Before Faust has begun to start, or just as it has joined its group: exit code 0, and no traceback."""
    topics, port = StageTopics(bootstrap=kafka), WorkerPort()
    await topics.create(partitions=PARTITIONS)
    worker = WorkerProcess(topics.environment | ENVIRONMENT | port.environment, tmp_path / "log")
    worker.launch()
    try:
        await port.until(lambda port: port.get(moment).status == 200)
        worker.send(signal.SIGTERM)
        assert worker.wait(timeout_s=40) == 0
    finally:
        worker.kill()
    assert '"worker_stopped"' in worker.log
    assert "exception" not in worker.log
    assert "Traceback" not in worker.log


@pytest.mark.parametrize(("more", "told"), [(65_535, True), (65_536, False)])
async def test_a_dead_letter_topic_that_takes_too_little_is_told_of(
    kafka: str, *, more: int, told: bool
) -> None:
    """It must take the largest request with 64 KiB of headers: what cannot be kept would stop the worker."""
    topics = StageTopics(bootstrap=kafka)
    for name, size in ((topics.requests, 2_000_000), (topics.dead_letters, 2_000_000 + more)):
        await create_topics(kafka, name, configs={"max.message.bytes": str(size)})
    names = TopicSettings(requests=topics.requests, dead_letters=topics.dead_letters)
    said = await dead_letters_too_small(KafkaSettings(bootstrap_servers=kafka, topics=names))
    expected = "takes 2065535 bytes, a request with the error's headers may have 2065536"
    assert said == (expected if told else None)


async def test_a_port_that_is_taken_stops_the_start(kafka: str) -> None:
    """One line that names the setting, and exit code 2; nothing else is started."""
    port = WorkerPort()
    taken = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port.number)
    async with taken:
        printed = await asyncio.to_thread(
            run_command,
            "worker",
            environment=StageTopics(bootstrap=kafka).environment | ENVIRONMENT | port.environment,
        )
    assert printed.code == 2
    (line,) = printed.stderr.splitlines()
    assert f"metrics.port = {port.number}: cannot listen on 127.0.0.1:{port.number}" in line


def _total(port: WorkerPort, name: str) -> float:
    return sum(value for series, value in port.metrics().items() if series.startswith(f"{name}{{"))
