"""Time limits of which thousands a second are set and nearly none is reached.

`asyncio.timeout` starts and stops a timer of the event loop for each. Here one timer looks after all of them,
so that a limit strikes up to `GRANULARITY_S` late.
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any

GRANULARITY_S = 0.02


class TimeLimit:
    """Cancels what a task does inside the block when its time is over, as `asyncio.timeout_at` does."""

    __slots__ = ("_cancelling", "_limits", "_task", "at", "struck")

    def __init__(self, at: float) -> None:
        """Initialize with when the time is over, in seconds of the running event loop's clock."""
        self.at = at
        self.struck = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task to cancel")
        self._task: asyncio.Task[Any] = task
        self._cancelling = task.cancelling()
        self._limits = _limits_of(task.get_loop())
        self._limits.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Lift the limit.

        Raises:
            TimeoutError: It was over, and nobody else cancelled the task.
        """
        self._limits.discard(self)
        if self.struck and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def strike(self) -> None:
        """Cancel the task."""
        self.struck = True
        self._task.cancel()


class _Limits:
    """The limits in force on one event loop."""

    def __init__(self) -> None:
        self._in_force: set[TimeLimit] = set()
        self._watching = False

    def add(self, limit: TimeLimit) -> None:
        self._in_force.add(limit)
        if not self._watching:
            self._watching = True
            asyncio.get_running_loop().call_later(GRANULARITY_S, self._watch)

    def discard(self, limit: TimeLimit) -> None:
        self._in_force.discard(limit)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for limit in [each for each in self._in_force if each.at <= now]:
            self._in_force.discard(limit)
            limit.strike()
        self._watching = bool(self._in_force)
        if self._watching:
            loop.call_later(GRANULARITY_S, self._watch)


class _OfThread(threading.local):
    loop: asyncio.AbstractEventLoop | None = None
    limits: _Limits


_of_thread = _OfThread()


def _limits_of(loop: asyncio.AbstractEventLoop) -> _Limits:
    """Return the limits of the loop that runs in this thread."""
    if _of_thread.loop is not loop:
        _of_thread.loop, _of_thread.limits = loop, _Limits()
    return _of_thread.limits
