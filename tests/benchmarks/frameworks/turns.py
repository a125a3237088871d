"""The stage's job on hits beside what frameworks can do of it, in turns of single calls."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from pipeline.model import Limits
from tests.benchmarks.core import check_result, in_turns, result_of
from tests.benchmarks.figures import Figure, rate
from tests.benchmarks.hits import made_hits

PATHS, WIDTH, BLOCKS = 2, 20, 5
AT_LEAST = {"Haystack": 4, "LlamaIndex": 8, "LangChain": 4}
SILENT = {"HAYSTACK_TELEMETRY_ENABLED": "False", "LANGSMITH_TRACING": "false"}
"""Nothing of them is sent anywhere while they are timed."""


def frameworks(rounds: int, say: Callable[[str], object]) -> Iterator[Figure]:
    """Measure processor time; each framework must be that many times the stage's, in both of its forms."""
    os.environ |= SILENT
    hits = made_hits(PATHS, WIDTH)
    limits = Limits(retrieve_k=WIDTH, return_n=BLOCKS, max_chunks_per_document=2)
    check_result(orjson.loads(result_of(hits, limits)), retrieved=PATHS * WIDTH)
    contestants = _contestants(hits)
    for answer in contestants.values():
        check_blocks(orjson.loads(answer()), hits)
    say(f"frameworks {PATHS} x {WIDTH}")
    ours, *theirs = in_turns([lambda: result_of(hits, limits), *contestants.values()], turns=200 * rounds)
    name = f"{PATHS} x {WIDTH} hits to result bytes"
    yield rate(name, [seconds * 1e6 for seconds in ours], "µs")
    for (framework, form), times in zip(contestants, theirs, strict=True):
        yield Figure(
            name=f"{name}: {framework}{form} ÷ ours",
            value=statistics.median(their / our for their, our in zip(times, ours, strict=True)),
            unit="x",
            bound="at least",
            limit=AT_LEAST[framework],
        )


def check_blocks(blocks: Sequence[dict[str, Any]], hits: Sequence[dict[str, Any]]) -> None:
    """Check what a framework gives: five blocks, the best hit's first, and no chunk twice."""
    best = max((row for path in hits for row in path["hits"]), key=lambda row: row["score"])
    chunks = [_chunk(block) for block in blocks]
    assert len(chunks) == len(set(chunks)) == BLOCKS, chunks
    assert chunks[0] == _chunk(best), chunks


def _contestants(hits: Sequence[dict[str, Any]]) -> dict[tuple[str, str], Callable[[], bytes]]:
    """Make each framework's two forms; only those who measure have the frameworks."""
    from tests.benchmarks.frameworks import haystack, langchain, llama_index

    libraries = zip(AT_LEAST, (haystack, llama_index, langchain), strict=True)
    return {
        (name, form): prepare(hits, BLOCKS)
        for name, library in libraries
        for form, prepare in (("", library.whole), (", by hand", library.by_hand))
    }


def _chunk(block: dict[str, Any]) -> tuple[str, int]:
    """Find which chunk a block is, at whatever depth its metadata stand."""
    if "docId" in block:
        return block["docId"], block["chunkIndex"]
    (found,) = [_chunk(value) for value in block.values() if isinstance(value, dict) and value]
    return found
