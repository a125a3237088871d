"""Requests a second: the worker beside its peers, and beside what it stands on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import orjson

from pipeline.adapters.milvus_client import AsyncMilvusClient
from streams.settings.model import Settings
from streams.worker.bootstrap import milvus_collection, running_embedder, running_search
from tests.benchmarks.drains import WORKER, Drain, drain, fill
from tests.benchmarks.figures import Figure, interleaved, rate, ratio
from tests.support.topics import delete_topics, read_all
from tests.support.worker import Payload, StageTopics, request

PEERS = {
    "worker": WORKER,
    "hand-written": ("tests.benchmarks.peers.hand_written",),
    "FastStream": ("tests.benchmarks.peers.fast_stream",),
    "Quix Streams": ("tests.benchmarks.peers.quix",),
    "consume-produce": ("tests.benchmarks.peers.consume_produce",),
}
BOUNDS = {
    "bare search": 0.5,
    "bare search, hits read": None,
    "hand-written": 2,
    "FastStream": 2.5,
    "Quix Streams": 5,
}
BATCH = 64
CALLS = 2
CHECKED = 500
"""Requests whose results are looked at before anything is timed."""

ALIKE = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where things are.

    Attributes:
        bootstrap: The brokers.
        environment: Settings of the collection that is searched.
        queries: What is asked.
    """

    bootstrap: str
    environment: Mapping[str, str]
    queries: Sequence[str]

    def payloads(self, count: int, width: int) -> list[Payload]:
        """Make requests."""
        return [
            request(
                f"r-{number}",
                query=self.queries[number % len(self.queries)],
                retrieve_k=width,
                return_n=min(5, width),
            )
            for number in range(count)
        ]

    def drained(self, peer: str, environment: Mapping[str, str], *, count: int, width: int) -> Drain:
        """Let a peer answer so many requests."""
        with self._filled(count, width) as topics:
            return drain(topics, PEERS[peer], environment, count=count)

    def results(self, peer: str, environment: Mapping[str, str], *, width: int) -> dict[str, bytes]:
        """Let a peer answer some requests, each once and with evidence.

        Returns:
            The bytes of each request's result.
        """
        with self._filled(CHECKED, width) as topics:
            drain(topics, PEERS[peer], environment, count=CHECKED)
            values = [record.value or b"" for record in asyncio.run(read_all(self.bootstrap, topics.results))]
        bodies = [orjson.loads(each) for each in values]
        assert sorted(body["request_id"] for body in bodies) == sorted(f"r-{n}" for n in range(CHECKED)), peer
        assert all(body["status"] == "ok" and body["evidence"] for body in bodies), peer
        return {body["request_id"]: each for body, each in zip(bodies, values, strict=True)}

    @contextmanager
    def _filled(self, count: int, width: int) -> Iterator[StageTopics]:
        topics = StageTopics(bootstrap=self.bootstrap)
        asyncio.run(fill(topics, self.payloads(count, width)))
        try:
            yield topics
        finally:
            asyncio.run(delete_topics(self.bootstrap, topics.requests, topics.results, topics.dead_letters))


def milvus_rates(setup: Setup, rounds: int, scale: float, say: Callable[[str], object]) -> Iterator[Figure]:
    """Real searches: the worker, its peers, and multi-vector searches without Kafka."""
    counts = {"worker": 8_000, "hand-written": 3_000, "FastStream": 2_000, "Quix Streams": 1_500}
    _check_alike(setup, list(counts), setup.environment, say)

    def rate_of(peer: str) -> Callable[[], float]:
        count = round(counts[peer] * scale)
        return lambda: setup.drained(peer, setup.environment, count=count, width=20).rate

    contestants = {peer: rate_of(peer) for peer in counts}
    for name, reads in (("bare search", False), ("bare search, hits read", True)):
        contestants[name] = partial(_run_bare, setup, round(8_000 * scale), reads=reads)
    seen = interleaved(contestants, rounds, say)
    yield from (rate(f"Milvus, 20 hits: {name}", values) for name, values in seen.items())
    for other, least in BOUNDS.items():
        yield ratio(f"Milvus, 20 hits: worker ÷ {other}", seen["worker"], seen[other], at_least=least)


def instant_rates(setup: Setup, rounds: int, scale: float, say: Callable[[str], object]) -> Iterator[Figure]:
    """Yield a search that answers at once: everything else."""
    instant = {"SEARCH_PORT": "tests.benchmarks.ports:instant", "EMBEDDING_PROVIDER": "none"}
    cpu: list[float] = []

    def worker(width: int) -> float:
        drained = setup.drained("worker", instant, count=round(12_000 * scale), width=width)
        if width > 1:
            cpu.append(drained.cpu_s * 1e6)
        return drained.rate

    _check_alike(setup, ["worker", "FastStream"], instant, say)
    seen = interleaved(
        {
            "worker, 1 hit": lambda: worker(1),
            "consume-produce": lambda: (
                setup.drained("consume-produce", instant, count=round(60_000 * scale), width=1).rate
            ),
            "worker, 20 hits": lambda: worker(20),
            "FastStream, 20 hits": lambda: (
                setup.drained("FastStream", instant, count=round(4_000 * scale), width=20).rate
            ),
        },
        rounds,
        say,
    )
    yield from (rate(f"instant search: {name}", values) for name, values in seen.items())
    yield ratio(
        "instant search, 1 hit: worker ÷ consume-produce",
        seen["worker, 1 hit"],
        seen["consume-produce"],
        at_least=0.3,
    )
    yield ratio(
        "instant search, 20 hits: worker ÷ FastStream",
        seen["worker, 20 hits"],
        seen["FastStream, 20 hits"],
        at_least=2,
    )
    yield Figure(
        name="worker's processor time for a request of 20 hits",
        value=rate("", cpu).value,
        unit="µs",
        bound="at most",
        limit=200,
        rounds=tuple(cpu),
    )


def _run_bare(setup: Setup, count: int, *, reads: bool) -> float:
    return asyncio.run(bare_rate(setup, count, reads=reads))


async def bare_rate(setup: Setup, count: int, *, reads: bool) -> float:
    """Multi-vector searches of embedded queries, two at a time.

    Args:
        setup: Where to search for what.
        count: How many queries.
        reads: Whether hits are looked at; the client leaves their metadata as bytes until then.
    """
    settings = Settings()
    collection = milvus_collection(settings)
    async with (
        running_embedder(settings.embedding) as embedder,
        running_search(settings, embedder) as search,
    ):
        assert embedder is not None
        del search  # it has seen to it that the collection is loaded
        texts = [setup.queries[number % len(setup.queries)] for number in range(BATCH)]
        vectors = [list(vector) for vector in await embedder.embed(texts, timeout_s=60)]
        client = AsyncMilvusClient(uri=collection.uri)
        left = iter(range(count // BATCH))

        async def work() -> None:
            for _ in left:
                found = await client.search(
                    collection.collection,
                    data=vectors,
                    anns_field=collection.vector_field,
                    limit=20,
                    output_fields=[collection.content_field, collection.metadata_field],
                )
                if reads:
                    assert all(row["entity"] for rows in found for row in rows)

        began = time.monotonic()
        await asyncio.gather(*(work() for _ in range(CALLS)))
        seconds = time.monotonic() - began
        await client.close()
    return count // BATCH * BATCH / seconds


def _check_alike(
    setup: Setup, peers: Sequence[str], environment: Mapping[str, str], say: Callable[[str], object]
) -> None:
    """Check, before anything is timed, that all do the same job: to each request the same bytes.

    But for a few where the engine has built its graph anew in between, and finds other rows by it.
    """
    seen = {}
    for peer in peers:
        say(f"checking {peer}")
        seen[peer] = setup.results(peer, environment, width=20)
    first, *others = seen.values()
    alike = [sum(first[name] == other[name] for name in first) for other in others]
    assert min(alike) >= ALIKE * CHECKED, f"results like those of {peers[0]}: {alike} of {CHECKED}"
