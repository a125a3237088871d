"""Time limits strike when the time is over, and nobody else is disturbed."""

from __future__ import annotations

import asyncio
import time

import pytest

from pipeline.time_limits import TimeLimit


def within(seconds: float) -> TimeLimit:
    """Return a limit that strikes so many seconds from now."""
    return TimeLimit(asyncio.get_running_loop().time() + seconds)


async def wait_for_ever() -> None:
    """End only when it is cancelled."""
    await asyncio.Event().wait()


async def limited(seconds: float) -> None:
    """Wait for ever, within a limit."""
    with within(seconds):
        await wait_for_ever()


async def test_block_that_takes_too_long_is_timed_out() -> None:
    """And not before its time."""
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await limited(0.05)
    assert time.monotonic() - began >= 0.05


async def test_block_that_ends_in_time_is_left_alone() -> None:
    """Also after its limit, when others' limits strike."""
    with within(0.02):
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await limited(0.1)


async def test_error_of_the_block_is_its_own() -> None:
    """A limit hides nothing."""
    with pytest.raises(KeyError), within(60):
        raise KeyError


async def test_each_task_has_its_own_limit() -> None:
    """One strikes, the others go on."""
    going_on = [asyncio.create_task(limited(60)) for _ in range(3)]
    with pytest.raises(TimeoutError):
        await limited(0.01)
    assert not any(task.done() for task in going_on)
    for task in going_on:
        task.cancel()
    await asyncio.wait(going_on)
    assert all(task.cancelled() for task in going_on)


@pytest.mark.parametrize(("inner", "outer"), [(0.01, 60.0), (60.0, 0.01)])
async def test_limit_in_a_limit(inner: float, outer: float) -> None:
    """Whichever is over first strikes, once."""
    struck: list[str] = []
    try:
        with within(outer):
            try:
                await limited(inner)
            except TimeoutError:
                struck.append("inner")
            await asyncio.sleep(0)
    except TimeoutError:
        struck.append("outer")
    assert struck == ["inner" if inner < outer else "outer"]


async def test_cancelled_task_is_cancelled_and_not_late() -> None:
    """Who cancels a task wants it to end, whatever its limits."""
    task = asyncio.create_task(limited(60))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_cancellation_beside_a_strike_is_not_swallowed() -> None:
    """Both at once: the task ends."""

    async def struck_and_cancelled() -> None:
        limit = within(60)
        with limit:
            limit.strike()
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await wait_for_ever()

    task = asyncio.create_task(struck_and_cancelled())
    await asyncio.wait([task])
    assert task.cancelled()


def test_limits_of_a_loop_that_is_gone_are_forgotten() -> None:
    """Each event loop has its own."""
    for _ in range(2):
        with pytest.raises(TimeoutError):
            asyncio.run(limited(0.01))


async def test_limit_needs_a_task() -> None:
    """Outside one there would be nothing to cancel."""
    failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def enter() -> None:
        try:
            within(60).__enter__()
        except RuntimeError as error:
            failed.set_result(error)

    asyncio.get_running_loop().call_soon(enter)
    assert str(await failed) == "a time limit needs a task to cancel"
