"""`lookup-stage dead-letters`: looking at what could not be answered, and sending it again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from os import environ
from pathlib import Path

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from tests.support.topics import StoredRecord, create_topics, end_offsets, read_all
from tests.support.worker import (
    Payload,
    ResultLog,
    StageTopics,
    WorkerProcess,
    reading_results,
    run_command,
    send_all,
)

pytestmark = pytest.mark.kafka

NOWHERE = "127.0.0.1:1"
RETRYABLE, RATE = 30, 20
MEGABYTE = 1_024 * 1_024
FAILING = {
    "SEARCH_PORT": "tests.integration.search_ports:instant",
    "SEARCH_TIMEOUT": "0.3",
    "EMBEDDING_PROVIDER": "none",
}
WORKING = FAILING | {"SEARCH_PORT": "tests.integration.search_ports:two_rows", "SEARCH_TIMEOUT": "10"}
OWN_HEADERS = (("trace", b"1"), ("note", b"\xff\x00"), ("trace", b"2"), ("traceparent", b"00-ab-cd-01"))


def hanging(number: int) -> Payload:
    """Make a request that times out on one port and is answered by the other."""
    body = {"request_id": f"hang-{number}", "query": "hang", "vector": [0.1, 0.9], "extra": [1.0, "é"]}
    return Payload(
        # Not as a JSON library would write it: what comes back must be these bytes.
        value=orjson.dumps(body, option=orjson.OPT_INDENT_2),
        key=f"session-{number % 7}".encode(),
        headers=OWN_HEADERS,
    )


UNREADABLE = (
    Payload(value=b"\xff\xfe\x00", key=b"k\x00", headers=OWN_HEADERS),
    Payload(value=b'{"query": "no id"}', key=b""),
    Payload(value=None, key=b"tombstone"),
    Payload(value=b'{"request_id": "cut', key=None),
)
INVALID = (
    Payload(value=b'{"request_id": "nan", "query": "q", "retrieve_k": NaN}', key=b"nan"),
    Payload(value=b'{"request_id": "a\\nb\\u001b[2J", "query": " "}', key=b"escape"),
)
BROKEN = (Payload(value=b'{"request_id": "boom", "query": "boom"}', key=None),)
HANGING = tuple(hanging(number) for number in range(RETRYABLE))
ALL = (*UNREADABLE, *INVALID, *BROKEN, *HANGING)


@pytest.fixture(scope="module")
def stage(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StageTopics:
    """Return topics on which a worker, gone by now, has left dead letters of every kind."""
    topics = StageTopics(bootstrap=kafka)
    asyncio.run(_leave_dead_letters(topics, tmp_path_factory.mktemp("worker") / "worker.log"))
    return topics


async def _leave_dead_letters(topics: StageTopics, log_file: Path) -> None:
    await topics.create()
    answered = ["nan", "a\nb\x1b[2J", "boom", *(f"hang-{number}" for number in range(RETRYABLE))]
    with WorkerProcess(topics.environment | FAILING, log_file):
        async with reading_results(topics) as log:
            await send_all(topics, ALL)
            await log.wait_for(answered, timeout_s=60)
    assert sum((await end_offsets(topics.bootstrap, topics.dead_letters)).values()) == len(ALL)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ([], len(ALL)),
        (["--reason", "decode"], len(UNREADABLE)),
        (["--reason", "validate:RequestInvalid"], len(INVALID)),
        (["--reason", "KeyError"], len(BROKEN)),
        (["--reason", "search"], len(BROKEN) + RETRYABLE),
        (["--retryable"], RETRYABLE),
        (["--retryable", "--reason", "decode"], 0),
        (["--request-id", "hang-3"], 1),
        (["--request-id", "nan"], 1),
        (["--request-id", "hang"], 0),
    ],
)
def test_list_shows_those_selected(stage: StageTopics, selection: list[str], expected: int) -> None:
    """Every selection gives one line for each dead letter in it."""
    listed = run_command("dead-letters", "list", *selection, environment=stage.environment)
    assert (listed.code, listed.stderr) == (0, "")
    assert len(listed.stdout.splitlines()) == expected


def test_list_as_json_says_what_went_wrong(stage: StageTopics) -> None:
    """Each object has the place, the request's id where there is one, and every header of the error."""
    printed = run_command("dead-letters", "list", "--json", environment=stage.environment)
    letters = [orjson.loads(line) for line in printed.stdout.splitlines()]
    assert len({letter["place"] for letter in letters}) == len(ALL)
    assert Counter(
        (letter["errors"]["stage"], letter["errors"]["retryable"], letter["errors"]["exception.class.name"])
        for letter in letters
    ) == {
        ("decode", "false", "RequestUnreadable"): len(UNREADABLE),
        ("validate", "false", "RequestInvalid"): len(INVALID),
        ("search", "false", "KeyError"): len(BROKEN),
        ("search", "true", "SearchTimeout"): RETRYABLE,
    }
    assert Counter(letter["request_id"] for letter in letters)[None] == len(UNREADABLE)
    assert {letter["errors"]["topic"] for letter in letters} == {stage.requests}


def test_show_gives_a_dead_letter_whole(stage: StageTopics) -> None:
    """Key, own headers in order, error and value are there; what is not text is written as Python does."""
    shown = run_command("dead-letters", "show", "--request-id", "hang-4", environment=stage.environment)
    lines = shown.stdout.splitlines()
    assert "  key: session-4" in lines
    assert [line for line in lines if line.startswith("  header")] == [
        "  header trace: 1",
        "  header note: b'\\xff\\x00'",
        "  header trace: 2",
        "  header traceparent: 00-ab-cd-01",
    ]
    assert "  error retryable: true" in lines
    assert lines[-1].startswith("  value: {")
    assert '"extra"' in lines[-1]


def test_nothing_that_a_request_holds_acts_on_the_terminal(stage: StageTopics) -> None:
    """Control characters of an id are shown, not obeyed, and do not begin lines of their own."""
    for command in ("list", "show"):
        printed = run_command(
            "dead-letters", command, "--request-id", "a\nb\x1b[2J", environment=stage.environment
        )
        assert "\x1b" not in printed.stdout
        assert "a\\nb\\x1b[2J" in printed.stdout or "a\\nb\\u001b[2J" in printed.stdout


def test_output_that_nobody_reads_any_more_is_no_error(stage: StageTopics) -> None:
    """`dead-letters list | head -1` ends without a traceback."""
    with subprocess.Popen(
        [sys.executable, "-m", "streams", "dead-letters", "show"],
        env=environ | stage.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read().decode()
        process.wait(60)
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors


async def test_redrive_that_is_only_tried_sends_nothing(stage: StageTopics) -> None:
    """--dry-run lists what would be sent, and the requests topic stays as it is."""
    before = await end_offsets(stage.bootstrap, stage.requests)
    tried = await asyncio.to_thread(
        run_command, "dead-letters", "redrive", "--dry-run", environment=stage.environment
    )
    assert tried.code == 0
    assert tried.stderr == f"{len(ALL)} requests would be sent again\n"
    assert len(tried.stdout.splitlines()) == len(ALL)
    assert await end_offsets(stage.bootstrap, stage.requests) == before


async def test_redrive_sends_the_requests_untouched_and_not_too_fast(
    stage: StageTopics, tmp_path: Path
) -> None:
    """Key, value and own headers are as they were, the rate holds, and what can be answered now is."""
    before = await end_offsets(stage.bootstrap, stage.requests)
    command = ("dead-letters", "redrive", "--retryable", "--rate", str(RATE))
    sent = await asyncio.to_thread(run_command, *command, environment=stage.environment)
    assert (sent.code, sent.stderr) == (0, f"{RETRYABLE} requests sent again\n")
    again = [
        record
        for record in await read_all(stage.bootstrap, stage.requests)
        if record.offset >= before[record.partition]
    ]
    assert sorted(map(_own, again), key=repr) == sorted(
        ((payload.key, payload.value, payload.headers) for payload in HANGING), key=repr
    )
    _check_rate(sorted(record.timestamp_ms for record in again))
    with WorkerProcess(stage.environment | WORKING, tmp_path / "worker.log"):
        async with reading_results(stage) as log:
            await _second_results(log, timeout_s=60)
    for payload in HANGING:
        body = orjson.loads(payload.value or b"")
        first, second = (orjson.loads(each.value or b"") for each in log.by_request[body["request_id"]])
        assert (first["status"], second["status"]) == ("failed", "ok")
        assert [item["content"] for item in second["evidence"]] == ["north", "east"]


@pytest.mark.parametrize("command", ["list", "show", "redrive"])
async def test_topic_without_dead_letters_is_no_error(kafka: str, command: str) -> None:
    """Nothing is printed, nothing is sent, and the command succeeds."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=2)
    ended = await asyncio.to_thread(run_command, "dead-letters", command, environment=topics.environment)
    assert (ended.code, ended.stdout) == (0, "")
    assert ended.stderr == ("0 requests sent again\n" if command == "redrive" else "")


@pytest.mark.parametrize(
    ("command", "environment", "complaint"),
    [
        ("list", {"KAFKA_BOOTSTRAP_SERVERS": NOWHERE}, "no broker can be reached"),
        ("show", {"KAFKA_BOOTSTRAP_SERVERS": NOWHERE}, "no broker can be reached"),
        ("redrive", {"KAFKA_BOOTSTRAP_SERVERS": NOWHERE}, "no broker can be reached"),
        ("list", {"KAFKA_TOPICS_DEAD_LETTERS": "not-there"}, "there is no topic not-there"),
        ("redrive", {"KAFKA_TOPICS_REQUESTS": "not-there"}, "there is no topic not-there"),
    ],
)
def test_brokers_or_topic_that_are_not_there_are_named_in_one_line(
    stage: StageTopics, command: str, environment: dict[str, str], complaint: str
) -> None:
    """One line on standard error and exit 2."""
    ended = run_command("dead-letters", command, environment=stage.environment | environment)
    assert (ended.code, ended.stdout) == (2, "")
    assert complaint in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


async def test_redrive_sends_requests_as_large_as_the_topic_takes(kafka: str) -> None:
    """A request larger than clients send by default goes back to a topic that takes it."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1, configs={"max.message.bytes": str(4 * MEGABYTE)})
    value = b"x" * 3 * MEGABYTE
    producer = AIOKafkaProducer(bootstrap_servers=kafka, max_request_size=4 * MEGABYTE)
    await producer.start()
    await producer.send_and_wait(topics.dead_letters, value=value, headers=[("lookup.errors.stage", b"x")])
    await producer.stop()
    sent = await asyncio.to_thread(run_command, "dead-letters", "redrive", environment=topics.environment)
    assert (sent.code, sent.stderr) == (0, "1 requests sent again\n")
    (again,) = await read_all(kafka, topics.requests)
    assert _own(again) == (None, value, ())


async def test_redrive_says_which_request_the_brokers_do_not_take(kafka: str) -> None:
    """Sending stops there with one line and exit 1."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    await create_topics(kafka, unable := f"{topics.name}.small", configs={"max.message.bytes": "1000"})
    producer = AIOKafkaProducer(bootstrap_servers=kafka)
    await producer.start()
    for size in (10, 2_000, 10):
        await producer.send_and_wait(topics.dead_letters, value=b"x" * size)
    await producer.stop()
    small = topics.environment | {"KAFKA_TOPICS_REQUESTS": unable}
    sent = await asyncio.to_thread(run_command, "dead-letters", "redrive", environment=small)
    assert sent.code == 1
    assert sent.stderr.startswith("lookup-stage: dead letter 0:1 cannot be sent again: ")
    assert len(sent.stderr.splitlines()) == 1
    assert len(sent.stdout.splitlines()) == len(await read_all(kafka, unable)) == 1


async def _second_results(log: ResultLog, *, timeout_s: float) -> None:
    """Wait until every request that timed out has been answered once more."""
    async with asyncio.timeout(timeout_s):
        while any(len(log.by_request[f"hang-{number}"]) < 2 for number in range(RETRYABLE)):
            log._grown.clear()
            await log._grown.wait()


def _own(record: StoredRecord) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]:
    return record.key, record.value, record.headers


def _check_rate(sent_at_ms: list[int]) -> None:
    """Look at the records' own times: no second has more than the rate, but for what a pause shifts."""
    assert sent_at_ms[-1] - sent_at_ms[0] >= (RETRYABLE - 1) / RATE * 1_000 - 100
    busiest = max(sum(start <= at < start + 1_000 for at in sent_at_ms) for start in sent_at_ms)
    assert busiest <= RATE + 2
    assert sum(later - earlier < 1_000 / RATE / 2 for earlier, later in pairwise(sent_at_ms)) <= 2
