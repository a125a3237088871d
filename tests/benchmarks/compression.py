"""What each codec makes of results: bytes on the wire, and processor time to write and to read one."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, get_args

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from pipeline.model import Limits
from streams.settings.model import Compression
from tests.benchmarks.core import result_of
from tests.benchmarks.figures import Figure, interleaved, rate
from tests.benchmarks.hits import made_hits
from tests.integration.corpus import sentences

CODECS: tuple[str, ...] = get_args(Compression)
RESULTS_A_BATCH = (1, 8)
"""A result leaves after a millisecond, alone or with what else is ready."""

LIMITS = Limits(retrieve_k=20, return_n=5, max_chunks_per_document=2)
TURNS = 200


def compression(rounds: int, say: Callable[[str], object]) -> Iterator[Figure]:
    """Measure results of 20 hits whose content is the runbooks' own sentences."""
    results = [_result(number) for number in range(max(RESULTS_A_BATCH))]
    for size in RESULTS_A_BATCH:
        batch = results[:size]
        written = {codec: _written(codec, batch) for codec in CODECS}
        writing: dict[str, Callable[[], float]] = {
            codec: partial(_microseconds, partial(_written, codec, batch), size) for codec in CODECS
        }
        reading: dict[str, Callable[[], float]] = {
            codec: partial(_microseconds, partial(_read, written[codec]), size) for codec in CODECS
        }
        to_write = interleaved(writing, rounds, say)
        to_read = interleaved(reading, rounds, say)
        for codec in CODECS:
            name = f"{codec}, {size} a batch: "
            yield Figure(name=name + "bytes of a result", value=len(written[codec]) / size, unit="B")
            yield rate(name + "processor time to write a result", to_write[codec], "µs")
            yield rate(name + "processor time to read a result", to_read[codec], "µs")


def _result(number: int) -> bytes:
    choose = random.Random(number)
    known = sentences()
    paths: list[dict[str, Any]] = made_hits(1, LIMITS.retrieve_k)
    for hit in paths[0]["hits"]:
        hit["content"] = " ".join(choose.sample(known, 3))
    return result_of(paths, LIMITS)


def _written(codec: str, results: list[bytes]) -> bytes:
    number = CODECS.index(codec)
    builder = DefaultRecordBatchBuilder(2, number, 0, -1, -1, -1, 1_000_000)
    for offset, result in enumerate(results):
        builder.append(offset, 0, b"r-1", result, [("lookup-request-id", b"r-1"), ("lookup-status", b"ok")])
    return bytes(builder.build())


def _read(batch: bytes) -> int:
    return sum(len(record.value) for record in DefaultRecordBatch(batch))


def _microseconds(work: Callable[[], object], size: int) -> float:
    times = []
    for _ in range(TURNS):
        began = time.thread_time_ns()
        work()
        times.append(time.thread_time_ns() - began)
    return statistics.median(times) / 1_000 / size
