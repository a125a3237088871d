"""When searches pass the circuit breaker."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.circuit import CircuitBreaker, CircuitOpen

NEVER_S = 3_600.0
SOON_S = 0.001


def breaker(*, failure_threshold: int = 3, probe_interval_s: float = NEVER_S) -> CircuitBreaker:
    """Make a circuit breaker."""
    return CircuitBreaker(failure_threshold=failure_threshold, probe_interval_s=probe_interval_s)


async def test_circuit_opens_after_failures_in_a_row() -> None:
    """Three failures in a row open it; then nobody passes."""
    circuit = breaker()
    for _ in range(3):
        circuit.enter()
        circuit.failed()
    assert circuit.state == "open"
    with pytest.raises(CircuitOpen):
        circuit.enter()


async def test_circuit_stays_closed_where_a_success_interrupts_the_row() -> None:
    """Failures count only in a row."""
    circuit = breaker()
    for said in (circuit.failed, circuit.failed, circuit.succeeded, circuit.failed, circuit.failed):
        said()
    assert circuit.state == "closed"
    circuit.enter()


async def test_circuit_lets_one_probe_through_at_a_time() -> None:
    """When the interval is over, one caller asks and the others do not."""
    circuit = breaker(failure_threshold=1, probe_interval_s=SOON_S)
    circuit.failed()
    await circuit.passable()
    circuit.enter()
    assert circuit.state == "half_open"
    with pytest.raises(CircuitOpen):
        circuit.enter()


@pytest.mark.parametrize(
    ("outcome", "state"), [("succeeded", "closed"), ("failed", "open"), ("gave_up", "open")]
)
async def test_circuit_follows_its_probe(outcome: str, state: str) -> None:
    """A probe's success closes it; its failure, or its leaving, opens it for another interval."""
    circuit = breaker(failure_threshold=2, probe_interval_s=SOON_S)
    circuit.failed()
    circuit.failed()
    await circuit.passable()
    circuit.enter()
    getattr(circuit, outcome)()
    assert circuit.state == state


async def test_circuit_ignores_who_gives_up_while_it_is_closed() -> None:
    """A caller that leaves says nothing about the search."""
    circuit = breaker(failure_threshold=1)
    circuit.gave_up()
    assert circuit.state == "closed"


async def test_passable_returns_at_once_while_closed() -> None:
    """Nobody waits for a circuit that is closed."""
    async with asyncio.timeout(5):
        await breaker().passable()


async def test_passable_wakes_everybody_when_a_probe_succeeds() -> None:
    """Who waits goes on when the search answers again."""
    circuit = breaker(failure_threshold=1)
    circuit.failed()
    waiting = [asyncio.create_task(circuit.passable()) for _ in range(3)]
    await asyncio.sleep(0)
    circuit.succeeded()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)


async def test_passable_waits_while_a_probe_is_asking() -> None:
    """A second caller waits for what the probe finds out."""
    circuit = breaker(failure_threshold=1, probe_interval_s=SOON_S)
    circuit.failed()
    await circuit.passable()
    circuit.enter()
    second = asyncio.create_task(circuit.passable())
    await asyncio.sleep(SOON_S * 5)
    assert not second.done()
    circuit.succeeded()
    async with asyncio.timeout(5):
        await second


async def test_circuit_tells_of_every_new_state() -> None:
    """Whoever watches sees it open, half open and close, each once."""
    states: list[str] = []
    circuit = CircuitBreaker(failure_threshold=1, probe_interval_s=SOON_S, on_change=states.append)
    circuit.succeeded()
    circuit.failed()
    circuit.failed()
    await circuit.passable()
    circuit.enter()
    circuit.succeeded()
    assert states == ["open", "half_open", "closed"]
