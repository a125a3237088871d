"""Whether an engine answers a question that is known to be good: what tells an outage from a bad question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context

FRESH_S = 0.1
"""Seconds for which an answer stands: failures that come together are tested together."""


class Probe:
    """Asks one engine a good question, at most once at a time and ten times a second, for all callers."""

    def __init__(self, ask: Callable[[float], Awaitable[object]], *, timeout_s: float) -> None:
        """Store how to ask.

        Args:
            ask: Called with the seconds in which to answer; raises if there is no answer.
            timeout_s: Seconds after which a probe has failed.
        """
        self._ask = ask
        self._timeout_s = timeout_s
        self._latest: asyncio.Task[bool] | None = None
        self._ended_at = 0.0

    def start(self) -> asyncio.Task[bool]:
        """Return a task whose result is whether the engine answers: a running or fresh one, or a new one."""
        latest = self._latest
        if latest is None or (latest.done() and not self._is_fresh()):
            # In a context of its own: it is about no one request.
            latest = self._latest = asyncio.create_task(self._run(), context=Context())
        return latest

    async def is_answered(self) -> bool:
        """Return whether the engine answers; cancelling the caller does not cancel the probe."""
        return await asyncio.shield(self.start())

    def _is_fresh(self) -> bool:
        return asyncio.get_running_loop().time() < self._ended_at + FRESH_S

    async def _run(self) -> bool:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._ask(self._timeout_s)
        except Exception:  # noqa: BLE001 - however it fails, the question was not answered
            return False
        finally:
            self._ended_at = asyncio.get_running_loop().time()
        return True
