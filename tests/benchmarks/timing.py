"""More workers: what they add, and the pause when one joins or leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.benchmarks.drains import WORKER, drain, fill, running
from tests.benchmarks.figures import Figure, interleaved, rate, ratio
from tests.benchmarks.rates import Setup
from tests.support.topics import delete_topics
from tests.support.worker import StageTopics, reading_results, send_all

SLOW = {
    "SEARCH_PORT": "tests.benchmarks.ports:slow",
    "EMBEDDING_PROVIDER": "none",
    "STAGE_MAX_IN_FLIGHT": "8",
}


def scale(setup: Setup, rounds: int, scale: float, say: Callable[[str], object]) -> Iterator[Figure]:
    """One worker and two, 8 partitions, a search of 20 ms, 8 requests in flight each."""

    def workers(number: int) -> float:
        topics = StageTopics(bootstrap=setup.bootstrap)
        count = round(4_000 * scale) * number
        asyncio.run(fill(topics, setup.payloads(count, 5), partitions=8))
        try:
            return drain(topics, WORKER, SLOW, count=count, workers=number).rate
        finally:
            asyncio.run(delete_topics(setup.bootstrap, topics.requests, topics.results, topics.dead_letters))

    seen = interleaved({"1": lambda: workers(1), "2": lambda: workers(2)}, rounds, say)
    yield rate("search of 20 ms: 1 worker", seen["1"])
    yield rate("search of 20 ms: 2 workers", seen["2"])
    yield ratio("2 workers ÷ 1 worker", seen["2"], seen["1"], at_least=1.8)


def pauses(setup: Setup, changes: int, say: Callable[[str], object]) -> Iterator[Figure]:
    """Yield the longest gap between results around each joining and each clean leaving of a worker."""
    gaps = asyncio.run(_gaps(setup, changes, say))
    worst = sorted(gaps)[min(len(gaps) - 1, int(len(gaps) * 0.99))]
    yield rate(f"pause when a worker joins or leaves, median of {len(gaps)}", gaps, "s")
    yield Figure(
        name="pause when a worker joins or leaves, p99", value=worst, unit="s", bound="at most", limit=3
    )


async def _gaps(setup: Setup, changes: int, say: Callable[[str], object]) -> list[float]:
    topics = StageTopics(bootstrap=setup.bootstrap)
    await topics.create(partitions=8)
    environment = topics.environment | SLOW
    gaps: list[float] = []
    with running(WORKER, environment):
        async with reading_results(topics, 8) as log:
            sending = asyncio.create_task(send_all(topics, setup.payloads(100_000, 5), rate=200))
            await log.wait_for(["r-0"], timeout_s=60)
            for number in range(changes):
                say(f"worker {number + 1} of {changes} joins and leaves")
                began = time.monotonic()
                with running(WORKER, environment):
                    await asyncio.sleep(8)
                    left = time.monotonic()
                await asyncio.sleep(4)
                gaps.append(_longest(log.arrived_at, began, left))
                gaps.append(_longest(log.arrived_at, left, time.monotonic()))
            sending.cancel()
            await asyncio.wait([sending])
    await delete_topics(setup.bootstrap, topics.requests, topics.results, topics.dead_letters)
    return gaps


def _longest(arrived: list[float], start: float, end: float) -> float:
    times = [start, *(each for each in arrived if start <= each <= end), end]
    return max(later - earlier for earlier, later in pairwise(times))
