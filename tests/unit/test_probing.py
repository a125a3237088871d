"""Whether an engine answers: asked once for all who want to know."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from pipeline import probing
from pipeline.errors import SearchUnavailable
from pipeline.probing import Probe

LONG_S = 60.0


class Engine:
    """Answers probes as it is told.

    Attributes:
        asked: How many probes have come.
        arrived: Set once one has come.
        open: Probes are answered while it is set.
        error: What they raise, if anything.
    """

    def __init__(self) -> None:
        """Start with an engine that answers."""
        self.asked = 0
        self.arrived = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.error: Exception | None = None

    async def __call__(self, _left: float) -> None:
        """Answer a probe."""
        self.asked += 1
        self.arrived.set()
        await self.open.wait()
        if self.error is not None:
            raise self.error


@pytest.fixture
async def engine() -> Engine:
    """Return an engine that answers."""
    return Engine()


async def test_probe_tells_whether_the_engine_answers(engine: Engine) -> None:
    """Whatever the engine raises, there was no answer."""
    assert await Probe(engine, timeout_s=LONG_S).is_answered()
    for engine.error in (SearchUnavailable("down"), KeyError("unforeseen")):
        assert not await Probe(engine, timeout_s=LONG_S).is_answered()


async def test_probe_has_a_time_limit(engine: Engine) -> None:
    """An engine that keeps silent does not answer."""
    engine.open.clear()
    assert not await Probe(engine, timeout_s=0.01).is_answered()


async def test_one_probe_is_for_all_who_wait(engine: Engine) -> None:
    """A real outage makes every request want to know."""
    engine.open.clear()
    probe = Probe(engine, timeout_s=LONG_S)
    waiting = [asyncio.create_task(probe.is_answered()) for _ in range(100)]
    await engine.arrived.wait()
    engine.open.set()
    assert await asyncio.gather(*waiting) == [True] * 100
    assert engine.asked == 1


async def test_answer_stands_for_a_moment(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures that come together are tested together; later ones anew."""
    probe = Probe(engine, timeout_s=LONG_S)
    assert await probe.is_answered()
    engine.error = SearchUnavailable("down")
    assert await probe.is_answered()
    monkeypatch.setattr(probing, "FRESH_S", 0.0)
    assert not await probe.is_answered()
    assert engine.asked == 2


async def test_caller_that_leaves_does_not_end_the_probe(engine: Engine) -> None:
    """The others still get to know."""
    engine.open.clear()
    probe = Probe(engine, timeout_s=LONG_S)
    first, second = (asyncio.create_task(probe.is_answered()) for _ in range(2))
    await engine.arrived.wait()
    first.cancel()
    await asyncio.wait([first])
    engine.open.set()
    assert await second


async def test_probe_is_about_no_one_request() -> None:
    """What the caller's task knows of its request does not go into the probe."""
    request: ContextVar[str | None] = ContextVar("request", default=None)
    seen: list[str | None] = []

    async def ask(_left: float) -> None:
        seen.append(request.get())

    request.set("r-1")
    assert await Probe(ask, timeout_s=LONG_S).is_answered()
    assert seen == [None]
