"""`lookup-stage replay` as people run it, as far as it needs no server."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streams.cli import main
from streams.recordings.files import read_recordings, writing_recordings
from streams.recordings.recording import Recording, encode_recording
from streams.replay.frozen import replay_frozen
from tests.builders import answer, failure, hit, limits, recording
from tests.support.worker import CommandOutput, run_command

FOUND = answer(*(hit(f"doc{number % 3}", number, score=1 - number / 10) for number in range(8)))
NO_SEARCH = {"SEARCH_PORT": "tests.integration.search_ports:instant", "EMBEDDING_PROVIDER": "none"}


def recordings(count: int = 5, **fields: Any) -> list[Recording]:
    """Return recordings, each of another request and with other contents."""
    return [
        recording(
            answer(*FOUND.hits.hits, hit("docX", number, score=0.95, content=f"日本語 {number} \u2028 text")),
            request_id=f"r-{number}",
            **fields,
        )
        for number in range(count)
    ]


def written(path: Path, lines: Iterable[bytes]) -> Path:
    """Write lines into a file of recordings and return it back."""
    with writing_recordings(path) as write:
        for line in lines:
            write(line)
    return path


def replay(*arguments: object, **environment: str) -> CommandOutput:
    """Run the command in a process of its own, with an environment that knows no server."""
    nowhere = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "MILVUS_URI": "http://127.0.0.1:1"}
    return run_command("replay", *map(str, arguments), environment=nowhere | environment)


@pytest.fixture
def replay_here(capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandOutput]:
    """Return a function that runs the command in this process, which takes no second."""

    def run(*arguments: object) -> CommandOutput:
        with pytest.raises(SystemExit) as ended:
            main(["replay", *map(str, arguments)])
        printed = capsys.readouterr()
        return CommandOutput(code=int(ended.value.code or 0), stdout=printed.out, stderr=printed.err)

    return run


# Frozen


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zst"])
def test_frozen_replay_needs_no_server_and_changes_no_byte(tmp_path: Path, suffix: str) -> None:
    """What comes out is what went in, whatever the files' suffixes, and the command says so and exits 0."""
    source = written(tmp_path / f"in{suffix}", map(encode_recording, recordings()))
    done = replay(source, "-o", tmp_path / "out.jsonl.zst")
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr == "5 recordings replayed, each result byte for byte as recorded\n"
    assert [each.line for each in read_recordings(tmp_path / "out.jsonl.zst")] == [
        each.line for each in read_recordings(source)
    ]


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "4711", "LC_ALL": "C", "PYTHONUTF8": "0", "TZ": "Pacific/Kiritimati"},
        {
            "PYTHONHASHSEED": "random",
            "LC_ALL": "tr_TR.UTF-8",
            "TZ": "America/St_Johns",
            "PYTHONOPTIMIZE": "2",
        },
    ],
    ids=["another seed", "no locale, east", "Turkish, west, optimized"],
)
def test_frozen_replay_is_the_same_in_any_process(tmp_path: Path, environment: Mapping[str, str]) -> None:
    """Neither hash seed nor locale nor time zone is in a result."""
    strange = recording(
        answer(hit("docI", 2**70, content="İ \ud800"), hit(score=1e-7, content="ß" * 300), hit(content=" ")),
        failure(1),
        hints={"z": 1, "a": [1.0, 1e22]},
        explain=True,
    )
    source = written(tmp_path / "in.jsonl", map(encode_recording, [strange, *recordings()]))
    done = replay(source, "-o", tmp_path / "out.jsonl", **environment)
    assert (done.code, done.stderr[:21]) == (0, "6 recordings replayed")
    assert (tmp_path / "out.jsonl").read_bytes() == source.read_bytes()


def test_frozen_replay_imports_no_client_of_kafka_or_milvus(tmp_path: Path) -> None:
    """It runs where these cannot even be imported."""
    source = written(tmp_path / "in.jsonl", map(encode_recording, recordings()))
    program = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(['aiokafka', 'faust', 'pymilvus', 'grpc', 'confluent_kafka'])\n"
        "from streams.cli import main\n"
        f"main(['replay', {str(source)!r}, '-o', '-', '--set', 'rag.return-n=2'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, timeout=60, env=os.environ
    )
    assert (done.returncode, done.stderr.decode()) == (0, "5 recordings replayed, under other limits\n")
    assert len(done.stdout.splitlines()) == 5


def test_frozen_replay_of_another_result_exits_1_with_the_first_difference(
    tmp_path: Path, replay_here: Callable[..., CommandOutput]
) -> None:
    """One line names file, line, request, field and both values; the file is written all the same."""
    lines = recordings()
    for number in (2, 4):
        lines[number] = replace(lines[number], result={**(lines[number].result or {}), "status": "partial"})
    source = written(tmp_path / "in.jsonl", map(encode_recording, lines))
    done = replay_here(source, "-o", tmp_path / "out.jsonl")
    assert done.code == 1
    assert done.stderr == (
        f"lookup-stage: {source}: 2 of 5 results are not as recorded, first line 3: request r-2:"
        ' status: recorded "partial", now "ok"\n'
    )
    assert [each.line for each in read_recordings(tmp_path / "out.jsonl")] == list(
        map(encode_recording, recordings())
    )


def test_other_limits_are_tried_and_nothing_is_compared(
    tmp_path: Path, replay_here: Callable[..., CommandOutput]
) -> None:
    """`--set` gives what a stage so configured would have answered, and exits 0."""
    source = written(tmp_path / "in.jsonl", [encode_recording(recording(FOUND))])
    sets = ("--set", "rag.max-chunks-per-document=1", "--set", "rag.return-n=2")
    assert replay_here(source, "-o", tmp_path / "out.jsonl", *sets).code == 0
    (new,) = read_recordings(tmp_path / "out.jsonl")
    assert new.line == encode_recording(
        recording(FOUND, widths=limits(max_chunks_per_document=1, return_n=2))
    )


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        ("rag.max-chunks-per-document", "'rag.max-chunks-per-document' is not KEY=VALUE"),
        ("rag.max-chunk=3", "rag.max-chunk is not a setting; `lookup-stage config` lists the keys"),
        ("kafka.group-id=a", "kafka.group-id cannot be set here, only rag.* and projection.* can"),
        ("rag.return-n=0", "rag.return-n = '0' (command line): must be greater than 0"),
        ("rag.tenant-field=team", "rag.tenant-field=team: changes the search: use --live"),
        ("rag.return-n=30", "rag.return-n = 30 must not be greater than rag.retrieve-k = 20 (request r-0)"),
    ],
)
def test_wrong_assignment_is_one_line_and_exit_2(
    tmp_path: Path, assignment: str, why: str, replay_here: Callable[..., CommandOutput]
) -> None:
    """The line names key and value, and what is allowed."""
    source = written(tmp_path / "in.jsonl", map(encode_recording, recordings()))
    done = replay_here(source, "-o", tmp_path / "out.jsonl", "--set", assignment)
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr


# Files


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (b'{"v":1,"requ', "is cut short"),
        (b'{"v": 2}\n', "is of version 2, this lookup-stage reads version 1"),
        (b"not a recording\n", "is not JSON"),
    ],
)
def test_file_that_ends_badly_exits_2_and_can_be_replayed_up_to_there(
    tmp_path: Path, end: bytes, why: str, replay_here: Callable[..., CommandOutput]
) -> None:
    """The line is named; with --keep-going what stands before it is kept, and said to be."""
    source = written(tmp_path / "in.jsonl", map(encode_recording, recordings()))
    whole = source.read_bytes()
    source.write_bytes(whole + end)
    refused = replay_here(source, "-o", tmp_path / "out.jsonl")
    assert (refused.code, refused.stderr) == (2, f"lookup-stage: {source}: line 6: {why}\n")
    kept = replay_here(source, "-o", tmp_path / "out.jsonl", "--keep-going")
    assert kept.code == 0
    assert f"{source}: line 6: {why}; the lines before it are kept\n5 recordings replayed" in kept.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "-o FILE or --to-topic TOPIC must be given"),
        (["-o", "IN"], "must not be the file that is replayed"),
        (["-o", "out.json"], "a file of recordings ends in .jsonl or .jsonl.zst"),
        (["--to-topic", "t", "-o", "out.jsonl"], "-o does not go with --to-topic"),
        (["--to-topic", "t", "--set", "rag.return-n=1"], "--set does not go with --to-topic"),
        (["--to-topic", "t", "--live"], "--frozen or --live does not go with --to-topic"),
        (["--to-topic", "lookup.requests"], "must not be kafka.topics.requests: nobody asked again"),
        (["--to-topic", "lookup.results"], "must not be kafka.topics.results"),
        (
            ["--live", "-o", "out.jsonl", "--set", "rag.return-n=30"],
            "(command line) must not be greater than",
        ),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(
    tmp_path: Path, arguments: list[str], why: str, replay_here: Callable[..., CommandOutput]
) -> None:
    """Nothing is written and nobody is asked."""
    source = written(tmp_path / "in.jsonl", map(encode_recording, recordings()))
    before = source.read_bytes()
    done = replay_here(source, *(str(source) if each == "IN" else each for each in arguments))
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr
    assert source.read_bytes() == before


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Ten times as many lines need no more memory."""

    def lines(count: int) -> Iterator[bytes]:
        choose = random.Random(1)
        for number in range(count):
            hits = (hit("docA", chunk, content=choose.randbytes(200).hex()) for chunk in range(3))
            yield encode_recording(recording(answer(*hits), request_id=f"r-{number}"))

    def peak(count: int) -> int:
        source = written(tmp_path / f"{count}.jsonl.zst", lines(count))
        tracemalloc.start()
        try:
            with writing_recordings(tmp_path / "out.jsonl.zst") as write:
                assert replay_frozen(source, read_recordings(source), write, None).replayed == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)  # what is made once
    assert peak(2_000) < peak(200) + 256 * 1_024


# Live


@pytest.fixture
def replay_live(
    replay_here: Callable[..., CommandOutput], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CommandOutput]:
    """Return a function that runs the command against a search that answers at once."""
    for name, value in NO_SEARCH.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        "streams.observability.logs.configure", lambda _stage: None
    )  # it is the whole process's
    return replay_here


def test_live_replay_asks_the_configured_search(
    tmp_path: Path, replay_live: Callable[..., CommandOutput]
) -> None:
    """The output has this search's hits and results, whatever was recorded, in the order of the requests."""
    source = written(
        tmp_path / "in.jsonl",
        map(encode_recording, recordings(40, expires_at="2020-01-01T00:00:00Z", hints=1)),
    )
    done = replay_live(source, "-o", tmp_path / "out.jsonl", "--live", "--set", "rag.return-n=3")
    assert (done.code, done.stderr) == (0, "40 requests replayed\n")
    new = [each.recording for each in read_recordings(tmp_path / "out.jsonl")]
    assert [each.request_id for each in new] == [f"r-{number}" for number in range(40)]
    assert new[0].limits == limits(return_n=3)
    assert new[0].result is not None
    assert (new[0].result["status"], new[0].result["hints"]) == ("ok", 1)
    assert [item["content"] for item in new[0].result["evidence"]] == [
        f"query 0, passage {number}" for number in range(3)
    ]
    assert replay_live(tmp_path / "out.jsonl", "-o", tmp_path / "again.jsonl").code == 0


def test_requests_alone_are_replayed_live(tmp_path: Path, replay_live: Callable[..., CommandOutput]) -> None:
    """Where there are no hits the search is asked without being told to."""
    alone = replace(recordings(1)[0], paths=None, limits=None, budget=None, result=None)
    source = written(tmp_path / "in.jsonl", [encode_recording(alone)])
    assert replay_live(source, "-o", tmp_path / "out.jsonl").stderr == "1 requests replayed\n"
    frozen = replay_live(source, "-o", tmp_path / "other.jsonl", "--frozen")
    assert (frozen.code, frozen.stderr) == (
        2,
        f"lookup-stage: {source}: line 1: has no hits, its request alone was recorded: use --live\n",
    )


def test_search_that_fails_is_told_of_as_such(
    tmp_path: Path, replay_live: Callable[..., CommandOutput]
) -> None:
    """The results are `failed`, and the command exits 1 naming the first request."""
    failing = recording(FOUND, queries=["boom"], request_id="r-9")
    source = written(tmp_path / "in.jsonl", map(encode_recording, [*recordings(2), failing]))
    done = replay_live(source, "-o", tmp_path / "out.jsonl", "--live")
    assert done.code == 1
    assert (
        f"lookup-stage: {source}: the search failed for 1 of 3 requests, first request r-9: internal"
        in done.stderr
    )
    statuses = [(each.recording.result or {})["status"] for each in read_recordings(tmp_path / "out.jsonl")]
    assert statuses == ["ok", "ok", "failed"]


def test_requests_that_were_not_valid_are_asked_again_as_they_were(
    tmp_path: Path, replay_live: Callable[..., CommandOutput]
) -> None:
    """A request that was rejected is rejected again, with its own bytes."""
    raw = b'{"request_id": "r-1", "query": NaN}'
    old = replace(recording(FOUND), request={}, raw=raw, paths=(), limits=None, budget=None)
    source = written(tmp_path / "in.jsonl", [encode_recording(old)])
    assert replay_live(source, "-o", tmp_path / "out.jsonl", "--live").code == 0
    (new,) = read_recordings(tmp_path / "out.jsonl")
    assert new.recording.raw == raw
    assert json.loads(new.line)["result"]["status"] == "rejected"
