"""Many things done at once, and their results in the order in which they were begun."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_order(
    works: Iterable[Coroutine[Any, Any, T]], *, concurrency: int, rate: float | None
) -> AsyncIterator[T]:
    """Run coroutines, so many at once and so many a second at most, and return what they return in order."""
    loop, window = asyncio.get_running_loop(), deque[asyncio.Task[T]]()
    interval_s, next_at = 0.0 if rate is None else 1 / rate, loop.time()
    try:
        for work in works:
            window.append(asyncio.create_task(work))
            next_at = max(next_at + interval_s, loop.time())
            await asyncio.sleep(next_at - loop.time())
            if len(window) == concurrency:
                yield await window.popleft()
        while window:
            yield await window.popleft()
    finally:
        for task in window:
            task.cancel()
        if window:
            await asyncio.wait(window)
