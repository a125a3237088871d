"""What a lookup costs, counted in calls of functions and of the engine: clocks would tell of the machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import orjson
import pytest

from pipeline.adapters.coalescing import CoalescingSearch
from pipeline.adapters.resilient import Resilience, ResilientSearch, RetryPolicy
from pipeline.circuit import CircuitBreaker
from pipeline.lookup import LookupPipeline
from pipeline.model import Limits, SearchHit, SearchQuery
from pipeline.ports import KnowledgeSearchPort
from pipeline.testing.in_memory import InMemorySearch, Row
from streams.settings.model import TopicSettings
from streams.stage.answering import Answerer
from streams.wire.request_rules import RequestRules
from tests.benchmarks.core import result_of
from tests.benchmarks.hits import made_hits
from tests.benchmarks.ports import InstantSearch
from tests.builders import budget, consumed, limits, lookup


@dataclass(slots=True)
class Calls:
    """How many functions were called, of Python and of C."""

    count: int = 0


@contextmanager
def counted() -> Iterator[Calls]:
    """Count the calls of this thread."""
    calls, before = Calls(), sys.getprofile()

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        calls.count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def calls_of(job: Callable[[], object]) -> int:
    """Count the calls of a job that has been done before."""
    job()
    with counted() as calls:
        job()
    return calls.count


def core_calls(paths: int, width: int) -> int:
    """Count the calls from hits to the bytes of a result."""
    hits, widths = made_hits(paths, width), Limits(retrieve_k=width, return_n=5, max_chunks_per_document=2)
    return calls_of(lambda: result_of(hits, widths))


def test_core_costs_a_dozen_calls_a_hit() -> None:
    """What a hit costs that is not shown: being read, identified, ranked and counted. It cost 12.4 once."""
    small, large = core_calls(4, 50), core_calls(8, 200)
    assert (large - small) / (8 * 200 - 4 * 50) < 14


def test_core_costs_little_beside_its_hits() -> None:
    """What a lookup costs whatever it finds, its five blocks included. It cost 162 calls once."""
    assert core_calls(2, 20) - 40 * 13 < 190


def resilient(search: KnowledgeSearchPort) -> ResilientSearch:
    """Put retries around a search, as the stage does."""
    policy = RetryPolicy(attempts=3, attempt_timeout_s=60)
    return ResilientSearch(
        search, Resilience(policy, CircuitBreaker(failure_threshold=5, probe_interval_s=60))
    )


async def test_answer_costs_few_calls() -> None:
    """From a record to those to publish, with a search that answers with one hit. It cost 208 calls once."""
    answerer = Answerer(
        LookupPipeline(resilient(InstantSearch()), None),
        rules=RequestRules(
            limits=limits(), max_width=200, budget=budget(), tenant_field=None, dimension=None
        ),
        topics=TopicSettings(),
        timeout_s=60,
    )
    record = consumed(orjson.dumps({"request_id": "r-1", "query": "q", "retrieve_k": 1, "return_n": 1}))
    await answerer.answer(record)
    with counted() as calls:
        answer = await answerer.answer(record)
    assert answer.status == "ok"
    assert calls.count < 235


class CountingSearch(InMemorySearch):
    """Counts the calls of the engine."""

    def __init__(self) -> None:
        super().__init__([Row(id=1, content="north", metadata={}, vector=(0.0, 1.0))])
        self.calls: list[int] = []

    async def search_many(
        self, queries: Sequence[SearchQuery], *, timeout_s: float
    ) -> Sequence[Sequence[SearchHit]]:
        """Answer after a turn of the event loop, as an engine does after some."""
        self.calls.append(len(queries))
        await asyncio.sleep(0)
        return await super().search_many(queries, timeout_s=timeout_s)


@pytest.mark.parametrize(("lookups", "calls"), [(1, 1), (64, 1), (128, 2), (1_000, 16)])
async def test_concurrent_lookups_share_calls(lookups: int, calls: int) -> None:
    """As few calls as hold them all, 64 searches each."""
    engine = CountingSearch()
    pipeline = LookupPipeline(resilient(CoalescingSearch(engine, max_batch_size=64, max_calls=16)), None)
    asked = [lookup(f"q{number}", vectors=((1.0, 0.0),)) for number in range(lookups)]
    answers = await asyncio.gather(*(pipeline.run(each, timeout_s=60) for each in asked))
    assert {answer.outcome.status for answer in answers} == {"ok"}
    assert (sum(engine.calls), len(engine.calls)) == (lookups, calls)
