"""A lookup against its ports: what is asked, what is waited for, and what comes of errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import permutations
from typing import Any

import orjson
import pytest

from pipeline.errors import SearchError, SearchRejected, SearchTimeout, SearchUnavailable
from pipeline.lookup import INTERNAL, Answered, LookupPipeline
from pipeline.model import Condition, Lookup, SearchHit, SearchQuery
from tests.builders import (
    EmbeddingReply,
    FakeEmbedder,
    FakeSearch,
    Hanging,
    answering,
    hit,
    limits,
    lookup,
    path,
    raising,
)

LONG_S = 60.0
"""No test waits for this long: it is the deadline where none is meant to pass."""

SHORT_S = 0.02
"""Tests wait for this long where a deadline is meant to pass."""

ERRORS = pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        pytest.param(SearchUnavailable("it is down"), "search_unavailable", "it is down", id="unavailable"),
        pytest.param(SearchTimeout("it gave up"), "search_timeout", "it gave up", id="timeout"),
        pytest.param(SearchRejected("bad filter"), "search_rejected", "bad filter", id="rejected"),
        pytest.param(RuntimeError("host-17 at 12:03"), "internal", INTERNAL.message, id="unknown"),
    ],
)


@pytest.fixture(autouse=True)
async def nothing_is_left_running() -> AsyncIterator[None]:
    """Fail a test that leaves a task behind."""
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()


async def run(
    asked: Lookup, search: FakeSearch, embedder: FakeEmbedder | None = None, *, timeout_s: float = LONG_S
) -> Answered:
    """Run a lookup, and fail a test in which it never returns."""
    async with asyncio.timeout(10):
        return await LookupPipeline(search, embedder).run(asked, timeout_s=timeout_s)


def errors(answered: Answered) -> list[tuple[str, str] | None]:
    """Return code and message of each path's error."""
    problems = [report.error for report in answered.outcome.paths]
    return [None if problem is None else (problem.code, problem.message) for problem in problems]


def found(answered: Answered) -> list[str]:
    """Return the evidence's ids."""
    return [item.document_id for item in answered.outcome.evidence]


async def answering_none(_query: SearchQuery) -> None:
    """Return the reply of a port that forgot its return statement."""


def both(embedding: EmbeddingReply) -> tuple[FakeSearch, FakeEmbedder]:
    """Return a search that finds something for "a" and for "b", and an embedder."""
    search = FakeSearch({"a": answering(hit("docA", 0)), "b": answering(hit("docB", 0))})
    return search, FakeEmbedder(embedding)


# What is asked


async def test_every_query_is_asked_with_width_and_conditions() -> None:
    """One search a query, each for `retrieve_k` hits under all conditions."""
    search, _ = both(answering())
    conditions = (Condition(field="tenant", any_of=("acme",)), Condition(field="lang", any_of=("de", "en")))
    answered = await run(lookup("a", "b", conditions=conditions, widths=limits(retrieve_k=7)), search)
    assert sorted(search.asked, key=lambda query: query.text) == [
        SearchQuery(text=text, vector=None, limit=7, conditions=conditions) for text in ("a", "b")
    ]
    assert [one.hits for one in answered.answers] == [
        path(hit("docA", 0), query=0),
        path(hit("docB", 0), query=1),
    ]
    assert answered.failures == ()
    assert found(answered) == ["docA#chunk-0", "docB#chunk-0"]


async def test_embeddings_go_to_their_queries() -> None:
    """All queries are embedded at once, and each search gets its own query's vector."""
    search, embedder = both(answering((1.0, 0.0), (0.0, 1.0)))
    await run(lookup("a", "b"), search, embedder)
    assert embedder.asked == [("a", "b")]
    assert {query.text: query.vector for query in search.asked} == {"a": (1.0, 0.0), "b": (0.0, 1.0)}


async def test_vectors_of_the_request_bypass_the_embedder() -> None:
    """A request that brings vectors is searched with them; nothing is embedded."""
    search, embedder = both(raising(AssertionError("embedded for nothing")))
    answered = await run(lookup("a", "b", vectors=((1.0, 0.0), (0.0, 1.0))), search, embedder)
    assert embedder.asked == []
    assert {query.text: query.vector for query in search.asked} == {"a": (1.0, 0.0), "b": (0.0, 1.0)}
    assert answered.outcome.status == "ok"


async def test_ports_are_told_how_long_they_have() -> None:
    """Embedding and searching share one deadline."""

    async def embed(_texts: Sequence[str]) -> Sequence[tuple[float, ...]]:
        await asyncio.sleep(SHORT_S)
        return [(1.0,), (2.0,)]

    search, embedder = both(embed)
    await run(lookup("a", "b"), search, embedder)
    [embedding_s] = embedder.timeouts_s
    assert LONG_S - 10 < embedding_s <= LONG_S
    assert all(LONG_S - 10 < searching_s < embedding_s for searching_s in search.timeouts_s)


async def test_searches_run_side_by_side() -> None:
    """Every query is being searched before the first has its answer."""
    barrier = asyncio.Barrier(3)

    async def reply(_query: SearchQuery) -> Sequence[SearchHit]:
        await barrier.wait()
        return ()

    answered = await run(lookup("a", "b", "c"), FakeSearch(dict.fromkeys("abc", reply)))
    assert answered.outcome.status == "empty"


async def test_order_of_arrival_changes_no_byte() -> None:
    """Whichever search answers first, second and third: outcome and answers are the same."""
    texts = "abc"
    seen = set()
    for order in permutations(range(3)):
        gates = [asyncio.Event() for _ in texts]
        done = [asyncio.Event() for _ in texts]

        async def reply(
            query: SearchQuery, gates: list[asyncio.Event] = gates, done: list[asyncio.Event] = done
        ) -> Sequence[SearchHit]:
            index = texts.index(query.text)
            await gates[index].wait()
            done[index].set()
            return [hit("docA", 0, content=query.text), hit(f"doc{query.text}", 0, content=query.text)]

        running = asyncio.create_task(run(lookup(*texts), FakeSearch(dict.fromkeys(texts, reply))))
        for index in order:
            gates[index].set()
            await done[index].wait()
        answered = await running
        seen.add((orjson.dumps(answered.outcome), orjson.dumps(answered.answers)))
    assert len(seen) == 1


# What comes of errors


@ERRORS
async def test_failed_path_does_not_touch_the_others(error: Exception, code: str, message: str) -> None:
    """One path's error is its own; the others' evidence is there."""
    search = FakeSearch({"a": raising(error), "b": answering(hit("docB", 0)), "c": answering()})
    answered = await run(lookup("a", "b", "c"), search)
    assert answered.outcome.status == "partial"
    assert answered.outcome.error is None
    assert errors(answered) == [(code, message), None, None]
    assert [report.hits for report in answered.outcome.paths] == [0, 1, 0]
    assert found(answered) == ["docB#chunk-0"]
    assert answered.failures == (error,)


@ERRORS
async def test_failed_lookup_has_the_first_paths_error(error: Exception, code: str, message: str) -> None:
    """Where every path failed, the first one says why; every exception is kept."""
    last = SearchUnavailable("it is down, too")
    search = FakeSearch({"a": raising(error), "b": raising(last)})
    answered = await run(lookup("a", "b"), search)
    assert answered.outcome.status == "failed"
    assert answered.outcome.evidence == ()
    assert answered.outcome.error == answered.outcome.paths[0].error
    assert errors(answered) == [(code, message), ("search_unavailable", "it is down, too")]
    assert answered.failures == (error, last)


async def test_search_that_never_answers_times_out() -> None:
    """At the deadline the silent search is called off, and what the others found is there."""
    silent = Hanging()
    search = FakeSearch({"a": silent, "b": answering(hit("docB", 0))})
    loop = asyncio.get_running_loop()
    begin = loop.time()
    answered = await run(lookup("a", "b"), search, timeout_s=SHORT_S)
    assert SHORT_S <= loop.time() - begin < 5
    assert silent.cancelled
    assert errors(answered) == [("search_timeout", "the search did not answer in time"), None]
    assert found(answered) == ["docB#chunk-0"]
    [error] = answered.failures
    assert isinstance(error, SearchTimeout)
    assert isinstance(error.__cause__, TimeoutError)


async def test_search_that_runs_into_a_timeout_of_its_own_times_out() -> None:
    """A client's bare `TimeoutError` means what it says."""
    cause = TimeoutError("read timed out")
    answered = await run(lookup("a"), FakeSearch({"a": raising(cause)}))
    assert errors(answered) == [("search_timeout", "the search did not answer in time")]
    assert answered.failures[0].__cause__ is cause


async def test_search_with_no_time_left_times_out() -> None:
    """A deadline that has passed before the search is not waited for."""
    silent = Hanging()
    search = FakeSearch({"a": silent})
    answered = await run(lookup("a"), search, timeout_s=-1.0)
    assert search.timeouts_s == [0.0]
    assert silent.cancelled
    assert answered.outcome.status == "failed"


async def test_search_that_returns_more_than_asked_fails() -> None:
    """A port that does not keep to its width is broken, and is not trusted for the rest."""
    surplus = [hit("docA", chunk) for chunk in range(3)]
    search = FakeSearch({"a": answering(*surplus), "b": answering(*surplus[:2])})
    answered = await run(lookup("a", "b", widths=limits(retrieve_k=2, return_n=2)), search)
    assert answered.outcome.status == "partial"
    assert errors(answered) == [("internal", "the search failed in an unforeseen way"), None]
    [error] = answered.failures
    assert str(error) == "the search port gave 3 hits where 2 were asked for"


@ERRORS
async def test_failed_embedder_fails_every_path(error: Exception, code: str, message: str) -> None:
    """Without vectors nothing is searched."""
    search, embedder = both(raising(error))
    answered = await run(lookup("a", "b"), search, embedder)
    assert search.asked == []
    assert answered.outcome.status == "failed"
    assert errors(answered) == [(code, message)] * 2
    assert set(answered.failures) == {error}


async def test_embedder_that_never_answers_times_out() -> None:
    """The embedder is called off at the deadline, and there is no search."""
    silent = Hanging()
    search, embedder = both(silent)
    answered = await run(lookup("a", "b"), search, embedder, timeout_s=SHORT_S)
    assert silent.cancelled
    assert search.asked == []
    assert answered.outcome.status == "failed"
    assert errors(answered) == [("search_timeout", "the embedder did not answer in time")] * 2
    assert isinstance(answered.failures[0].__cause__, TimeoutError)


async def test_failed_answers_hold_no_hits() -> None:
    """The answer of a failed path can be recorded and replayed like any other."""
    answered = await run(lookup("a"), FakeSearch({"a": raising(SearchUnavailable("it is down"))}))
    [answer] = answered.answers
    assert answer.hits == path(query=0)
    assert answer.error == answered.outcome.error


@pytest.mark.parametrize(
    ("error", "retryable"), [(SearchUnavailable, True), (SearchTimeout, True), (SearchRejected, False)]
)
def test_search_errors_say_whether_trying_again_may_help(
    error: type[SearchError], *, retryable: bool
) -> None:
    """What the engine refuses it will refuse again."""
    assert error.retryable is retryable


# Cancellation


async def test_cancelled_lookup_cancels_its_searches() -> None:
    """When a cancelled lookup has ended, so have its searches."""
    silent = [Hanging(), Hanging()]
    search = FakeSearch({"a": silent[0], "b": silent[1]})
    running = asyncio.create_task(run(lookup("a", "b"), search))
    for reply in silent:
        await reply.waiting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [reply.cancelled for reply in silent] == [True, True]


async def test_cancelled_lookup_cancels_its_embedding() -> None:
    """A lookup that is cancelled while it embeds searches nothing."""
    silent = Hanging()
    search, embedder = both(silent)
    running = asyncio.create_task(run(lookup("a", "b"), search, embedder))
    await silent.waiting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert silent.cancelled
    assert search.asked == []


# Ports that break their contract


@pytest.mark.parametrize(
    "vectors",
    [
        pytest.param([], id="none"),
        pytest.param([(1.0,)], id="too few"),
        pytest.param([(1.0,), (2.0,), (3.0,)], id="too many"),
    ],
)
async def test_embedder_that_returns_another_number_of_vectors_fails(
    vectors: Sequence[tuple[float, ...]],
) -> None:
    """No query may go unanswered because an embedder lost its vector."""
    search, embedder = both(answering(*vectors))
    answered = await run(lookup("a", "b"), search, embedder)
    assert errors(answered) == [("internal", INTERNAL.message)] * 2
    assert search.asked == []
    assert str(answered.failures[0]) == f"the embedder gave {len(vectors)} vectors for 2 texts"


async def test_search_that_returns_no_hits_object_fails() -> None:
    """A port that returns `None` fails its path, and takes nobody else's hits with it."""
    returns_none: Any = answering_none
    search = FakeSearch({"a": returns_none, "b": answering(hit("docB", 0))})
    answered = await run(lookup("a", "b"), search)
    assert errors(answered) == [("internal", INTERNAL.message), None]
    assert found(answered) == ["docB#chunk-0"]


async def test_search_that_was_cancelled_inside_the_port_fails() -> None:
    """A port that lost its own task fails its path, and cancels nobody else's."""
    search = FakeSearch({"a": raising(asyncio.CancelledError()), "b": answering(hit("docB", 0))})
    answered = await run(lookup("a", "b"), search)
    assert errors(answered) == [("internal", INTERNAL.message), None]
    assert found(answered) == ["docB#chunk-0"]
    assert [str(error) for error in answered.failures] == ["the port was cancelled from within"]


async def test_embedder_that_was_cancelled_inside_the_port_fails() -> None:
    """An embedder that lost its own task fails the lookup, and does not cancel it."""
    search, embedder = both(raising(asyncio.CancelledError()))
    answered = await run(lookup("a", "b"), search, embedder)
    assert errors(answered) == [("internal", INTERNAL.message)] * 2
    assert search.asked == []
