"""What a request waits for at half of the peak rate."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.adapters.coalescing import coalescing
from streams.settings.model import Settings
from streams.worker.bootstrap import running_embedder, running_search
from tests.benchmarks.drains import running
from tests.benchmarks.figures import Figure, rate
from tests.benchmarks.peers.job import Job
from tests.benchmarks.rates import PEERS, Setup
from tests.faults.waiting import until
from tests.support.topics import delete_topics
from tests.support.worker import Payload, StageTopics, send_all

PARTITIONS = 4
WARMING = 200
"""Requests that are answered before any counts."""

GIVE_UP_S = 60.0


def latency(setup: Setup, seconds: float, say: Callable[[str], object]) -> Iterator[Figure]:
    """Send at half of the rate that a drain reaches, to the worker and straight to the search.

    A call each keeps the engine so busy that queries queue up: what the stage adds is measured beside a
    search that shares calls as the stage does.
    """
    say("peak rate")
    peak = setup.drained("worker", setup.environment, count=6_000, width=20).rate
    count = round(peak / 2 * seconds)
    say(f"{count} requests at {peak / 2:.0f}/s through the worker, then straight to the search")
    through, looped = (
        asyncio.run(_through(setup, peer, count, peak / 2)) for peer in ("worker", "consume-produce")
    )
    alone = asyncio.run(_search_alone(setup, count, peak / 2, sharing_calls=False))
    sharing = asyncio.run(_search_alone(setup, count, peak / 2, sharing_calls=True))
    yield rate("half of the peak rate", [peak / 2])
    for share, limit in ((50, 5), (99, 25)):
        slower, loop, single, shared = (
            statistics.quantiles(each, n=100)[share - 1] * 1e3 for each in (through, looped, alone, sharing)
        )
        yield rate(f"through the worker, p{share}", [slower], "ms")
        yield rate(f"through consume-produce, no search, p{share}", [loop], "ms")
        yield rate(f"bare search, a call each, p{share}", [single], "ms")
        yield rate(f"bare search, sharing calls, p{share}", [shared], "ms")
        yield Figure(
            name=f"added to a search that shares calls, p{share}",
            value=slower - shared,
            unit="ms",
            bound="at most",
            limit=limit,
        )


async def _through(setup: Setup, peer: str, count: int, per_second: float) -> list[float]:
    """Yield the seconds from each request's sending to its answer's arrival."""
    topics = StageTopics(bootstrap=setup.bootstrap)
    await topics.create(partitions=PARTITIONS)
    sent: dict[str, float] = {}

    def noted(payloads: Iterable[Payload]) -> Iterator[Payload]:
        for payload in payloads:
            sent[_request_id(payload.value)] = time.monotonic()
            yield payload

    with running(PEERS[peer], topics.environment | dict(setup.environment)):
        async with _arrivals(topics) as arrived:
            await send_all(topics, setup.payloads(WARMING, 20))
            await until(lambda: len(arrived) == WARMING, deadline_s=GIVE_UP_S, what="answers")
            arrived.clear()
            await send_all(topics, noted(setup.payloads(count, 20)), rate=per_second, linger_ms=0)
            await until(lambda: len(arrived) == count, deadline_s=GIVE_UP_S, what="answers")
    await delete_topics(setup.bootstrap, topics.requests, topics.results, topics.dead_letters)
    return [at - sent[name] for name, at in arrived.items()]


@asynccontextmanager
async def _arrivals(topics: StageTopics) -> AsyncIterator[dict[str, float]]:
    """Note when each request's answer arrives, while the block runs."""
    arrived: dict[str, float] = {}
    consumer = AIOKafkaConsumer(bootstrap_servers=topics.bootstrap, auto_offset_reset="earliest")
    await consumer.start()

    async def note() -> None:
        async for message in consumer:
            arrived[_request_id(message.value)] = time.monotonic()

    consumer.assign([TopicPartition(topics.results, number) for number in range(PARTITIONS)])
    noting = asyncio.create_task(note())
    try:
        yield arrived
    finally:
        noting.cancel()
        await asyncio.wait([noting])
        await consumer.stop()


def _request_id(value: bytes | None) -> str:
    return str(orjson.loads(value or b"")["request_id"])


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
