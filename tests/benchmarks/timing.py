"""What a request waits for: added latency at half of the peak rate, more workers, and rebalances."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from pipeline.adapters.coalescing import coalescing
from streams.bootstrap import running_embedder, running_search
from streams.settings import Settings
from tests.benchmarks.drains import WORKER, drain, fill, running
from tests.benchmarks.figures import Figure, interleaved, rate, ratio
from tests.benchmarks.peers.job import Job
from tests.benchmarks.rates import Setup
from tests.support.topics import delete_topics
from tests.support.worker import Payload, StageTopics, reading_results, request, send_all

SLOW = {
    "SEARCH_PORT": "tests.benchmarks.ports:slow",
    "EMBEDDING_PROVIDER": "none",
    "STAGE_MAX_IN_FLIGHT": "8",
}


def latency(setup: Setup, seconds: float, say: Callable[[str], object]) -> Iterator[Figure]:
    """Sends at half of the rate that a drain reaches, to the worker and straight to the search.

    A call each keeps the engine so busy that queries queue up: what the stage adds is measured beside a
    search that shares calls as the stage does.
    """
    say("peak rate")
    peak = setup.drained("worker", setup.environment, count=6_000, width=20).rate
    count = round(peak / 2 * seconds)
    say(f"{count} requests at {peak / 2:.0f}/s through the worker, then straight to the search")
    through = asyncio.run(_through_worker(setup, count, peak / 2))
    alone = asyncio.run(_search_alone(setup, count, peak / 2, sharing_calls=False))
    sharing = asyncio.run(_search_alone(setup, count, peak / 2, sharing_calls=True))
    yield rate("half of the peak rate", [peak / 2])
    for share, limit in ((50, 5), (99, 25)):
        slower, single, shared = (
            statistics.quantiles(each, n=100)[share - 1] * 1e3 for each in (through, alone, sharing)
        )
        yield rate(f"through the worker, p{share}", [slower], "ms")
        yield rate(f"bare search, a call each, p{share}", [single], "ms")
        yield rate(f"bare search, sharing calls, p{share}", [shared], "ms")
        yield Figure(
            name=f"added to a search that shares calls, p{share}",
            value=slower - shared,
            unit="ms",
            bound="at most",
            limit=limit,
        )


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
    """The longest gap between results around each joining and each clean leaving of a worker."""
    gaps = asyncio.run(_gaps(setup, changes, say))
    worst = sorted(gaps)[min(len(gaps) - 1, int(len(gaps) * 0.99))]
    yield rate(f"pause when a worker joins or leaves, median of {len(gaps)}", gaps, "s")
    yield Figure(
        name="pause when a worker joins or leaves, p99", value=worst, unit="s", bound="at most", limit=3
    )


async def _through_worker(setup: Setup, count: int, per_second: float) -> list[float]:
    topics = StageTopics(bootstrap=setup.bootstrap)
    await topics.create()
    payloads = setup.payloads(count, 20)
    warm = [request(f"w-{number}", query=setup.queries[0]) for number in range(200)]
    sent: dict[str, float] = {}

    def noted() -> Iterator[Payload]:
        for number, payload in enumerate(payloads):
            sent[f"r-{number}"] = time.monotonic()
            yield payload

    with running(WORKER, topics.environment | dict(setup.environment)):
        async with reading_results(topics) as log:
            await send_all(topics, warm)
            await log.wait_for((f"w-{number}" for number in range(200)), timeout_s=60)
            before = len(log.arrived_at)
            await send_all(topics, noted(), rate=per_second, linger_ms=0)
            await log.wait_for(sent, timeout_s=60)
            arrived = dict(zip(_names(log.by_request, before), log.arrived_at[before:], strict=True))
    await delete_topics(setup.bootstrap, topics.requests, topics.results, topics.dead_letters)
    return [arrived[name] - began for name, began in sent.items()]


def _names(by_request: Mapping[str, object], before: int) -> list[str]:
    """Results stand in the order of their arrival, each once."""
    return list(by_request)[before:]


async def _search_alone(setup: Setup, count: int, per_second: float, *, sharing_calls: bool) -> list[float]:
    settings = Settings()
    took: list[float] = []
    async with (
        running_embedder(settings.embedding) as embedder,
        running_search(settings, embedder) as search,
    ):
        asked = coalescing(search, max_batch_size=64, max_calls=16) if sharing_calls else search
        job = Job(settings=settings, search=asked, embedder=embedder)

        async def ask(payload: Payload, due: float) -> None:
            await job.look_up(payload.value or b"")
            took.append(time.monotonic() - due)

        began, asking = time.monotonic(), []
        for number, payload in enumerate(setup.payloads(count, 20)):
            due = began + number / per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            asking.append(asyncio.create_task(ask(payload, time.monotonic())))
        await asyncio.gather(*asking)
    return took


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
