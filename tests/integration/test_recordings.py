"""Recordings on Apache Kafka: made by workers, one of which is killed, taken to a file and replayed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import orjson
import pytest
from confluent_kafka.admin import AdminClient

from streams.recordings.files import read_recordings
from streams.recordings.recording import Recording, encode_recording
from tests.builders import answer, hit, recording
from tests.faults.supervisor import Supervisor
from tests.faults.trial import PACED_PORT, SESSION_TIMEOUT_S
from tests.faults.waiting import until
from tests.support.contract import check_recording
from tests.support.topics import committed_offsets, create_topics, read_all
from tests.support.worker import Payload, StageTopics, reading_results, run_command, send_all

pytestmark = pytest.mark.kafka

COUNT, PARTITIONS = 500, 3
HEADERS = (("traceparent", b"00-ab-cd-01"), ("note", b"\xff\x00"))


def asked(number: int) -> Payload:
    """Return a request of a number: some fail, some are not valid or expired, most find something."""
    query = f"question {number} after {number % 20} ms"
    body: dict[str, object] = {"request_id": f"r-{number}", "query": query, "explain": number % 3 == 0}
    if number % 50 == 1:
        body["retrieve_k"] = 0
    elif number % 50 == 2:
        body["expires_at"] = "2020-01-01T00:00:00Z"
    elif number % 50 == 3:
        body["query"] = "boom"
    # An integer that no float holds, on lines of their own: neither may change anything.
    value = b'{"hints":\n[%d, 1.50],\n%s' % (2**70 + number, orjson.dumps(body)[1:])
    return Payload(value=value, key=f"session-{number % 5}".encode(), headers=HEADERS)


@pytest.fixture(scope="module")
def stage(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StageTopics:
    """Return topics on which workers, one of them killed, have answered and recorded 500 requests."""
    topics = StageTopics(bootstrap=kafka)
    asyncio.run(_record(topics, tmp_path_factory.mktemp("workers")))
    return topics


async def _record(topics: StageTopics, directory: Path) -> None:
    await topics.create()
    await create_topics(topics.bootstrap, topics.recordings, partitions=PARTITIONS)
    environment = (
        topics.environment
        | PACED_PORT
        | {
            "KAFKA_SESSION_TIMEOUT": str(SESSION_TIMEOUT_S),
            "STAGE_RECORDING": "all",
        }
    )
    names = [f"r-{number}" for number in range(COUNT)]
    async with reading_results(topics) as log, Supervisor(environment, directory) as supervisor:
        await supervisor.ready()
        sending = asyncio.create_task(send_all(topics, map(asked, range(COUNT)), rate=250))
        await until(lambda: len(log.by_request) > COUNT // 4, deadline_s=60, what="a quarter of the results")
        (worker,) = supervisor.running()
        worker.send(signal.SIGKILL)
        await sending
        await log.wait_for(names, timeout_s=100)
    assert supervisor.exit_codes[0] == -signal.SIGKILL


@pytest.fixture(scope="module")
def everything(stage: StageTopics, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of all their recordings."""
    path = tmp_path_factory.mktemp("recordings") / "lookups.jsonl.zst"
    recorded(stage, path)
    return path


def all_of(path: Path) -> list[Recording]:
    """Return the recordings in a file."""
    return [each.recording for each in read_recordings(path)]


def recorded(stage: StageTopics, path: Path, *arguments: str) -> list[Recording]:
    """Run `record` and return what is in the file."""
    done = run_command("record", *arguments, "-o", str(path), environment=stage.environment)
    assert (done.code, done.stdout) == (0, ""), done.stderr
    read = all_of(path)
    for each in read_recordings(path):
        check_recording(each.line)
    assert done.stderr == f"{len(read)} recordings written to {path}\n"
    return read


def test_every_request_is_recorded_and_replays_to_the_same_bytes(everything: Path, tmp_path: Path) -> None:
    """500 lookups, the worker killed once: each is in the file, with its published result, byte for byte."""
    out, recordings = tmp_path / "out.jsonl.zst", all_of(everything)
    assert {each.request_id for each in recordings} == {f"r-{number}" for number in range(COUNT)}
    statuses = {(each.result or {})["status"] for each in recordings}
    assert statuses == {"ok", "rejected", "expired", "failed"}
    for environment in (
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "2", "LC_ALL": "C", "PYTHONUTF8": "0", "TZ": "Asia/Kathmandu"},
    ):
        replayed = run_command("replay", str(everything), "-o", str(out), "--force", environment=environment)
        assert (replayed.code, replayed.stderr) == (
            0,
            f"{len(recordings)} recordings replayed, each result byte for byte as recorded\n",
        )
        assert [each.line for each in read_recordings(out)] == [
            each.line for each in read_recordings(everything)
        ]


async def test_recording_has_the_published_result_and_the_request(stage: StageTopics) -> None:
    """Key, headers and place are the request's, and the result is one of those on the results topic."""
    results = {(record.key, record.value) for record in await read_all(stage.bootstrap, stage.results)}
    requests = {
        (record.partition, record.offset): record
        for record in await read_all(stage.bootstrap, stage.requests)
    }
    records = await read_all(stage.bootstrap, stage.recordings)
    assert len(records) >= COUNT
    for record in records:
        assert record.value is not None
        line = orjson.loads(record.value)
        source = requests[line["captured"]["partition"], line["captured"]["offset"]]
        assert (record.key, line["captured"]["timestamp_ms"]) == (source.key, source.timestamp_ms)
        assert line["request"] == orjson.loads(source.value or b"")
        published = record.value[record.value.rindex(b'"result":{"request_id"') + len(b'"result":') : -1]
        assert (record.key, published) in results


def test_range_of_offsets_has_both_its_ends(stage: StageTopics, everything: Path, tmp_path: Path) -> None:
    """Of each partition the records from the one offset to the other are taken, and no more."""
    some = recorded(stage, tmp_path / "some.jsonl", "--from", "3", "--to", "7")
    rest = [
        *recorded(stage, tmp_path / "before.jsonl", "--to", "2"),
        *recorded(stage, tmp_path / "after.jsonl", "--from", "8"),
    ]
    assert len(some) == 5 * PARTITIONS
    assert sorted(each.request_id for each in [*some, *rest]) == sorted(
        each.request_id for each in all_of(everything)
    )


@pytest.mark.parametrize(
    ("arguments", "share"),
    [
        (("--to", "2020-01-01T00:00:00Z"), 0),
        (("--from", "2020-01-01T00:00:00Z", "--to", "NOW"), 1),
        (("--from", "NOW"), 0),
    ],
)
def test_range_of_times_has_what_was_recorded_between_them(
    stage: StageTopics, everything: Path, tmp_path: Path, arguments: tuple[str, ...], share: int
) -> None:
    """Before the first record there is nothing, until now everything, and after it nothing again."""
    now = datetime.now(UTC).isoformat()
    found = recorded(stage, tmp_path / "range.jsonl", *(each.replace("NOW", now) for each in arguments))
    assert len(found) == share * len(all_of(everything))


def test_requests_alone_are_recorded_for_live_replay(
    stage: StageTopics, everything: Path, tmp_path: Path
) -> None:
    """Every request is there without hits, and a live replay answers them as the stage does."""
    file, out = tmp_path / "requests.jsonl.zst", tmp_path / "out.jsonl"
    alone = recorded(stage, file, "--requests", "--to", "19")
    assert {(each.paths, each.result) for each in alone} == {(None, None)}
    port = stage.environment | PACED_PORT
    replayed = run_command("replay", str(file), "-o", str(out), environment=port)
    assert replayed.code == 1, "some of the searches are made to fail"
    assert "the search failed for" in replayed.stderr
    answered = {each.recording.request_id: each.recording for each in read_recordings(out)}
    live = {each.request_id: each for each in all_of(everything)}
    for request_id, again in answered.items():
        if (live[request_id].result or {})["status"] != "expired":
            assert again.result == live[request_id].result
    assert len(answered) == len(alone)


async def test_requests_are_sent_to_a_topic_again_marked(stage: StageTopics, tmp_path: Path) -> None:
    """Key, headers and fields are the request's; a header marks it, and its expiry is left out."""
    file, topic = tmp_path / "lookups.jsonl", f"{stage.name}.again"
    recordings = recorded(stage, file, "--to", "19")
    await create_topics(stage.bootstrap, topic, partitions=2)
    to_topic = ("replay", str(file), "--to-topic", topic, "--rate", "1000")
    own = stage.environment | {"KAFKA_TOPICS_REQUESTS": topic}
    refused = run_command(*to_topic, environment=own)
    assert (refused.code, "must not be kafka.topics.requests" in refused.stderr) == (2, True)
    for arguments, environment in ((to_topic, stage.environment), ((*to_topic, "--force"), own)):
        sent = run_command(*arguments, environment=environment)
        assert (sent.code, sent.stderr) == (0, f"{len(recordings)} requests sent to {topic}\n")
    records = {
        dict(record.headers)["lookup-replay"]: record for record in await read_all(stage.bootstrap, topic)
    }
    for asked_once in recordings:
        record = records[asked_once.request_id.encode()]
        assert record.key == asked_once.key
        assert record.headers[:-1] == HEADERS
        expected = {name: value for name, value in asked_once.request.items() if name != "expires_at"}
        assert orjson.loads(record.value or b"") == expected


async def test_records_that_are_no_recordings_are_passed_over(kafka: str, tmp_path: Path) -> None:
    """Whatever else stands on the topic, the recordings are taken, and the first other record is named."""
    topics = StageTopics(bootstrap=kafka)
    await create_topics(topics.bootstrap, topics.recordings)
    line, file = encode_recording(recording(answer(hit("docA", 0)))), tmp_path / "file.jsonl"
    spaced = orjson.dumps(orjson.loads(line), option=orjson.OPT_INDENT_2)
    values = (line, b"no recording", spaced)
    await send_all(topics, [Payload(value=value) for value in values], to=topics.recordings)
    done = run_command("record", "-o", str(file), environment=topics.environment)
    assert done.code == 0
    assert "2 recordings written" in done.stderr
    assert "1 records passed over, the first at 0:1: is not JSON" in done.stderr
    assert [each.line for each in read_recordings(file)] == [line, line]


def test_interrupted_recording_can_be_read(stage: StageTopics, tmp_path: Path) -> None:
    """Ctrl-C ends it with exit code 130 and one line, and the file is whole."""
    file = tmp_path / "lookups.jsonl.zst"
    program = (
        "import os, signal, sys\n"
        "from streams.replay import capture\n"
        "line_of, seen = capture._recording_line, []\n"
        "def interrupting(record):\n"
        "    seen.append(record)\n"
        "    if len(seen) == 100: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return line_of(record)\n"
        "capture._recording_line = interrupting\n"
        "from streams.cli import main\n"
        f"main(['record', '-o', {str(file)!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        timeout=60,
        env=os.environ | stage.environment,
    )
    assert (done.returncode, done.stderr.decode()) == (
        130,
        f"lookup-stage: interrupted: what was written by then is in {file}\n",
    )
    assert sum(1 for _ in read_recordings(file)) >= 100


async def test_recording_joins_no_group(stage: StageTopics) -> None:
    """Neither the workers' group, whose offsets stay where they are, nor one of its own."""
    reader = f"{stage.name}-reader"
    group = partial(committed_offsets, stage.bootstrap, stage.name, stage.requests)
    before = await group()
    done = run_command("record", "-o", "-", environment=stage.environment | {"KAFKA_GROUP_ID": reader})
    assert len(done.stdout.splitlines()) >= COUNT
    assert await group() == before != {}
    assert await committed_offsets(stage.bootstrap, reader, stage.recordings) == {}
    admin = AdminClient({"bootstrap.servers": stage.bootstrap, "log_level": 0})
    assert reader not in {each.group_id for each in admin.list_consumer_groups().result(10).valid}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["--from", "yesterday"],
            "'yesterday' must be an offset, or an RFC 3339 time with an offset from UTC",
        ),
        (["--from", "2026-01-31T12:00:00"], "must be an offset, or an RFC 3339 time with an offset"),
        (["--from", "9", "--to", "3"], "--from = 9: must not be greater than --to = 3"),
        (["--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"], "must not be after --to"),
    ],
)
def test_range_that_is_none_is_one_line_and_exit_2(tmp_path: Path, arguments: list[str], why: str) -> None:
    """Nothing is written."""
    done = run_command("record", *arguments, "-o", str(tmp_path / "out.jsonl"), environment={})
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr
    assert not (tmp_path / "out.jsonl").exists()
