"""Waiting for conditions, with deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
POLL_INTERVAL_S = 0.02


async def until(condition: Callable[[], bool], *, deadline_s: float, what: str) -> None:
    """Wait until a condition holds.

    Args:
        condition: Asked again and again; must not block.
        deadline_s: Most seconds to wait.
        what: What is waited for, for the error.

    Raises:
        TimeoutError: It does not hold within the deadline.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + deadline_s
    while not condition():
        if loop.time() > give_up:
            raise TimeoutError(f"{what}: not within {deadline_s:g} s")
        await asyncio.sleep(POLL_INTERVAL_S)


async def sleep_until(moment: float) -> None:
    """Sleep until a moment of the loop's clock, if it is still to come."""
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))


async def eventually(look: Callable[[], Awaitable[T]], wanted: T, *, deadline_s: float) -> None:
    """Wait until what is looked at is as wanted.

    Raises:
        TimeoutError: It is not within the deadline.
    """
    async with asyncio.timeout(deadline_s):
        while await look() != wanted:  # noqa: ASYNC110 - it tells only when it is asked
            await asyncio.sleep(5 * POLL_INTERVAL_S)
