"""Retries by class of error, inside the time that is left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from pipeline.adapters.resilient import Resilience, ResilientEmbedder, ResilientSearch, RetryPolicy
from pipeline.circuit import CircuitBreaker, CircuitOpen
from pipeline.errors import SearchError, SearchFailed, SearchRejected, SearchTimeout, SearchUnavailable
from pipeline.model import SearchHit, SearchQuery, Vector
from pipeline.probing import Probe
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


# Failures of which nobody knows whether the question is at fault


class Probed:
    """An engine's answer to probes.

    Attributes:
        up: Whether it answers.
        asked: How many probes have come.
        arrived: Set once one has come.
        open: Probes are answered while it is set.
        probe: Asks it.
    """

    def __init__(self, *, up: bool) -> None:
        self.probe = Probe(self, timeout_s=60)
        self.up = up
        self.asked = 0
        self.arrived = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, _left: float) -> None:
        """Answer a probe."""
        self.asked += 1
        self.arrived.set()
        await self.open.wait()
        if not self.up:
            raise SearchUnavailable("down")


def probed(engine: Probed, *, failure_threshold: int = 1) -> tuple[Resilience, CircuitBreaker]:
    """Return a caller with a probe, and its circuit."""
    circuit = CircuitBreaker(failure_threshold=failure_threshold, probe_interval_s=3_600)
    policy = RetryPolicy(attempts=3, attempt_timeout_s=60, first_wait_s=0.001, longest_wait_s=0.002)
    return Resilience(policy, circuit, probe=engine.probe), circuit


def failing(*, repeats: bool = False) -> SearchFailed:
    """Return a failure that may be a refusal."""
    return SearchFailed.maybe_refused("the engine failed", "refused: no kernel", repeats=repeats)


async def test_failure_while_the_probe_is_answered_is_a_rejection() -> None:
    """It is tried again first, since a failure may pass; the circuit never moves."""
    engine = Probed(up=True)
    caller, circuit = probed(engine)
    ask = Asked(*(failing() for _ in range(3)))
    with pytest.raises(SearchRejected, match=r"^refused: no kernel$") as raised:
        await caller.call(ask, timeout_s=60)
    assert (raised.value.attempts, len(ask.times)) == (3, 3)
    assert circuit.state == "closed"


async def test_failure_that_passes_is_answered() -> None:
    """A hiccup of the engine is not the question's fault."""
    caller, circuit = probed(Probed(up=True))
    assert await caller.call(Asked(failing(), "answer"), timeout_s=60) == "answer"
    assert circuit.state == "closed"


async def test_refusal_by_name_is_not_asked_again_once_it_is_proven() -> None:
    """The other side has said that the same would be refused; the probe has said that others are not."""
    caller, circuit = probed(Probed(up=True))
    ask = Asked(failing(repeats=True))
    with pytest.raises(SearchRejected):
        await caller.call(ask, timeout_s=60)
    assert len(ask.times) == 1
    assert circuit.state == "closed"


@pytest.mark.parametrize("repeats", [False, True])
async def test_failure_while_the_probe_fails_is_an_outage(repeats: bool) -> None:  # noqa: FBT001
    """A key that is refused to everybody is nobody's question's fault."""
    caller, circuit = probed(Probed(up=False), failure_threshold=3)
    with pytest.raises(SearchUnavailable, match=r"^the engine failed$") as raised:
        await caller.call(Asked(*(failing(repeats=repeats) for _ in range(3))), timeout_s=60)
    assert type(raised.value) is SearchUnavailable
    assert raised.value.attempts == 3
    assert circuit.state == "open"


async def test_failure_that_is_never_a_refusal_stays_unavailability() -> None:
    """It may be tried again later, and does not move the circuit while others are answered."""
    caller, circuit = probed(Probed(up=True))
    with pytest.raises(SearchUnavailable, match=r"^bad gateway$") as raised:
        await caller.call(Asked(*(SearchFailed("bad gateway") for _ in range(3))), timeout_s=60)
    assert raised.value.retryable
    assert circuit.state == "closed"


async def test_failure_without_a_probe_is_an_outage() -> None:
    """A port that cannot be probed is taken at its word."""
    caller, circuit = resilience(failure_threshold=3)
    with pytest.raises(SearchUnavailable):
        await caller.call(Asked(*(failing() for _ in range(3))), timeout_s=60)
    assert circuit.state == "open"


@pytest.mark.parametrize("error", [SearchTimeout("slow"), TimeoutError()])
async def test_heavy_question_does_not_open_the_circuit(error: Exception) -> None:
    """It times out, and the circuit stays closed while a cheap question is answered."""
    engine = Probed(up=True)
    caller, circuit = probed(engine)
    with pytest.raises(SearchTimeout):
        await caller.call(Asked(error, error, error), timeout_s=60)
    assert engine.arrived.is_set()
    await engine.probe.is_answered()
    assert circuit.state == "closed"


async def test_timeouts_while_the_probe_fails_open_the_circuit() -> None:
    """An engine that answers nobody is down; the caller does not wait for the probe."""
    engine = Probed(up=False)
    caller, circuit = probed(engine)
    engine.open.clear()
    with pytest.raises(SearchTimeout):
        await caller.call(Asked(*(SearchTimeout("slow") for _ in range(3))), timeout_s=60)
    engine.open.set()
    await engine.probe.is_answered()
    assert circuit.state == "open"


async def test_known_outage_is_not_probed() -> None:
    """An engine that cannot be reached need not be asked whether it can."""
    engine = Probed(up=True)
    caller, circuit = probed(engine, failure_threshold=3)
    with pytest.raises(SearchUnavailable):
        await caller.call(Asked(*(SearchUnavailable("unreachable") for _ in range(3))), timeout_s=60)
    assert engine.asked == 0
    assert circuit.state == "open"


async def test_many_failures_share_probes() -> None:
    """An outage of an unknown kind does not double the load of an engine in trouble."""
    engine = Probed(up=False)
    caller, _ = probed(engine, failure_threshold=10_000)
    asking = (caller.call(Asked(*(failing() for _ in range(3))), timeout_s=60) for _ in range(200))
    await asyncio.gather(*asking, return_exceptions=True)
    assert engine.asked <= 5


async def test_caller_that_leaves_while_the_probe_is_out_still_counts() -> None:
    """The circuit learns the outcome though nobody waits for it; without time left there is no wait."""
    engine = Probed(up=False)
    engine.open.clear()
    caller, circuit = probed(engine)
    leaving = asyncio.create_task(caller.call(Asked(failing()), timeout_s=60))
    await engine.arrived.wait()
    leaving.cancel()
    await asyncio.wait([leaving])
    with pytest.raises(SearchUnavailable):
        await caller.call(Asked(failing(), failing(), failing()), timeout_s=0.01)
    engine.open.set()
    await engine.probe.is_answered()
    assert circuit.state == "open"


async def test_failed_call_of_an_open_circuit_closes_it_if_the_probe_is_answered() -> None:
    """The question that is let through while it is open may be a bad one; others must not wait for that."""
    circuit = CircuitBreaker(failure_threshold=1, probe_interval_s=0.001)
    circuit.failed()
    await circuit.passable()
    policy = RetryPolicy(attempts=1, attempt_timeout_s=60)
    caller = Resilience(policy, circuit, probe=Probed(up=True).probe)
    with pytest.raises(SearchRejected):
        await caller.call(Asked(failing()), timeout_s=60)
    assert circuit.state == "closed"


# Waiting as long as the other side says


async def test_next_try_waits_as_long_as_it_is_told() -> None:
    """Asking earlier would be refused."""
    error = SearchUnavailable("overloaded")
    error.retry_after_s = 0.1
    caller, _ = resilience()
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert await caller.call(Asked(error, "answer"), timeout_s=60) == "answer"
    assert loop.time() - before >= 0.1


async def test_wait_that_is_longer_than_the_time_left_is_not_begun() -> None:
    """The caller gets the error at once, not when its time is over."""
    error = SearchUnavailable("overloaded")
    error.retry_after_s = 3_600.0
    caller, _ = resilience()
    ask = Asked(error)
    async with asyncio.timeout(5):
        with pytest.raises(SearchUnavailable, match="overloaded"):
            await caller.call(ask, timeout_s=60)
    assert len(ask.times) == 1


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
