"""Requests in work: bounded, and acknowledged per partition strictly in the order of their offsets."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

Partition = tuple[str, int]
"""Topic and partition number; Kafka clients' own pairs are equal to it."""

CANCEL_TIMEOUT_S = 1.0
"""Seconds that cancelled work has to end."""


@dataclass(slots=True, eq=False)
class _Ticket:
    partition: Partition
    acknowledge: Callable[[], object]
    order: Hashable | None
    done: bool = False


class InFlight:
    """Runs the work of many requests at once and acknowledges what is finished.

    Work may finish in any order. A request is acknowledged when it and every earlier request of its partition
    have finished, so that the offset to commit never passes one that is still in work. Work that raises is
    never acknowledged, and neither is anything after it. What belongs to revoked partitions is forgotten.
    """

    def __init__(self, limit: int, on_failure: Callable[[BaseException], None]) -> None:
        """Initialize with the bound and what to do when work raises.

        Args:
            limit: Most requests in work at once, at least 1.
            on_failure: Called with the exception; the worker must stop, for this offset cannot be passed.
        """
        self._places = asyncio.Semaphore(limit)
        self._on_failure = on_failure
        self._pending: defaultdict[Partition, deque[_Ticket]] = defaultdict(deque)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._last_of: dict[Hashable, asyncio.Task[Any]] = {}
        self._lost: Counter[Partition] = Counter()
        self._open = asyncio.Event()
        self._open.set()

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_open(self) -> bool:
        """Whether work may start: no drain goes on."""
        return self._open.is_set()

    def unacknowledged(self) -> dict[Partition, int]:
        """Count, per partition, the requests that were started and are not acknowledged."""
        return {partition: len(tickets) for partition, tickets in self._pending.items() if tickets}

    async def start(
        self,
        partition: Partition,
        work: Callable[[], Coroutine[Any, Any, object]],
        acknowledge: Callable[[], object],
        *,
        after: Hashable | None = None,
        gate: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Start work as soon as there is a place for it and no drain goes on.

        If the partition is forgotten meanwhile, the work is not started: the partition's next owner has it.

        Args:
            partition: Where the request was read; calls come in the order of its offsets.
            work: Answers and publishes; when it returns, the request may be acknowledged.
            acknowledge: Called once, when it may.
            after: Work of one name starts only when the one before it has ended; `None` waits for nothing.
            gate: Waited for before a place is taken.
        """
        times_lost = self._lost[partition]
        if gate is not None:
            await gate()
        await self._place()
        if self._lost[partition] != times_lost:
            self._places.release()
            return
        ticket = _Ticket(partition, acknowledge, after)
        self._pending[partition].append(ticket)
        previous = None if after is None else self._last_of.get(after)
        task = asyncio.create_task(work() if previous is None else _after(previous, work))
        self._tasks.add(task)
        if after is not None:
            self._last_of[after] = task
        task.add_done_callback(lambda task: self._ended(task, ticket))

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Drop what is unacknowledged in partitions that another worker owns now."""
        for partition in partitions:
            self._pending.pop(partition, None)
            self._lost[partition] += 1

    async def drain(self, timeout_s: float) -> int:
        """Start nothing new until `resume`, waits for what is in work, then cancel what is left.

        Args:
            timeout_s: Seconds to wait.

        Returns:
            How many requests did not finish; they are not acknowledged.
        """
        self._open.clear()
        if not self._tasks:
            return 0
        _, unfinished = await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in unfinished:
            self._abandoned.add(task)
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished, timeout=CANCEL_TIMEOUT_S)
        return len(unfinished)

    def resume(self) -> None:
        """Start work again after a drain."""
        self._open.set()

    async def _place(self) -> None:
        while True:
            await self._open.wait()
            await self._places.acquire()
            if self._open.is_set():
                return
            self._places.release()

    def _ended(self, task: asyncio.Task[Any], ticket: _Ticket) -> None:
        self._tasks.discard(task)
        self._places.release()
        if self._last_of.get(ticket.order) is task:
            del self._last_of[ticket.order]
        abandoned = task in self._abandoned
        self._abandoned.discard(task)
        if task.cancelled():
            if not abandoned:
                self._on_failure(asyncio.CancelledError("the work of a request was cancelled from within"))
            return
        error = task.exception()
        if error is not None:
            self._on_failure(error)
            return
        ticket.done = True
        self._acknowledge(ticket.partition)

    def _acknowledge(self, partition: Partition) -> None:
        tickets = self._pending.get(partition)
        while tickets and tickets[0].done:
            tickets.popleft().acknowledge()


async def _after(previous: asyncio.Task[Any], work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    await asyncio.wait([previous])
    await work()
