"""Two workers in trouble, watched by a Prometheus: what the alerts are for, caused on purpose."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.faults.search_ports import SWITCH
from tests.support.probing import WorkerPort
from tests.support.prometheus import PrometheusServer
from tests.support.worker import Payload, StageTopics, WorkerProcess, request, send_all

PARTITIONS = 2
COMMON = {"EMBEDDING_PROVIDER": "none", "STAGE_DRAIN_TIMEOUT": "1"}
BUSY = COMMON | {
    "SEARCH_PORT": "tests.faults.search_ports:paced",
    "SEARCH_TIMEOUT": "60",
    "SEARCH_ATTEMPT_TIMEOUT": "60",
}
WAITING = COMMON | {
    "SEARCH_PORT": "tests.faults.search_ports:switched",
    "STAGE_WHEN_SEARCH_IS_DOWN": "wait",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitored:
    """Two stages and who watches them.

    Attributes:
        prometheus: Scrapes both.
        busy: Topics of the stage under load, whose job is `busy`.
        waiting: Topics of the stage that waits while its search is down, whose job is `waiting`.
        switch: The file that takes the latter's search down while it exists.
        workers: The worker of each.
    """

    prometheus: PrometheusServer
    busy: StageTopics
    waiting: StageTopics
    switch: Path
    workers: tuple[WorkerProcess, ...]

    async def load(self, topics: StageTopics, *, rate: int, bad_every: int) -> None:
        """Send requests to a stage until cancelled.

        Args:
            topics: Those of the stage.
            rate: Requests a second.
            bad_every: One in so many is none that can be answered.
        """
        numbers = count()
        while True:
            second = [_request(next(numbers), bad_every) for _ in range(rate)]
            await send_all(topics, second, rate=rate)

    async def stop_workers(self) -> None:
        """End both workers in order."""
        for worker in self.workers:
            worker.send(signal.SIGTERM)
        for worker in self.workers:
            await asyncio.to_thread(worker.wait, timeout_s=40)


@asynccontextmanager
async def monitored(
    kafka: str, program: str, directory: Path, *, rules: str, waiting: str | None = None
) -> AsyncIterator[Monitored]:
    """Start two workers and a Prometheus for as long as the block runs.

    Args:
        kafka: Address of the broker.
        program: Path of `prometheus`.
        directory: Where logs and data go.
        rules: The text of a file of rules.
        waiting: What the names of the waiting stage's topics begin with, on a broker that knows them not.
    """
    switch = directory / "search-is-down"
    ports = {name: WorkerPort() for name in ("busy", "waiting")}
    topics = {name: StageTopics(bootstrap=kafka) for name in ports}
    if waiting is not None:
        topics["waiting"] = StageTopics(bootstrap=kafka, name=waiting)
    settings = {"busy": BUSY, "waiting": WAITING | {SWITCH: str(switch)}}
    jobs = {name: port.number for name, port in ports.items()}
    with ExitStack() as stack:
        prometheus = stack.enter_context(
            PrometheusServer(program, directory / "prometheus", jobs=jobs, rules=rules)
        )
        workers = []
        for name, port in ports.items():
            await topics[name].create(partitions=PARTITIONS)
            environment = topics[name].environment | settings[name] | port.environment
            workers.append(stack.push(WorkerProcess(environment, directory / f"{name}.log")))
            workers[-1].launch()
        for worker in workers:
            await asyncio.to_thread(worker.wait_until_ready, deadline_s=60)
        yield Monitored(
            prometheus=prometheus,
            busy=topics["busy"],
            waiting=topics["waiting"],
            switch=switch,
            workers=tuple(workers),
        )


def _request(number: int, bad_every: int) -> Payload:
    if number % bad_every == bad_every - 1:
        return request(f"bad-{number}", query=" ")
    wait_ms, width = number % 20, 5 + number % 20
    return request(f"r-{number}", query=f"question {number} after {wait_ms} ms", retrieve_k=width)
