"""What the engine's failures become: which error, in which words, and after how many attempts."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from pymilvus import exceptions as vendor
from pymilvus.grpc_gen import common_pb2

from pipeline.adapters import milvus_dense
from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.adapters.milvus_dense import MilvusDenseSearch
from pipeline.adapters.milvus_errors import explain, is_classified, search_error
from pipeline.errors import SearchError, SearchFailed, SearchRejected, SearchTimeout, SearchUnavailable
from pipeline.testing.search_port import TIMEOUT_S, asking
from tests.adapters.fake_milvus import FakeMilvus, fake_milvus
from tests.adapters.milvus import refusal

UNREACHABLE = "the search engine cannot be reached"
FAILED = "the search engine failed"
OVERLOADED = "the search engine is overloaded"
NO_ACCESS = "the search engine refuses the token, or its rights"
NOT_LOADED = "the collection is not loaded"
MISSING = "the collection does not exist"
TIMED_OUT = "the search did not answer in time"
BAD_FILTER = "the search engine refused the query: invalid filter"
BAD_QUERY = "the search engine refused the query: invalid parameters"

VENDOR_CLASSES = [
    kind for _, kind in inspect.getmembers(vendor, inspect.isclass) if issubclass(kind, Exception)
]


@pytest.fixture
async def fake() -> AsyncIterator[FakeMilvus]:
    """Yield an engine that fails on demand."""
    async with fake_milvus() as fake:
        yield fake


@pytest.fixture
async def port(fake: FakeMilvus) -> AsyncIterator[MilvusDenseSearch]:
    """Yield a started port over it."""
    port = MilvusDenseSearch(MilvusCollection(uri=fake.uri, collection="any"))
    await port.start()
    fake.searches = 0  # that of the start does not count
    fake.arrived.clear()
    yield port
    await port.close()


async def failure_of(port: MilvusDenseSearch, *, timeout_s: float = TIMEOUT_S) -> SearchError:
    """Return the error of a search."""
    with pytest.raises(SearchError) as caught:
        await port.search(asking(), timeout_s=timeout_s)
    return caught.value


def described(error: SearchError) -> tuple[type[SearchError], str]:
    """Return an error's class and words, without the reason that a refusal has after them."""
    message = str(error)
    if isinstance(error, SearchRejected):
        message = message.removesuffix(message.partition(": ")[2].partition(": ")[2]).rstrip(": ")
    return type(error), message


@pytest.mark.parametrize("kind", VENDOR_CLASSES)
def test_every_exception_of_the_client_has_been_thought_about(kind: type[Any]) -> None:
    """A client that raises something new fails here, until somebody decides what it means."""
    assert is_classified(kind)
    error = search_error(kind(message="host-7 said no"))
    assert isinstance(error, SearchError)
    assert "host-7" not in str(error) + str(getattr(error, "refusal", ""))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (vendor.ConnectError, (SearchUnavailable, UNREACHABLE)),
        (vendor.CollectionNotExistException, (SearchUnavailable, MISSING)),
        (vendor.ParamError, (SearchRejected, BAD_QUERY)),
        (vendor.MilvusException, (SearchFailed, FAILED)),
    ],
)
def test_class_decides_where_it_says_something(
    kind: type[Any], expected: tuple[type[SearchError], str]
) -> None:
    """What the client raises itself carries no code of the engine's."""
    assert described(search_error(kind(message="whatever"))) == expected


@pytest.mark.parametrize("status", [each for each in grpc.StatusCode if each is not grpc.StatusCode.OK])
async def test_failure_of_the_protocol(
    fake: FakeMilvus, port: MilvusDenseSearch, status: grpc.StatusCode
) -> None:
    """Each status ends the search at once, in words without hosts and times; the cause has the engine's."""
    expected = {
        grpc.StatusCode.UNAVAILABLE: (SearchUnavailable, UNREACHABLE),
        grpc.StatusCode.DEADLINE_EXCEEDED: (SearchTimeout, TIMED_OUT),
        grpc.StatusCode.UNAUTHENTICATED: (SearchUnavailable, NO_ACCESS),
        grpc.StatusCode.PERMISSION_DENIED: (SearchUnavailable, NO_ACCESS),
        grpc.StatusCode.RESOURCE_EXHAUSTED: (SearchUnavailable, OVERLOADED),
        grpc.StatusCode.INVALID_ARGUMENT: (SearchRejected, BAD_QUERY),
        grpc.StatusCode.OUT_OF_RANGE: (SearchRejected, BAD_QUERY),
    }.get(status, (SearchFailed, FAILED))
    fake.fails_with = status
    error = await failure_of(port)
    assert described(error) == expected
    assert "host-7" in str(error.__cause__)
    assert fake.searches == 1


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ((2, 1, "service unavailable"), (SearchUnavailable, UNREACHABLE)),
        ((3, 1, "memory limit exceeded"), (SearchUnavailable, OVERLOADED)),
        ((8, 49, "rate limit exceeded[rate=10]"), (SearchUnavailable, OVERLOADED)),
        ((9, 48, "quota exceeded"), (SearchUnavailable, OVERLOADED)),
        ((100, 4, "collection not found[collection=kb]"), (SearchUnavailable, MISSING)),
        ((101, 1, "collection not loaded[collection=4711]"), (SearchUnavailable, NOT_LOADED)),
        ((101, 101, "Collection 'kb' is in state 'released'"), (SearchUnavailable, NOT_LOADED)),
        ((103, 1, "collection not fully loaded"), (SearchUnavailable, NOT_LOADED)),
        ((800, 1, "database not found"), (SearchUnavailable, MISSING)),
        ((1401, 1, "privilege not permitted"), (SearchUnavailable, NO_ACCESS)),
        ((10001, 1, "context deadline exceeded"), (SearchTimeout, TIMED_OUT)),
        ((65535, 1, "fail to search on QueryNode 3: worker(1) query failed"), (SearchFailed, FAILED)),
        (
            (65535, 1, "failed to create query plan: cannot parse expression: a ==, error: x"),
            (SearchRejected, BAD_FILTER),
        ),
        ((65535, 1, "topk [9] is invalid, top k should be in range [1, 8]"), (SearchRejected, BAD_QUERY)),
        ((65535, 1, "nq [9] is invalid, nq should be in range [1, 8]"), (SearchRejected, BAD_QUERY)),
        (
            (65535, 1, "out of range in json: ef(16) should be larger than k(20)"),
            (SearchRejected, BAD_QUERY),
        ),
        ((65535, 1, "invalid value in json: stoi"), (SearchRejected, BAD_QUERY)),
        ((65535, 1, "type conflict in json: param ef should be integer"), (SearchRejected, BAD_QUERY)),
        ((65535, 1, "range_filter must be greater than radius"), (SearchRejected, BAD_QUERY)),
        ((65535, 1, "metric type not match: invalid parameter"), (SearchRejected, BAD_QUERY)),
        ((65535, 1, "vector dimension mismatch"), (SearchRejected, BAD_QUERY)),
        ((65535, 1, "failed to create query plan: field(x) not found"), (SearchRejected, BAD_QUERY)),
        ((1, 0, "Function 'equal' has no kernel matching input types (x, y)"), (SearchRejected, BAD_FILTER)),
        (
            (1100, 5, "failed to create query plan: cannot parse expression: a =="),
            (SearchRejected, BAD_FILTER),
        ),
        ((1100, 5, "vector dimension mismatch, expected 4"), (SearchRejected, BAD_QUERY)),
        ((6, 6, "unexpected end of expression at column 9\n  a ==\n     ^"), (SearchRejected, BAD_FILTER)),
        ((6, 6, "anns_field 'nope' not found in schema"), (SearchRejected, BAD_QUERY)),
        ((6, 1, "cross cluster routing"), (SearchFailed, FAILED)),
        ((1, 0, "matmul: mismatch"), (SearchFailed, FAILED)),
    ],
)
async def test_failure_that_the_engine_answers(
    fake: FakeMilvus,
    port: MilvusDenseSearch,
    sent: tuple[int, int, str],
    expected: tuple[type[SearchError], str],
) -> None:
    """Each code, as Milvus 2.3, newer servers and Milvus Lite send them, is asked for once and told apart."""
    code, legacy, reason = sent
    fake.status = common_pb2.Status(code=code, error_code=legacy, reason=reason)
    error = await failure_of(port)
    assert described(error) == expected
    assert reason in str(error.__cause__)
    assert fake.searches == 1


async def test_refusal_that_the_engine_declares(fake: FakeMilvus, port: MilvusDenseSearch) -> None:
    """Newer servers say themselves that the question is at fault, whatever the code."""
    fake.status = common_pb2.Status(code=2000, reason="segcore", extra_info={"is_input_error": "true"})
    assert described(await failure_of(port)) == (SearchRejected, BAD_QUERY)


async def test_refusal_is_told_with_the_engines_reason(fake: FakeMilvus, port: MilvusDenseSearch) -> None:
    """The components on the way, their numbers and the filter are left out: each asking says the same."""
    reason = (
        "failed to search/query delegator 1 for channel by-dev-rootcoord-dml_8_470835886659092128v0: fail to"
        " Search, QueryNode ID=1, reason=worker(1) query failed:  => failed to search: out of range in json:"
        " ef(16) should be larger than k(20): service internal error: UnknownError"
    )
    fake.status = common_pb2.Status(code=65535, error_code=1, reason=reason)
    error = await failure_of(port)
    assert str(error) == f"{BAD_QUERY}: out of range in json: ef(16) should be larger than k(20)"


async def test_failure_that_is_not_known_may_be_a_refusal(fake: FakeMilvus, port: MilvusDenseSearch) -> None:
    """It has the engine's reason for the case that the question is at fault, and the plain words else."""
    fake.status = common_pb2.Status(code=1, error_code=0, reason="matmul: mismatch\n  of shapes")
    error = await failure_of(port)
    assert isinstance(error, SearchFailed)
    assert (str(error), error.refusal) == (FAILED, "the search engine refused the query: matmul: mismatch")


async def test_answer_that_is_too_large_is_a_refusal(fake: FakeMilvus, port: MilvusDenseSearch) -> None:
    """Narrower searches would fit, so the engine is not down."""
    fake.fails_with = grpc.StatusCode.RESOURCE_EXHAUSTED
    fake.details = "Received message larger than max (73400320 vs. 67108864)"
    assert described(await failure_of(port)) == (SearchRejected, BAD_QUERY)


async def test_token_is_not_told(fake: FakeMilvus) -> None:
    """Not even where the engine repeats it in a refusal."""
    port = MilvusDenseSearch(MilvusCollection(uri=fake.uri, collection="any", token="agent:hush-1"))
    await port.start()
    fake.status = common_pb2.Status(code=1100, reason="agent:hush-1 with hush-1 asks for too much")
    error = await failure_of(port)
    await port.close()
    assert str(error) == f"{BAD_QUERY}: with … asks for too much"


async def test_probe_is_a_search_without_a_filter(fake: FakeMilvus, port: MilvusDenseSearch) -> None:
    """It is answered when the engine searches, and raises what any search would."""
    await port.probe(timeout_s=TIMEOUT_S)
    assert fake.searches == 1
    fake.fails_with = grpc.StatusCode.INTERNAL
    with pytest.raises(SearchFailed):
        await port.probe(timeout_s=TIMEOUT_S)


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL])
async def test_engine_that_cannot_search_at_the_start_does_not_stop_it(
    fake: FakeMilvus, status: grpc.StatusCode
) -> None:
    """It may be on its way up, and the circuit deals with that."""
    fake.fails_with = status
    port = MilvusDenseSearch(MilvusCollection(uri=fake.uri, collection="any"))
    await port.start()
    assert await port.refusal_of_width(20, timeout_s=TIMEOUT_S) is None
    await port.close()


async def test_engine_that_is_slow_at_the_start_does_not_stop_it(
    fake: FakeMilvus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search only finds out whether the search parameters are taken."""
    monkeypatch.setattr(milvus_dense, "FIRST_SEARCH_TIMEOUT_S", 0.05)
    fake.hangs = ("Search",)
    port = MilvusDenseSearch(MilvusCollection(uri=fake.uri, collection="any"))
    await port.start()
    await port.close()


async def test_search_that_is_not_answered_times_out(fake: FakeMilvus, port: MilvusDenseSearch) -> None:
    """The port keeps its time, and the engine learns that nobody waits any more."""
    fake.hangs = ("Search",)
    assert described(await failure_of(port, timeout_s=0.1)) == (SearchTimeout, TIMED_OUT)
    async with asyncio.timeout(5.0):
        await fake.given_up.wait()
    assert fake.searches == 1


async def test_start_that_is_not_answered_is_given_up(
    fake: FakeMilvus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that connects and says no more must not keep the stage from saying so."""
    monkeypatch.setattr(milvus_dense, "START_TIMEOUT_S", 0.2)
    fake.hangs = ("DescribeCollection",)
    line = await refusal(MilvusCollection(uri=fake.uri, collection="any"))
    assert line == f"Milvus at {fake.uri}: not ready to search within 0.2 s"


async def test_index_with_another_metric_stops_the_start(fake: FakeMilvus) -> None:
    """Of a metric that is not known nobody can say whether more is better."""
    fake.metric = "JACCARD"
    line = await refusal(MilvusCollection(uri=fake.uri, collection="any"))
    assert line == (
        "collection any: the index of field vector has metric JACCARD, must be one of COSINE, IP, L2"
    )


async def test_cancelled_search_is_given_up(fake: FakeMilvus, port: MilvusDenseSearch) -> None:
    """Cancellation is passed on, not turned into an error."""
    fake.hangs = ("Search",)
    searching = asyncio.ensure_future(port.search(asking(), timeout_s=TIMEOUT_S))
    await fake.arrived.wait()
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    async with asyncio.timeout(5.0):
        await fake.given_up.wait()


async def test_port_works_again_after_a_failure(fake: FakeMilvus, port: MilvusDenseSearch) -> None:
    """A failure leaves nothing behind."""
    for status in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL):
        fake.fails_with = status
        await failure_of(port)
        fake.fails_with = None
        assert await port.search(asking(), timeout_s=TIMEOUT_S) == []


async def test_failures_are_not_written_to_the_console(
    fake: FakeMilvus, port: MilvusDenseSearch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The client would write each with its traceback; whoever handles the error decides on that."""
    fake.status = common_pb2.Status(code=1100, reason="no")
    await failure_of(port)
    fake.fails_with = grpc.StatusCode.UNAVAILABLE
    await failure_of(port)
    assert capfd.readouterr() == ("", "")
    assert not logging.getLogger("pymilvus.decorators").isEnabledFor(logging.ERROR)


def test_explanation_is_one_line_with_the_engines_words() -> None:
    """Whoever starts the stage is told what the engine said, where that adds something."""
    error = vendor.MilvusException(code=65535, message="first line\n  second line")
    assert explain(error) == f"{FAILED}: first line second line"
    assert explain(vendor.MilvusException(code=101, message="[collection=4711]")) == NOT_LOADED
