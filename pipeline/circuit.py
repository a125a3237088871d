"""A circuit breaker: after a row of failures nobody asks the search until a probe gets an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, TypeAlias

from pipeline.errors import SearchUnavailable

CircuitState: TypeAlias = Literal["closed", "open", "half_open"]


class CircuitOpen(SearchUnavailable):
    """The search is down and was not asked."""


class CircuitBreaker:
    """Counts failures in a row and lets through one probe at a time while open.

    Closed: everything passes. Open: nothing passes until the probe interval is over. Half open: one caller is
    asking; its success closes the circuit, its failure opens it for another interval.
    """

    def __init__(
        self,
        *,
        failure_threshold: int,
        probe_interval_s: float,
        on_change: Callable[[CircuitState], object] = lambda _state: None,
    ) -> None:
        """Start closed.

        Args:
            failure_threshold: Failures in a row that open the circuit, at least 1.
            probe_interval_s: Seconds between probes.
            on_change: Told of every new state.
        """
        self._failure_threshold = failure_threshold
        self._probe_interval_s = probe_interval_s
        self._on_change = on_change
        self._failures = 0
        self._failed_call: object | None = None
        self._state: CircuitState = "closed"
        self._probe_at = 0.0
        self._changed = asyncio.Event()

    @property
    def state(self) -> CircuitState:
        """Whether searches pass."""
        return self._state

    def enter(self) -> None:
        """Ask to pass; every caller that may must say `succeeded`, `failed` or `gave_up` afterwards.

        Raises:
            CircuitOpen: It may not.
        """
        if self._state == "closed":
            return
        if self._state == "half_open" or _now() < self._probe_at:
            raise CircuitOpen("the search is down")
        self._move("half_open")

    def succeeded(self) -> None:
        """Record that the search answers, if only to refuse a question."""
        self._failures = 0
        self._move("closed")

    def failed(self, call: object | None = None) -> None:
        """Record that the search did not answer.

        Args:
            call: What failed, where several callers shared it: it counts once.
        """
        if call is None or call is not self._failed_call:
            self._failures += 1
        self._failed_call = call
        if self._state == "half_open" or self._failures >= self._failure_threshold:
            self._open()

    def gave_up(self) -> None:
        """Record that a caller left without knowing; a probe that leaves makes place for another."""
        if self._state == "half_open":
            self._open()

    async def passable(self) -> None:
        """Wait until a caller may pass, if only as a probe."""
        while self._state != "closed":
            self._changed.clear()
            left = self._probe_at - _now() if self._state == "open" else None
            if left is not None and left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _open(self) -> None:
        self._probe_at = _now() + self._probe_interval_s
        self._move("open")

    def _move(self, state: CircuitState) -> None:
        if state != self._state:
            self._state = state
            self._changed.set()
            self._on_change(state)


def _now() -> float:
    return asyncio.get_running_loop().time()
