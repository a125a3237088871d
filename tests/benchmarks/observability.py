"""What metrics, logs and traces add to a request: `python -m tests.benchmarks.observability`.

One thread answers requests through an in-memory search of 20 hits and a publisher that confirms at once, with
and without what observes it, in turn; the medians are compared.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import Tracer

from pipeline.lookup import LookupPipeline
from pipeline.model import SearchHit, SearchQuery
from streams.kafka.records import ConsumedRecord, ProducedRecord
from streams.observability.monitor import Monitor
from streams.observability.observer import Observer
from streams.observability.tracing_observer import TracingObserver
from streams.settings import loading
from streams.settings.model import Settings
from streams.stage.answering import Answerer
from streams.stage.stage import NO_HOOKS, LookupStage, StagePolicy
from streams.wire.request_rules import RequestRules
from tests.builders import budget, limits

REQUESTS, ROUNDS = 2_000, 15
HITS = tuple(
    SearchHit(
        id=number,
        content="Restart the consumer, then watch its lag. " * 8,
        metadata={"docId": f"doc{number % 7}", "chunkIndex": number},
        score=1 / (number + 1),
    )
    for number in range(20)
)


class InstantSearch:
    """Finds the same hits at once."""

    async def start(self) -> None:
        """Do nothing: nothing is needed."""

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Return the hits."""
        del query, timeout_s
        return HITS

    async def close(self) -> None:
        """Release nothing: nothing is held."""


class InstantPublisher:
    """Confirms at once."""

    def check_size(self, record: ProducedRecord) -> None:
        """Accept any."""

    async def publish(self, records: Sequence[ProducedRecord]) -> None:
        """Keep nothing."""


def plain(settings: Settings) -> LookupStage:
    """Return a stage that nothing observes."""
    pipeline = LookupPipeline(InstantSearch(), None)
    return LookupStage(answerer(settings, pipeline), InstantPublisher(), POLICY, hooks=NO_HOOKS)


def observed(settings: Settings, tracer: Tracer | None = None) -> LookupStage:
    """Return a stage as the worker has it."""
    monitor = Monitor()
    observer = Observer(settings, monitor) if tracer is None else TracingObserver(settings, monitor, tracer)
    pipeline = LookupPipeline(observer.search(observer.measured(InstantSearch())), None)
    publisher = observer.publisher(InstantPublisher())
    return LookupStage(answerer(settings, pipeline), publisher, POLICY, hooks=observer.hooks())


def answerer(settings: Settings, pipeline: LookupPipeline) -> Answerer:
    """Return an answerer over a pipeline."""
    rules = RequestRules(limits=limits(), max_width=200, budget=budget(), tenant_field=None, dimension=None)
    return Answerer(pipeline, rules=rules, topics=settings.kafka.topics, timeout_s=60)


POLICY = StagePolicy(max_in_flight=128)


async def seconds_a_request(stage: LookupStage) -> float:
    """Answer requests and return the seconds of processor time for each."""
    done = asyncio.Event()
    left = REQUESTS

    def acknowledge() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    gc.collect()
    began = time.process_time()
    for offset in range(REQUESTS):
        value = b'{"request_id": "r-%d", "query": "How do I restart a consumer?"}' % offset
        record = ConsumedRecord(
            topic="t", partition=0, offset=offset, timestamp_ms=0, key=b"k", value=value, headers=()
        )
        await stage.take(record, acknowledge)
    await done.wait()
    return (time.process_time() - began) / REQUESTS


async def measure() -> None:
    """Print the least of each variant, and what it adds to the first."""
    settings = loading.load()
    variants: dict[str, Callable[[], LookupStage]] = {
        "nothing observes": lambda: plain(settings),
        "metrics and logs": lambda: observed(settings),
        "traces, none sampled": lambda: observed(
            settings, TracerProvider(sampler=ALWAYS_OFF).get_tracer("benchmark")
        ),
        "traces, all sampled": lambda: observed(
            settings, TracerProvider(sampler=ALWAYS_ON).get_tracer("benchmark")
        ),
    }
    seen: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, make in variants.items():
            seen[name].append(await seconds_a_request(make()))
    base = min(seen["nothing observes"])
    for name, times in seen.items():
        least = min(times)
        added = (least - base) * 1e6
        print(  # noqa: T201 - a program's output
            f"{name:20} {least * 1e6:6.1f} µs a request, {added:+5.1f} µs, x {least / base:.3f}"
        )


if __name__ == "__main__":
    asyncio.run(measure())
