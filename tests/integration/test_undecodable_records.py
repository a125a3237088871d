"""What no client can decode, on Apache Kafka: it costs nobody else an answer, and is not lost in silence."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from streams.client import connected_client
from streams.settings.model import KafkaSettings, TopicSettings
from tests.support.batches import CODECS, Row, batch, sealed
from tests.support.kafka_server import KafkaServer
from tests.support.raw_produce import produce_batches
from tests.support.topics import StoredRecord, committed_offsets, create_topics, read_all, until_committed
from tests.support.worker import (
    StageTopics,
    WorkerProcess,
    reading_results,
    request,
    run_command,
)

pytestmark = pytest.mark.kafka

ENVIRONMENT = {"SEARCH_PORT": "tests.integration.search_ports:instant", "EMBEDDING_PROVIDER": "none"}
DEADLINE_S = 30.0


def row(name: str, *, padding: int = 0) -> Row:
    """Return a request as it goes into a batch."""
    return Row(key=name.encode(), value=request(name, query="q", padding="x" * padding).value)


async def settled(topics: StageTopics, committed: int) -> None:
    """Wait until the only partition is committed up to an offset."""
    await until_committed(topics.bootstrap, topics.name, topics.requests, {0: committed})


@pytest.mark.parametrize("codec", CODECS)
async def test_requests_of_every_codec_are_answered_with_every_codec(
    kafka: str, tmp_path: Path, codec: str
) -> None:
    """The worker reads what librdkafka compresses, and a client of another vendor reads what it writes."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    names = [f"r-{number}" for number in range(20)]
    producer = Producer({"bootstrap.servers": kafka, "compression.type": codec, "linger.ms": 50})
    for name in names:
        producer.produce(topics.requests, row(name, padding=2_000).value, name.encode())
    assert producer.flush(DEADLINE_S) == 0
    environment = topics.environment | ENVIRONMENT | {"KAFKA_COMPRESSION": codec}
    with WorkerProcess(environment, tmp_path / "worker.log"):
        async with reading_results(topics, partitions=1) as log:
            await log.wait_for(names, timeout_s=DEADLINE_S)
        await settled(topics, len(names))
    output = tmp_path / "requests.jsonl"
    done = await asyncio.to_thread(
        run_command, "record", "--requests", "-o", str(output), environment=topics.environment
    )
    assert (done.code, len(output.read_bytes().splitlines())) == (0, len(names)), done.stderr


async def test_header_name_that_is_not_utf8_costs_nothing(kafka: str, tmp_path: Path) -> None:
    """The request is answered, and where it cannot be, it is in the dead letters with that name replaced."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    odd = Row(key=b"k", value=row("odd").value, headers=[(b"\xff\xfe", b"1"), (b"correlation_id", b"c")])
    dead = Row(key=b"k", value=b"not JSON", headers=[(b"\xff", b"\xff")])
    await produce_batches(kafka, topics.requests, batch(odd, row("after"), dead, codec="zstd"))
    with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / "worker.log"):
        async with reading_results(topics, partitions=1) as log:
            await log.wait_for(["odd", "after"], timeout_s=DEADLINE_S)
        await settled(topics, 3)
    (result,) = log.by_request["odd"]
    assert dict(result.headers)["correlation_id"] == b"c"
    (letter,) = await read_all(kafka, topics.dead_letters)
    assert (letter.value, letter.headers[0]) == (b"not JSON", ("\ufffd", b"\xff"))


async def test_times_that_say_nothing_and_empty_keys_are_taken(kafka: str, tmp_path: Path) -> None:
    """A time of -1 is kept as it is, the broker's time counts where the topic has it, and `b""` is a key."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1, configs={"message.timestamp.type": "CreateTime"})
    appended = f"{topics.name}.appended"
    await create_topics(kafka, appended, configs={"message.timestamp.type": "LogAppendTime"})
    empty, none = (Row(key=key, value=row(name).value) for name, key in (("empty", b""), ("none", None)))
    timeless = bytearray(batch(empty, none, Row(key=b"k", value=b"not JSON")))
    timeless[27:43] = struct.pack(">qq", -1, -1)
    await produce_batches(kafka, topics.requests, sealed(bytes(timeless)))
    with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / "worker.log"):
        async with reading_results(topics, partitions=1) as log:
            await log.wait_for(["empty", "none"], timeout_s=DEADLINE_S)
        await settled(topics, 3)
    assert [log.by_request[name][0].key for name in ("empty", "none")] == [b"", b"none"]
    (letter,) = await read_all(kafka, topics.dead_letters)
    assert dict(letter.headers)["lookup.errors.timestamp"] == b"-1"
    await produce_batches(kafka, appended, batch(row("late"), attributes=0))
    late = topics.environment | ENVIRONMENT | {"KAFKA_TOPICS_REQUESTS": appended, "KAFKA_GROUP_ID": appended}
    with WorkerProcess(late, tmp_path / "late.log"):
        async with reading_results(topics, partitions=1) as log:
            await log.wait_for(["late"], timeout_s=DEADLINE_S)


async def test_unreadable_request_that_is_larger_than_a_dead_letter_may_be_is_shortened(
    kafka: str, tmp_path: Path
) -> None:
    """Five compressed megabytes fit into a topic of one; their dead letter does not, and stops nobody."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    large = Row(key=b"k", value=b"\xff" + b"x" * 5_000_000)
    await produce_batches(kafka, topics.requests, batch(large, row("after"), codec="zstd"))
    with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / "worker.log"):
        async with reading_results(topics, partitions=1) as log:
            await log.wait_for(["after"], timeout_s=DEADLINE_S)
        await settled(topics, 2)
    (letter,) = await read_all(kafka, topics.dead_letters)
    assert letter.value is not None
    assert 1_000_000 < len(letter.value) < 1_048_588
    assert dict(letter.headers)["lookup.errors.value.bytes"] == b"5000001"


def broken_codec(data: bytes) -> bytes:
    """Return a batch whose compressed data is broken under a right checksum."""
    return sealed(data[:61] + b"\x00" * (len(data) - 61))


def wrong_checksum(data: bytes) -> bytes:
    """Return a batch with one bit of its records turned."""
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def unknown_format(data: bytes) -> bytes:
    """Return a batch of a format of the future."""
    return data[:16] + b"\x09" + data[17:]


def _damaged(server_directory: Path, topic: str, damages: dict[int, Callable[[bytes], bytes]]) -> None:
    """Change batches in a stopped broker's log, each by its base offset; their sizes stay."""
    (log,) = (server_directory / "data" / f"{topic}-0").glob("*.log")
    data, at = bytearray(log.read_bytes()), 0
    left = dict(damages)
    while at < len(data):
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if base in left:
            changed = left.pop(base)(bytes(data[at:end]))
            assert len(changed) == end - at
            data[at:end] = changed
        at = end
    assert not left
    log.write_bytes(data)


def _errors(letters: Iterable[StoredRecord]) -> list[tuple[str, str]]:
    """Return the offsets and the reason of each dead letter."""
    named = [{name: value.decode() for name, value in letter.headers} for letter in letters]
    return [
        (
            "..".join(
                each[name] for name in ("lookup.errors.offset", "lookup.errors.last.offset") if name in each
            ),
            each["lookup.errors.exception.message"],
        )
        for each in named
    ]


@pytest.mark.timeout(300)
async def test_damaged_batches_on_the_disk_cost_no_other_request(tmp_path: Path) -> None:
    """Of each kind one, between good ones: all good ones are answered, each bad one has its dead letter."""
    directory = tmp_path / "kafka"
    server = KafkaServer(directory)
    server.start()
    topics = StageTopics(bootstrap=server.bootstrap)
    await topics.create(partitions=1)
    batches = [
        batch(row("g-0")),
        batch(*(row(f"a-{n}") for n in range(3)), codec="zstd"),  # 1..3
        batch(row("g-1")),
        batch(*(row(f"b-{n}") for n in range(2))),  # 5, 6
        batch(row("g-2")),
        batch(*(row(f"c-{n}") for n in range(2)), codec="gzip"),  # 8, 9
        batch(row("g-3")),
        batch(row("d-0")),  # 11
        batch(row("g-4")),
    ]
    offsets = await produce_batches(server.bootstrap, topics.requests, *batches)
    assert offsets == [0, 1, 4, 5, 7, 8, 10, 11, 12]
    server.stop()
    _damaged(
        directory,
        topics.requests,
        {1: broken_codec, 5: wrong_checksum, 8: wrong_checksum, 11: unknown_format},
    )
    server.start()
    try:
        await _check_damaged(topics, tmp_path)
    finally:
        server.stop()


async def _check_damaged(topics: StageTopics, tmp_path: Path) -> None:
    good = [f"g-{number}" for number in range(5)]
    with WorkerProcess(topics.environment | ENVIRONMENT, tmp_path / "worker.log") as worker:
        async with reading_results(topics, partitions=1) as log:
            await log.wait_for(good, timeout_s=DEADLINE_S)
        await settled(topics, 13)
        assert worker.exit_code is None
    assert '"record_undecodable"' in worker.log
    letters = await read_all(topics.bootstrap, topics.dead_letters)
    told = sorted(_errors(letters))
    assert [offsets for offsets, _ in told] == ["1..3", "11", "5..6", "8..9"]
    assert [why.partition(":")[0] for _, why in told] == [
        "the zstd data of the batch is broken",
        "the message format 9 is not known",
        "the checksum of the batch is wrong",
        "the checksum of the batch is wrong",
    ]
    assert all(letter.value is not None and letter.key is None for letter in letters)
    output = tmp_path / "requests.jsonl"
    command = ("record", "--requests", "-o", str(output))
    done = await asyncio.to_thread(run_command, *command, environment=topics.environment)
    assert done.code == 0, done.stderr
    assert _ids(output.read_bytes().splitlines()) == good
    assert done.stderr.splitlines()[-1] == (
        "8 offsets passed over, cannot be decoded: 0:1..3, 0:5..6, 0:8..9, 0:11: "
        f"{told[0][1].partition(' (caused')[0]}"
    )
    redriven = await asyncio.to_thread(run_command, "dead-letters", "redrive", environment=topics.environment)
    assert (redriven.code, redriven.stderr) == (0, "0 requests sent again\n")


def _ids(lines: Sequence[bytes]) -> list[str]:
    return [orjson.loads(line)["request"]["request_id"] for line in lines]


@pytest.mark.timeout(300)
async def test_damaged_results_cost_no_other_result(tmp_path: Path) -> None:
    """A client that waits passes a batch that it cannot decode, and gets what comes behind it."""
    directory = tmp_path / "kafka"
    server = KafkaServer(directory)
    server.start()
    topics = StageTopics(bootstrap=server.bootstrap)
    await topics.create(partitions=1)
    kafka = KafkaSettings(
        bootstrap_servers=topics.bootstrap,
        topics=TopicSettings(requests=topics.requests, results=topics.results),
    )
    try:
        async with connected_client(kafka) as client:
            asking = asyncio.create_task(client.look_up({"request_id": "a", "query": "q"}, timeout_s=60))
            await asyncio.sleep(0)
            server.stop()
            (log,) = (directory / "data" / f"{topics.results}-0").glob("*.log")
            headers = [(b"lookup-request-id", b"a")]
            result = Row(value=b'{"request_id": "a", "status": "empty"}', headers=headers)
            damaged = wrong_checksum(batch(Row(value=b"x"), Row(value=b"y")))
            log.write_bytes(damaged + batch(result, base=2))
            server.start()
            assert (await asking).status == "empty"
    finally:
        server.stop()


async def test_dead_letters_that_cannot_be_decoded_are_passed_over(kafka: str) -> None:
    """The command lists the others; what has an odd header name is among them."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    letter = Row(value=b"{}", headers=[(b"lookup.errors.stage", b"decode"), (b"\xff", b"")])
    await produce_batches(kafka, topics.dead_letters, batch(letter, codec="snappy"))
    listed = await asyncio.to_thread(run_command, "dead-letters", "list", environment=topics.environment)
    assert (listed.code, listed.stderr) == (0, "")
    assert listed.stdout.startswith("0:0  -  decode:?")


async def test_dead_letters_of_undecodable_batches_are_limited(tmp_path: Path) -> None:
    """More than may be in a minute end the worker with 1, and what has none stays uncommitted."""
    directory = tmp_path / "kafka"
    server = KafkaServer(directory)
    server.start()
    topics = StageTopics(bootstrap=server.bootstrap)
    await topics.create(partitions=1)
    await produce_batches(server.bootstrap, topics.requests, *(batch(row(f"r-{n}")) for n in range(6)))
    server.stop()
    _damaged(directory, topics.requests, dict.fromkeys(range(6), wrong_checksum))
    server.start()
    try:
        limited = topics.environment | ENVIRONMENT | {"STAGE_MAX_DEAD_LETTERS_PER_MINUTE": "3"}
        worker = WorkerProcess(limited, tmp_path / "worker.log")
        worker.launch()
        try:
            assert await asyncio.to_thread(worker.wait, timeout_s=60) == 1
        finally:
            worker.kill()
        assert "stage.max-dead-letters-per-minute = 3" in worker.log
        assert len(await read_all(topics.bootstrap, topics.dead_letters)) == 3
        assert await committed_offsets(topics.bootstrap, topics.name, topics.requests) == {0: 3}
    finally:
        server.stop()
