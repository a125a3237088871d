"""Watching an event loop: until nothing more happens, and for what went wrong unseen."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


async def quiet() -> None:
    """Return when the loop has nothing more that is ready to run: whatever was to happen has happened."""
    ready: deque[object] = vars(asyncio.get_running_loop())["_ready"]
    while ready:  # noqa: ASYNC110 - the loop has no event for being idle
        await asyncio.sleep(0)


@asynccontextmanager
async def nothing_goes_wrong_unseen() -> AsyncIterator[None]:
    """Call off what the block has left in work, and fail where a callback raised."""
    before, unseen = asyncio.all_tasks(), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context))
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    assert unseen == []
