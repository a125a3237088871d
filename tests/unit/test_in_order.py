"""Many things at once: bounded, paced, and given back in order."""

from __future__ import annotations

import asyncio

import pytest

from streams.replay.in_order import in_order


async def test_results_come_in_the_order_of_the_works() -> None:
    """Whatever is done first."""

    async def work(number: int) -> int:
        for _ in range((7 - number) * 3 % 5):
            await asyncio.sleep(0)
        return number

    works = (work(number) for number in range(20))
    assert [each async for each in in_order(works, concurrency=5, rate=None)] == list(range(20))


async def test_no_more_works_run_at_once_than_are_allowed() -> None:
    """The bound is reached and not passed, and works that are not due are not taken."""
    running, most, taken = 0, 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    def works(count: int) -> object:
        nonlocal taken
        for _ in range(count):
            taken += 1
            yield work()

    async for _ in in_order(works(30), concurrency=4, rate=None):  # type: ignore[arg-type]
        assert taken - 4 <= 30
    assert (most, taken) == (4, 30)


async def test_rate_is_not_exceeded() -> None:
    """Twenty works at a hundred a second take at least the time of nineteen pauses."""

    async def work() -> None:
        return

    loop = asyncio.get_running_loop()
    began = loop.time()
    assert len([each async for each in in_order((work() for _ in range(20)), concurrency=9, rate=100)]) == 20
    assert loop.time() - began >= 0.19


async def test_error_ends_what_is_in_work() -> None:
    """The first error in order is raised, and nothing is left running."""
    cancelled = 0

    async def work(number: int) -> None:
        nonlocal cancelled
        if number == 1:
            raise ValueError("no")
        try:
            await asyncio.sleep(3_600 if number > 1 else 0)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    with pytest.raises(ValueError, match="no"):
        async for _ in in_order((work(number) for number in range(9)), concurrency=4, rate=None):
            pass
    assert cancelled == 3
