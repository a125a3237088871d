"""How fast frozen replay is, measured by how fast the same lines are read as JSON, and what memory it takes.

`python -m tests.benchmarks.replay_speed` makes a file of 100,000 lookups of 20 hits and prints JSON. All
of it runs on one core. Chunks have 200 to 800 characters, as those that `lookup-stage index` makes.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import orjson

from pipeline.model import SearchHit
from streams.recordings.files import writing_recordings
from streams.recordings.recording import encode_recording
from tests.builders import answer, recording

WORDS = (
    "lag consumer group offset broker partition rebalance topic worker index search the of and to in restart"
)
LOADS = """
import sys, time, orjson
began, used = time.perf_counter(), time.process_time()
with open(sys.argv[1], "rb") as file:
    for line in file:
        orjson.loads(line)
print(time.perf_counter() - began, time.process_time() - used)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a process took.

    Attributes:
        seconds: From its start to its end.
        cpu_s: Of the processor, its own and the system's for it.
        peak_mib: Most resident memory.
        output: What it printed.
    """

    seconds: float
    cpu_s: float
    peak_mib: float
    output: str


def recorded_lines(count: int, hits: int) -> Iterator[bytes]:
    """Make recordings of which no two are the same."""
    choose = random.Random(1)
    texts = [_text(choose) for _ in range(2_000)]
    for number in range(count):
        found = [_hit(choose, texts, rank) for rank in range(hits)]
        query = f"What does the runbook say about {choose.choice(WORDS.split())} {number}?"
        yield encode_recording(recording(answer(*found), request_id=f"request-{number:06}", queries=[query]))


def measured(*command: str) -> Run:
    """Run a command and wait for its end."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return Run(
        seconds=time.perf_counter() - began,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / 1_024,
        output=output,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--hits", type=int, default=20)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, tenth = folder / "lookups.jsonl", folder / "tenth.jsonl"
        with writing_recordings(file) as write:
            for line in recorded_lines(options.count, options.hits):
                write(line)
        with file.open("rb") as source, tenth.open("wb") as target:
            target.writelines(islice(source, options.count // 10))
        figures = _figures(file, tenth, options.count)
    sys.stdout.buffer.write(orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _figures(file: Path, tenth: Path, count: int) -> dict[str, float]:
    out = str(file.with_name("out.jsonl"))
    replay = (sys.executable, "-m", "streams", "replay")
    first = measured(sys.executable, "-c", LOADS, str(file))
    small = measured(*replay, str(tenth), "-o", out, "--force")
    whole = measured(*replay, str(file), "-o", out, "--force")
    assert Path(out).stat().st_size == file.stat().st_size
    second = measured(sys.executable, "-c", LOADS, str(file))
    (took, used), (took_again, used_again) = (map(float, run.output.split()) for run in (first, second))
    reading_s, reading_cpu_s = (took + took_again) / 2, (used + used_again) / 2
    return {
        "lookups": count,
        "bytes_a_line": round(file.stat().st_size / count),
        "orjson_loads_lines_per_s": round(count / reading_s),
        "replay_lines_per_s": round(count / whole.seconds),
        "replay_share_of_orjson_loads": round(reading_s / whole.seconds, 3),
        "orjson_loads_cpu_us_per_line": round(reading_cpu_s / count * 1e6, 1),
        "replay_cpu_us_per_line": round(whole.cpu_s / count * 1e6, 1),
        "replay_share_of_orjson_loads_cpu": round(reading_cpu_s / whole.cpu_s, 3),
        "peak_mib_of_a_tenth": round(small.peak_mib, 1),
        "peak_mib_of_all": round(whole.peak_mib, 1),
    }


def _text(choose: random.Random) -> str:
    length = choose.randint(200, 800)
    return " ".join(choose.choices(WORDS.split(), k=length))[:length]


def _hit(choose: random.Random, texts: list[str], rank: int) -> SearchHit:
    score = 0.9 - rank / 100 - choose.random() / 200
    document = f"runbook-{choose.randrange(8)}"
    return SearchHit(
        id=f"{choose.randrange(10**9):x}",
        content=choose.choice(texts),
        metadata={
            "docId": document,
            "chunkIndex": choose.randrange(40),
            "source": f"runbooks/{document}.md",
            "title": document.capitalize(),
            "breadcrumb": f"{document.capitalize()} > Symptoms",
        },
        score=score,
        distance=score,
        metric="COSINE",
    )


if __name__ == "__main__":
    main()
