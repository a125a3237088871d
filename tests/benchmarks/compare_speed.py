"""How fast two files are compared, and what memory that takes.

`python -m tests.benchmarks.compare_speed` makes a file of 20,000 lookups of 20 hits, replays it under
another cap, compares the two, and prints JSON. All of it runs on one core.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from itertools import islice
from pathlib import Path

import orjson

from streams.recordings.files import writing_recordings
from tests.benchmarks.replay_speed import measured, recorded_lines

STREAMS = (sys.executable, "-m", "streams")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--hits", type=int, default=20)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "base.jsonl"
        with writing_recordings(base) as write:
            for line in recorded_lines(options.count, options.hits):
                write(line)
        figures = _figures(base, options.count)
    sys.stdout.buffer.write(orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _figures(base: Path, count: int) -> dict[str, float]:
    changed, page = base.with_name("changed.jsonl"), base.with_name("report.html")
    measured(*STREAMS, "replay", str(base), "-o", str(changed), "--set", "rag.max-chunks-per-document=1")
    tenths = [str(_tenth(file, count)) for file in (base, changed)]
    small = measured(*STREAMS, "compare", *tenths, "--html", str(page))
    same = measured(*STREAMS, "compare", str(base), str(base), "--fail-under", "identical=1")
    whole = measured(*STREAMS, "compare", str(base), str(changed), "--html", str(page))
    return {
        "lookups": count,
        "bytes_a_line": round(base.stat().st_size / count),
        "cpu_us_per_lookup_where_all_changed": round(whole.cpu_s / count * 1e6),
        "cpu_us_per_lookup_where_none_changed": round(same.cpu_s / count * 1e6),
        "lookups_per_s_where_all_changed": round(count / whole.seconds),
        "lookups_per_s_where_none_changed": round(count / same.seconds),
        "peak_mib_of_a_tenth": round(small.peak_mib, 1),
        "peak_mib_of_all": round(whole.peak_mib, 1),
        "page_mib": round(page.stat().st_size / 2**20, 1),
    }


def _tenth(file: Path, count: int) -> Path:
    tenth = file.with_name(f"tenth-{file.name}")
    with file.open("rb") as source, tenth.open("wb") as target:
        target.writelines(islice(source, count // 10))
    return tenth


if __name__ == "__main__":
    main()
