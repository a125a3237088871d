"""Keeps workers running, as a process manager does: one that ends is started again."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.waiting import until
from tests.support.worker import READY, WorkerProcess

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 40.0


class Supervisor:
    """Workers on one set of topics.

    Attributes:
        exit_codes: Of every worker that has ended, in that order.
        restarts: How many workers were started in the place of one that had ended.
    """

    def __init__(self, environment: Mapping[str, str], directory: Path, *, workers: int = 1) -> None:
        """Initialize with the workers' settings, where their logs go, and how many to start with."""
        directory.mkdir(parents=True, exist_ok=True)
        self._environment = environment
        self._directory = directory
        self._to_start = workers
        self._running: dict[int, WorkerProcess] = {}
        self._keeping: dict[int, asyncio.Task[None]] = {}
        self._numbers, self._lives = count(), count()
        self.exit_codes: list[int] = []
        self.restarts = 0

    def running(self) -> list[WorkerProcess]:
        """Return the workers that are running, the one that was added first first."""
        return [worker for _, worker in sorted(self._running.items()) if worker.exit_code is None]

    def add(self) -> int:
        """Start one more worker and return its number."""
        number = next(self._numbers)
        self._keeping[number] = asyncio.create_task(self._keep(number))
        return number

    async def ready(self, *, deadline_s: float = START_DEADLINE_S) -> None:
        """Wait until as many workers as are kept say that they are ready."""
        await until(
            lambda: all(
                number in self._running and is_ready(self._running[number]) for number in self._keeping
            ),
            deadline_s=deadline_s,
            what="workers ready",
        )

    async def retire(self, number: int) -> int:
        """Tell a worker to stop, does not start it again, and return its exit code."""
        keeping = self._keeping.pop(number)
        keeping.cancel()
        await asyncio.wait([keeping])
        worker = self._running.pop(number, None)
        if worker is None:
            return 0
        # Told so before it listens to signals, it would just die.
        await until(
            lambda: is_ready(worker) or worker.exit_code is not None,
            deadline_s=START_DEADLINE_S,
            what="the worker is ready",
        )
        if worker.exit_code is None:
            worker.send(signal.SIGTERM)
        self.exit_codes.append(await ended(worker, deadline_s=STOP_DEADLINE_S))
        return self.exit_codes[-1]

    async def __aenter__(self) -> Self:
        """Start the workers; `ready` waits for them."""
        for _ in range(self._to_start):
            self.add()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Tell all workers to stop, and kill what is left after a while."""
        workers = list(self._running.values())
        try:
            await asyncio.gather(*(self.retire(number) for number in list(self._keeping)))
        finally:
            for worker in workers:
                worker.kill()

    async def _keep(self, number: int) -> None:
        while True:
            worker = WorkerProcess(self._environment, self._directory / f"worker-{next(self._lives)}.log")
            self._running[number] = worker
            worker.launch()
            self.exit_codes.append(await ended(worker))
            self.restarts += 1


@asynccontextmanager
async def one_worker(environment: Mapping[str, str], log_file: Path) -> AsyncIterator[WorkerProcess]:
    """Yield a worker that is ready and is not started again; tell it to stop when the block ends."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    worker = WorkerProcess(environment, log_file)
    worker.launch()
    try:
        await until(
            lambda: is_ready(worker) or worker.exit_code is not None,
            deadline_s=START_DEADLINE_S,
            what="the worker is ready",
        )
        assert READY in worker.log, worker.log[-2_000:]
        yield worker
        if worker.exit_code is None:
            worker.send(signal.SIGTERM)
            await ended(worker, deadline_s=STOP_DEADLINE_S)
    finally:
        worker.kill()


def is_ready(worker: WorkerProcess) -> bool:
    """Return whether a worker has said that it is ready."""
    return worker.exit_code is None and READY in worker.log


async def ended(worker: WorkerProcess, *, deadline_s: float = math.inf) -> int:
    """Wait for a worker's end and return its exit code.

    Raises:
        TimeoutError: It has not ended within the deadline.
    """
    await until(lambda: worker.exit_code is not None, deadline_s=deadline_s, what="the worker's end")
    assert worker.exit_code is not None
    return worker.exit_code
