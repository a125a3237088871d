"""The memory of a worker over many requests."""

from __future__ import annotations

import asyncio
import os
import statistics
from pathlib import Path
from typing import Any

from tests.faults.report import Report
from tests.faults.results import Results
from tests.faults.trial import Setup, trial

SAMPLE_INTERVAL_S = 0.5
CHUNK = 10_000


async def steady_memory(
    kafka: str, directory: Path, *, requests: int, warm_up: int, most_growth: float
) -> Report:
    """Send requests as fast as they are answered, and watch the worker's resident memory.

    Args:
        kafka: Address of the broker.
        directory: Where the workers' logs go.
        requests: How many.
        warm_up: Results after which memory counts; it is compared over windows of this many.
        most_growth: By which share memory may be larger in the last window than in the first.
    """
    report = Report(
        scenario="steady-memory",
        load=f"1 worker, {requests} requests of three hits each, memory from result {warm_up} on",
    )
    samples: list[tuple[int, float]] = []
    async with trial(kafka, directory, Setup(fields=_fields)) as stage:
        (worker,) = stage.workers.running()
        watching = asyncio.create_task(_watch(worker.pid, stage.results, samples))
        started = asyncio.get_running_loop().time()
        chunk = min(CHUNK, warm_up)
        while stage.load.count < requests:
            await stage.load.send(min(chunk, requests - stage.load.count))
            await stage.results.complete(stage.load.count - chunk)
            # However fast they are answered, each window has a sample.
            samples.append((len(stage.results.by_request), _resident_mib(worker.pid)))
        await stage.results.complete(stage.load.count)
        took_s = asyncio.get_running_loop().time() - started
        watching.cancel()
        await asyncio.wait([watching])
        stage.count_results(report)
    first = _median_mib(samples, warm_up, 2 * warm_up)
    last = _median_mib(samples, requests - warm_up, requests)
    report.figures |= {
        "first_mib": first,
        "last_mib": last,
        "most_mib": max(mib for _, mib in samples),
        "growth": last / first - 1,
        "took_s": took_s,
    }
    report.require(f"memory grows by less than {most_growth:.0%}", holds=last / first - 1 < most_growth)
    return report


def _fields(number: int) -> dict[str, Any]:
    return {"query": f"question {number}", "retrieve_k": 3, "return_n": 3}


async def _watch(pid: int, results: Results, samples: list[tuple[int, float]]) -> None:
    """Note the results so far and the resident memory of a process, in MiB, until it is cancelled."""
    while True:
        samples.append((len(results.by_request), _resident_mib(pid)))
        await asyncio.sleep(SAMPLE_INTERVAL_S)


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _median_mib(samples: list[tuple[int, float]], first: int, last: int) -> float:
    """Return the median over the samples that were taken between two numbers of results."""
    return statistics.median(mib for results, mib in samples if first <= results <= last)
