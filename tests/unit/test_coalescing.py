"""Searches that share calls: who goes together, who waits, and who does not suffer for others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar

import pytest

from pipeline.adapters import resilient as resilient_module
from pipeline.adapters.coalescing import MAX_HITS, CoalescingEmbedder, CoalescingSearch, coalescing
from pipeline.adapters.resilient import Resilience, ResilientSearch, RetryPolicy
from pipeline.circuit import CircuitBreaker
from pipeline.coalescer import CALLS_OF_ONE_GROUP
from pipeline.errors import SearchError, SearchFailed, SearchRejected, SearchTimeout, SearchUnavailable
from pipeline.model import Condition, SearchHit, SearchQuery, Vector
from pipeline.probing import Probe
from tests.builders import FakeEmbedder, FakeSearch, answering, hit

LONG_S = 60.0
SHORT_S = 0.05


def asking(text: str, *conditions: Condition, limit: int = 5) -> SearchQuery:
    """Return a query."""
    return SearchQuery(text=text, vector=None, limit=limit, conditions=conditions)


def found(text: str) -> list[SearchHit]:
    """Return the hits of a text."""
    return [hit(content=text)]


class BatchSearch:
    """A search that answers many queries in one call, once it is let.

    Attributes:
        calls: The texts of every call.
        timeouts_s: The seconds that each call was given.
        cancelled: How many calls were cancelled.
        open: Calls are answered while it is set.
        errors: What to raise when a text is in a call.
    """

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.timeouts_s: list[float] = []
        self.cancelled = 0
        self.open = asyncio.Event()
        self.open.set()
        self.errors: dict[str, BaseException] = {}
        self.arrived = asyncio.Condition()

    async def start(self) -> None:
        """Do nothing: there is nothing to connect to."""

    async def close(self) -> None:
        """Do nothing: nothing is held."""

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Be not how it is asked."""
        raise NotImplementedError

    async def search_many(
        self, queries: Sequence[SearchQuery], *, timeout_s: float
    ) -> Sequence[Sequence[SearchHit]]:
        """Answer with the texts."""
        texts = [query.text for query in queries]
        self.calls.append(texts)
        self.timeouts_s.append(timeout_s)
        async with self.arrived:
            self.arrived.notify_all()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        for text in texts:
            if text in self.errors:
                raise self.errors[text]
        return [found(text) for text in texts]

    async def has_calls(self, count: int) -> None:
        """Wait until so many calls have come."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.calls) >= count)


@pytest.fixture
def engine() -> BatchSearch:
    """Return the engine."""
    return BatchSearch()


@pytest.fixture
def search(engine: BatchSearch) -> CoalescingSearch:
    """Return the search over it."""
    return CoalescingSearch(engine, max_batch_size=8, max_calls=4)


def asked(search: CoalescingSearch, *texts: str) -> list[asyncio.Task[Sequence[SearchHit]]]:
    """Ask for texts, each in a task of its own."""
    return [asyncio.create_task(search.search(asking(text), timeout_s=LONG_S)) for text in texts]


async def taken(engine: BatchSearch, search: CoalescingSearch) -> list[asyncio.Task[Sequence[SearchHit]]]:
    """Accept both calls that a group may have, and let neither end."""
    engine.open.clear()
    first = asked(search, "first")
    await engine.has_calls(1)
    second = asked(search, "second")
    await engine.has_calls(2)
    return first + second


# Who goes together


async def test_what_is_asked_at_once_is_one_call(engine: BatchSearch, search: CoalescingSearch) -> None:
    """Everybody gets the hits of the own query."""
    answers = await asyncio.gather(*asked(search, "a", "b", "c"))
    assert answers == [found("a"), found("b"), found("c")]
    assert engine.calls == [["a", "b", "c"]]


async def test_nothing_waits_when_nothing_is_out(engine: BatchSearch, search: CoalescingSearch) -> None:
    """A search alone is asked at once, alone."""
    for text in ("a", "b"):
        assert await search.search(asking(text), timeout_s=LONG_S) == found(text)
    assert engine.calls == [["a"], ["b"]]


async def test_what_arrives_while_calls_are_out_goes_together(
    engine: BatchSearch, search: CoalescingSearch
) -> None:
    """The next call takes all that has come meanwhile."""
    tasks = await taken(engine, search)
    for text in ("a", "b", "c"):
        tasks += asked(search, text)
        await asyncio.sleep(0)
    engine.open.set()
    await asyncio.gather(*tasks)
    assert engine.calls == [["first"], ["second"], ["a", "b", "c"]]


async def test_no_call_is_larger_than_allowed(engine: BatchSearch, search: CoalescingSearch) -> None:
    """What does not fit goes in the next call."""
    await asyncio.gather(*asked(search, *map(str, range(20))))
    assert [len(call) for call in engine.calls] == [8, 8, 4]


async def test_wide_searches_go_in_smaller_calls(engine: BatchSearch) -> None:
    """A call brings no more hits than a message should hold; one search always goes."""
    search = CoalescingSearch(engine, max_batch_size=8, max_calls=4)
    for limit, sizes in ((MAX_HITS // 2, [2, 2]), (MAX_HITS * 2, [1, 1, 1, 1])):
        engine.calls.clear()
        queries = [asking(str(number), limit=limit) for number in range(4)]
        await asyncio.gather(*(search.search(query, timeout_s=LONG_S) for query in queries))
        assert [len(call) for call in engine.calls] == sizes


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(asking("b", limit=6), id="another width"),
        pytest.param(asking("b", Condition(field="x", any_of=(1,))), id="a condition"),
    ],
)
async def test_only_like_searches_share_a_call(
    engine: BatchSearch, search: CoalescingSearch, other: SearchQuery
) -> None:
    """Another width and another filter are another call."""
    await asyncio.gather(*(search.search(query, timeout_s=LONG_S) for query in (asking("a"), other)))
    assert engine.calls == [["a"], ["b"]]


async def test_values_that_python_takes_for_equal_are_other_filters(
    engine: BatchSearch, search: CoalescingSearch
) -> None:
    """`True` is not 1: these must not get one another's hits."""
    queries = [asking(str(value), Condition(field="x", any_of=(value,))) for value in (1, True)]
    await asyncio.gather(*(search.search(query, timeout_s=LONG_S) for query in queries))
    assert engine.calls == [["1"], ["True"]]


# Bounds


async def test_one_group_has_two_calls_out(engine: BatchSearch, search: CoalescingSearch) -> None:
    """More would only make each of them smaller."""
    tasks = await taken(engine, search) + asked(search, "third")
    await asyncio.sleep(0.01)
    assert len(engine.calls) == CALLS_OF_ONE_GROUP
    engine.open.set()
    await asyncio.gather(*tasks)


async def test_calls_of_all_groups_are_bounded(engine: BatchSearch, search: CoalescingSearch) -> None:
    """Groups wait for one another once there are as many calls as allowed, and each gets its turn."""
    engine.open.clear()
    tasks = [
        asyncio.create_task(search.search(asking(f"{limit}", limit=limit), timeout_s=LONG_S))
        for limit in range(1, 11)
    ]
    await engine.has_calls(4)
    await asyncio.sleep(0.01)
    assert len(engine.calls) == 4
    engine.open.set()
    await asyncio.gather(*tasks)
    assert sorted(len(call) for call in engine.calls) == [1] * 10


async def test_slow_group_does_not_delay_another(engine: BatchSearch, search: CoalescingSearch) -> None:
    """While one group's calls hang and more of it waits, another's search is asked at once."""
    hanging = await taken(engine, search) + asked(search, "third", "fourth")
    other = asyncio.create_task(search.search(asking("other", limit=1), timeout_s=LONG_S))
    await engine.has_calls(3)
    assert engine.calls[-1] == ["other"]
    engine.open.set()
    await asyncio.gather(other, *hanging)


# Failures


async def test_refused_search_fails_alone(engine: BatchSearch, search: CoalescingSearch) -> None:
    """The call is asked again in halves; the neighbours get their hits."""
    engine.errors["bad"] = SearchRejected("a bad vector")
    good = asked(search, "a", "b", "c")
    [bad] = asked(search, "bad")
    assert await asyncio.gather(*good) == [found("a"), found("b"), found("c")]
    with pytest.raises(SearchRejected, match="a bad vector"):
        await bad
    assert len(engine.calls) == 5


async def test_unforeseen_error_fails_alone(engine: BatchSearch, search: CoalescingSearch) -> None:
    """A port that trips over one query does not take the others along."""
    engine.errors["odd"] = KeyError("odd")
    good, odd = asked(search, "a", "odd")
    assert await good == found("a")
    with pytest.raises(KeyError):
        await odd


@pytest.mark.parametrize("error", [SearchUnavailable("down"), SearchTimeout("slow")])
async def test_unavailable_engine_fails_everybody_in_the_call(
    engine: BatchSearch, search: CoalescingSearch, error: SearchError
) -> None:
    """Nobody is asked again here: that is for the retries; each has an error of its own for one call."""
    engine.errors["a"] = error
    failures = await asyncio.gather(*asked(search, "a", "b"), return_exceptions=True)
    first, second = (each for each in failures if isinstance(each, SearchError))
    assert type(first) is type(second) is type(error)
    assert first is not second
    assert first.call is second.call is not None
    assert engine.calls == [["a", "b"]]


def probing(engine: BatchSearch, *, up: bool) -> CoalescingSearch:
    """Return a search over an engine that answers its probes, or does not."""

    async def probe(_left: float) -> None:
        if not up:
            raise SearchUnavailable("down")

    return CoalescingSearch(engine, max_batch_size=8, max_calls=4, probe=Probe(probe, timeout_s=LONG_S))


async def test_failure_that_may_be_a_refusal_is_found_while_the_engine_answers(engine: BatchSearch) -> None:
    """The call is asked again in halves; only the question that fails alone gets the error."""
    engine.errors["odd"] = SearchFailed.maybe_refused("the engine failed", "refused: odd")
    *good, odd = asked(probing(engine, up=True), "a", "b", "c", "odd")
    assert await asyncio.gather(*good) == [found("a"), found("b"), found("c")]
    with pytest.raises(SearchFailed) as raised:
        await odd
    assert raised.value.refusal == "refused: odd"


@pytest.mark.parametrize(
    ("error", "up"),
    [
        (SearchFailed.maybe_refused("the engine failed", "refused"), False),
        (SearchFailed("bad gateway"), True),
        (SearchTimeout("slow"), True),
        (SearchUnavailable("unreachable"), True),
    ],
)
async def test_failure_that_is_no_refusal_is_everybodys(
    engine: BatchSearch,
    error: SearchError,
    up: bool,  # noqa: FBT001
) -> None:
    """An engine in trouble is not asked again for each of its questions, and nothing of the error is lost."""
    engine.errors["a"] = error
    failures = await asyncio.gather(*asked(probing(engine, up=up), "a", "b"), return_exceptions=True)
    assert [type(each) for each in failures] == [type(error)] * 2
    assert [str(each) for each in failures] == [str(error)] * 2
    assert {getattr(each, "refusal", None) for each in failures} == {getattr(error, "refusal", None)}
    assert engine.calls == [["a", "b"]]


async def test_time_that_the_engine_names_reaches_everybody(
    engine: BatchSearch, search: CoalescingSearch
) -> None:
    """Each caller's retries wait for it."""
    engine.errors["a"] = SearchUnavailable("overloaded")
    engine.errors["a"].retry_after_s = 7.0  # type: ignore[attr-defined]
    failures = await asyncio.gather(*asked(search, "a", "b"), return_exceptions=True)
    assert [getattr(each, "retry_after_s", None) for each in failures] == [7.0, 7.0]


async def test_wrong_number_of_answers_is_nobodys_hits(search: CoalescingSearch) -> None:
    """Answers that cannot be told apart are given to nobody."""

    class Short(BatchSearch):
        async def search_many(
            self, queries: Sequence[SearchQuery], *, timeout_s: float
        ) -> Sequence[Sequence[SearchHit]]:
            return (await super().search_many(queries, timeout_s=timeout_s))[1:]

    search = CoalescingSearch(Short(), max_batch_size=8, max_calls=4)
    with pytest.raises(ValueError, match="0 answers to 1 questions"):
        await search.search(asking("a"), timeout_s=LONG_S)


async def test_port_that_cancels_itself_is_an_error(engine: BatchSearch, search: CoalescingSearch) -> None:
    """Nobody waits for ever for a call that ended without an answer."""
    engine.errors["a"] = asyncio.CancelledError()
    with pytest.raises(RuntimeError, match="cancelled from within"):
        await search.search(asking("a"), timeout_s=LONG_S)


# Deadlines and cancellation


async def test_call_has_the_time_of_its_most_patient_caller(
    engine: BatchSearch, search: CoalescingSearch
) -> None:
    """Who has less time leaves by itself; the others' hits come."""
    engine.open.clear()
    patient = asyncio.create_task(search.search(asking("patient"), timeout_s=LONG_S))
    hasty = asyncio.create_task(search.search(asking("hasty"), timeout_s=SHORT_S))
    await engine.has_calls(1)
    assert SHORT_S < engine.timeouts_s[0] <= LONG_S
    hasty.cancel()
    await asyncio.wait([hasty])
    assert hasty.cancelled()
    engine.open.set()
    assert await patient == found("patient")
    assert engine.cancelled == 0


async def test_call_ends_when_its_time_is_over(engine: BatchSearch, search: CoalescingSearch) -> None:
    """Also where the port does not keep its time."""
    engine.open.clear()
    with pytest.raises(SearchTimeout):
        await search.search(asking("a"), timeout_s=SHORT_S)
    assert engine.cancelled == 1


async def test_call_is_cancelled_when_all_its_callers_have_left(
    engine: BatchSearch, search: CoalescingSearch
) -> None:
    """The engine does not work for nobody, and the place is free again."""
    engine.open.clear()
    for task in (tasks := asked(search, "a", "b")):
        await engine.has_calls(1)
        task.cancel()
    await asyncio.wait(tasks)
    engine.open.set()
    assert await search.search(asking("c"), timeout_s=LONG_S) == found("c")
    assert engine.cancelled == 1


async def test_who_leaves_while_waiting_is_not_asked_for(
    engine: BatchSearch, search: CoalescingSearch
) -> None:
    """What nobody wants any more does not go into the next call; a call of nothing is not made."""
    tasks = await taken(engine, search)
    gone = asked(search, "gone")
    await asyncio.sleep(0)
    gone[0].cancel()
    await asyncio.wait(gone)
    engine.open.set()
    await asyncio.gather(*tasks)
    assert await search.search(asking("last"), timeout_s=LONG_S) == found("last")
    assert engine.calls == [["first"], ["second"], ["last"]]


# Beside retries and circuit


def resilient(engine: BatchSearch, *, failures: int) -> tuple[ResilientSearch, CircuitBreaker]:
    """Return the search as the stage has it, and its circuit."""
    circuit = CircuitBreaker(failure_threshold=failures, probe_interval_s=LONG_S)
    policy = RetryPolicy(attempts=2, attempt_timeout_s=LONG_S, first_wait_s=0.001, longest_wait_s=0.002)
    shared = CoalescingSearch(engine, max_batch_size=8, max_calls=4)
    return ResilientSearch(shared, Resilience(policy, circuit)), circuit


async def test_call_that_fails_once_counts_once_for_the_circuit(engine: BatchSearch) -> None:
    """However many shared it, one failed call is one failure: each lookup asks again and is answered."""
    search, circuit = resilient(engine, failures=2)
    engine.errors["a"] = SearchUnavailable("down")
    tasks = [
        asyncio.create_task(search.search(asking(text), timeout_s=LONG_S)) for text in ("a", "b", "c", "d")
    ]
    await engine.has_calls(1)
    engine.errors.clear()
    engine.open.set()
    assert await asyncio.gather(*tasks) == [found(text) for text in ("a", "b", "c", "d")]
    assert circuit.state == "closed"


async def test_slow_call_counts_once_for_the_circuit(
    engine: BatchSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call's own time is over before its callers', so that they fail with it, not one by one."""
    monkeypatch.setattr(resilient_module, "GRACE_S", LONG_S)
    circuit = CircuitBreaker(failure_threshold=2, probe_interval_s=LONG_S)
    policy = RetryPolicy(attempts=1, attempt_timeout_s=SHORT_S)
    shared = CoalescingSearch(engine, max_batch_size=8, max_calls=4)
    search = ResilientSearch(shared, Resilience(policy, circuit))
    engine.open.clear()
    failures = await asyncio.gather(
        *(search.search(asking(text), timeout_s=LONG_S) for text in ("a", "b", "c")), return_exceptions=True
    )
    assert [type(each) for each in failures] == [SearchTimeout] * 3
    assert circuit.state == "closed"


async def test_calls_that_fail_in_a_row_open_the_circuit(engine: BatchSearch) -> None:
    """Calls count as searches did."""
    search, circuit = resilient(engine, failures=2)
    engine.errors["a"] = SearchUnavailable("down")
    with pytest.raises(SearchUnavailable):
        await search.search(asking("a"), timeout_s=LONG_S)
    assert circuit.state == "open"


# Ports


async def test_port_that_takes_one_at_a_time_is_left_as_it_is() -> None:
    """There is nothing to join."""
    port = FakeSearch({"a": answering(hit())})
    assert coalescing(port, max_batch_size=8, max_calls=4) is port


async def test_texts_of_many_callers_are_embedded_together() -> None:
    """Each gets the vectors of the own texts, in order."""

    async def lengths(texts: Sequence[str]) -> Sequence[Vector]:
        return [(float(len(text)),) for text in texts]

    inner = FakeEmbedder(lengths)
    embedder = CoalescingEmbedder(inner, max_batch_size=4, max_calls=4)
    one, other = await asyncio.gather(
        embedder.embed(["a", "bb"], timeout_s=LONG_S), embedder.embed(["ccc"], timeout_s=LONG_S)
    )
    assert (one, other) == ([(1.0,), (2.0,)], [(3.0,)])
    assert inner.asked == [("a", "bb", "ccc")]
    assert embedder.dimension == inner.dimension


async def test_call_is_about_no_one_request() -> None:
    """What the first caller's task knows of its request, for its log lines, does not go into the call."""
    request: ContextVar[str | None] = ContextVar("request", default=None)
    seen: list[str | None] = []

    async def embed(texts: Sequence[str]) -> Sequence[Vector]:
        seen.append(request.get())
        return [(1.0,) for _ in texts]

    request.set("r-1")
    embedder = CoalescingEmbedder(FakeEmbedder(embed), max_batch_size=8, max_calls=4)
    await embedder.embed(["a"], timeout_s=LONG_S)
    assert seen == [None]
