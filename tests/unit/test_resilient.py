"""Retries by class of error, inside the time that is left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pipeline.adapters.resilient import Resilience, ResilientEmbedder, ResilientSearch, RetryPolicy
from pipeline.circuit import CircuitBreaker, CircuitOpen
from pipeline.errors import SearchError, SearchRejected, SearchTimeout, SearchUnavailable
from pipeline.model import SearchHit, SearchQuery, Vector
from tests.builders import FakeEmbedder, FakeSearch, hit

QUERY = SearchQuery(text="q", vector=None, limit=1)


class Asked:
    """Answers call after call as it is told, and keeps what time each was given."""

    def __init__(self, *replies: object) -> None:
        """Initialize with the replies; an exception is raised, HANG never comes."""
        self.replies = list(replies)
        self.times: list[float] = []

    async def __call__(self, left: float) -> object:
        """Return the next reply."""
        self.times.append(left)
        reply = self.replies.pop(0)
        if reply is HANG:
            await asyncio.Event().wait()
        if isinstance(reply, BaseException):
            raise reply
        return reply


HANG = object()


def resilience(
    *, attempts: int = 3, attempt_timeout_s: float = 60.0, failure_threshold: int = 100
) -> tuple[Resilience, CircuitBreaker]:
    """Make a caller that hardly waits between tries, and its circuit."""
    circuit = CircuitBreaker(failure_threshold=failure_threshold, probe_interval_s=3_600)
    policy = RetryPolicy(
        attempts=attempts, attempt_timeout_s=attempt_timeout_s, first_wait_s=0.001, longest_wait_s=0.002
    )
    return Resilience(policy, circuit), circuit


@pytest.mark.parametrize("error", [SearchUnavailable("down"), SearchTimeout("slow"), TimeoutError()])
async def test_unavailability_and_timeouts_are_asked_again(error: Exception) -> None:
    """What may pass is tried again, and the answer counts."""
    ask = Asked(error, "answer")
    caller, circuit = resilience()
    assert await caller.call(ask, timeout_s=60) == "answer"
    assert len(ask.times) == 2
    assert circuit.state == "closed"


@pytest.mark.parametrize("error", [SearchRejected("bad filter"), KeyError("unforeseen")])
async def test_rejections_and_unforeseen_errors_are_not_asked_again(error: Exception) -> None:
    """What trying again cannot help is not tried again, and is no failure of the search."""
    ask = Asked(error)
    caller, circuit = resilience(failure_threshold=1)
    with pytest.raises(type(error)):
        await caller.call(ask, timeout_s=60)
    assert len(ask.times) == 1
    assert circuit.state == "closed"


async def test_last_error_is_raised_with_the_number_of_tries() -> None:
    """After the last try its error is the answer."""
    ask = Asked(SearchUnavailable("1"), SearchTimeout("2"), SearchUnavailable("3"))
    caller, _ = resilience()
    with pytest.raises(SearchUnavailable, match="3") as raised:
        await caller.call(ask, timeout_s=60)
    assert raised.value.attempts == 3


async def test_hanging_try_is_cut_off_and_asked_again() -> None:
    """Each try has its own time."""
    ask = Asked(HANG, "answer")
    caller, _ = resilience(attempt_timeout_s=0.01)
    assert await caller.call(ask, timeout_s=60) == "answer"


async def test_no_try_gets_more_than_the_time_that_is_left() -> None:
    """The whole call has one deadline, and no wait goes past it."""
    ask = Asked(HANG, HANG, HANG)
    caller, _ = resilience(attempt_timeout_s=0.04)
    with pytest.raises(SearchTimeout):
        await caller.call(ask, timeout_s=0.05)
    assert max(ask.times) <= 0.05
    assert sum(ask.times) <= 0.1
    assert len(ask.times) < 3


async def test_open_circuit_is_not_asked_and_not_waited_for() -> None:
    """While the search is down callers fail at once."""
    caller, circuit = resilience(failure_threshold=1)
    with pytest.raises(SearchError):
        await caller.call(Asked(SearchUnavailable("down")), timeout_s=60)
    ask = Asked("never")
    with pytest.raises(CircuitOpen):
        await caller.call(ask, timeout_s=60)
    assert ask.times == []
    assert circuit.state == "open"


async def test_cancelled_probe_makes_place_for_another() -> None:
    """A caller that is cancelled while it asks does not leave the circuit half open."""
    circuit = CircuitBreaker(failure_threshold=1, probe_interval_s=0.001)
    circuit.failed()
    await circuit.passable()
    caller = Resilience(RetryPolicy(attempts=1, attempt_timeout_s=60), circuit)
    asking = asyncio.create_task(caller.call(Asked(HANG), timeout_s=60))
    await asyncio.sleep(0)
    with pytest.raises(CircuitOpen):
        circuit.enter()
    asking.cancel()
    await asyncio.wait([asking])
    await circuit.passable()
    circuit.enter()


async def test_decorators_hand_everything_through() -> None:
    """A decorated port starts, answers and closes like the port itself."""
    caller, _ = resilience()
    found = [hit()]

    async def hits(_query: SearchQuery) -> Sequence[SearchHit]:
        return found

    async def vectors(texts: Sequence[str]) -> Sequence[Vector]:
        return [(1.0, 0.0) for _ in texts]

    search = ResilientSearch(FakeSearch({"q": hits}), caller)
    embedder = ResilientEmbedder(FakeEmbedder(vectors), caller)
    await search.start()
    await embedder.start()
    assert await search.search(QUERY, timeout_s=5) == found
    assert await embedder.embed(["q"], timeout_s=5) == [(1.0, 0.0)]
    assert embedder.dimension == 2
    await search.close()
    await embedder.close()
