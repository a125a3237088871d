"""From hits to the bytes of a result, with ledger, beside reading the same hits as JSON."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from pipeline.model import Budget, Limits, PathHits
from pipeline.outcome import PathAnswer, conclude
from streams.recordings.recording import hits_of
from streams.wire.results import LookupResult, encode_result
from tests.benchmarks.figures import Figure, rate
from tests.benchmarks.hits import made_hits

SIZES = ((2, 20), (4, 50), (8, 200))
AT_MOST = 2.3
BUDGET = Budget(max_items=20, max_chars_per_item=2_000, max_total_chars=8_000, min_chars_per_item=200)


def core(rounds: int, say: Callable[[str], object]) -> Iterator[Figure]:
    """Measure processor time, so that other programs do not matter, in turns of single calls."""
    for paths, width in SIZES:
        say(f"core {paths} x {width}")
        reading, job = _timed(paths, width, turns=rounds * max(10, 20_000 // (paths * width)))
        name = f"{paths} x {width} hits to result bytes"
        yield rate(name, [value * 1e6 for value in job], "µs")
        ratios = [mine / theirs for mine, theirs in zip(job, reading, strict=True)]
        yield Figure(
            name=f"{name} ÷ orjson.loads of the hits",
            value=statistics.median(ratios),
            unit="x",
            bound="at most",
            limit=AT_MOST,
        )


def result_of(paths: Sequence[dict[str, Any]], limits: Limits) -> bytes:
    """Do the whole job."""
    answers = [
        PathAnswer(
            query=path["query"],
            hits=PathHits(query=path["query"], hits=hits_of(path["hits"])),
        )
        for path in paths
    ]
    outcome = conclude(answers, limits=limits, budget=BUDGET, explain=False)
    return encode_result(
        LookupResult(
            request_id="r-1",
            status=outcome.status,
            evidence=outcome.evidence,
            paths=outcome.paths,
            ledger=outcome.ledger,
            limits=limits,
        )
    )


def check_result(result: dict[str, Any], *, retrieved: int) -> None:
    """Check that the job was done before it is timed."""
    ledger = result["ledger"]
    lost = sum(ledger.values()) - ledger["retrieved"]
    assert (ledger["retrieved"], lost, ledger["projected"]) == (retrieved, retrieved, 5), ledger
    assert ledger["duplicates"] >= 0.25 * retrieved, ledger


def in_turns(calls: Sequence[Callable[[], object]], turns: int) -> list[list[float]]:
    """Return the seconds of processor time that each call took, turn by turn."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(turns):
        for call, into in zip(calls, times, strict=True):
            began = time.thread_time()
            call()
            into.append(time.thread_time() - began)
    return times


def _timed(paths: int, width: int, *, turns: int) -> tuple[list[float], list[float]]:
    """Return the seconds of reading the hits and of the job on them, turn by turn."""
    hits = made_hits(paths, width)
    text, limits = orjson.dumps(hits), Limits(retrieve_k=width, return_n=5, max_chunks_per_document=2)
    check_result(orjson.loads(result_of(hits, limits)), retrieved=paths * width)
    reading, job = in_turns([lambda: orjson.loads(text), lambda: result_of(hits, limits)], turns)
    return reading, job
