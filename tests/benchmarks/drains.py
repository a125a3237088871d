"""How fast a program answers what stands on the requests topic: the rate at which results are appended."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.support.worker import Payload, StageTopics, send_all

POLL_S = 0.02
GIVE_UP_S = 120.0
FIRST_SHARE, LAST_SHARE = 0.2, 0.95
"""What is measured lies between these shares of the results: start and end are others' figures."""

WORKER = ("streams", "worker")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """What a drain came to.

    Attributes:
        rate: Results a second.
        cpu_s: Seconds of processor time for one result, in the program alone.
    """

    rate: float
    cpu_s: float


async def fill(topics: StageTopics, payloads: Sequence[Payload], *, partitions: int = 4) -> None:
    """Create the topics and put the requests on theirs."""
    await topics.create(partitions=partitions)
    await send_all(topics, payloads)


def drain(
    topics: StageTopics,
    program: Sequence[str],
    environment: Mapping[str, str],
    *,
    count: int,
    workers: int = 1,
) -> Drain:
    """Run a program until there are `count` results."""
    with (
        running(program, topics.environment | dict(environment), workers) as processes,
        _counter(topics) as counted,
    ):
        first = _at(counted, processes, round(count * FIRST_SHARE))
        last = _at(counted, processes, round(count * LAST_SHARE))
        _at(counted, processes, count)
    results, seconds, cpu_s = (end - start for start, end in zip(first, last, strict=True))
    return Drain(rate=results / seconds, cpu_s=cpu_s / results)


@contextmanager
def running(
    program: Sequence[str], environment: Mapping[str, str], workers: int = 1
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run `python -m program` as often as asked, and end it."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, f"{number}.log") for number in range(workers)]
        processes = []
        try:
            for log in logs:
                with log.open("wb") as output:
                    processes.append(
                        subprocess.Popen(
                            [sys.executable, "-m", *program],
                            env=os.environ | dict(environment),
                            stdin=subprocess.DEVNULL,
                            stdout=output,
                            stderr=output,
                        )
                    )
            yield processes
        except TimeoutError:
            sys.stderr.writelines(log.read_text(errors="replace")[-3_000:] for log in logs)
            raise
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(10)


class ResultCount:
    """Counts the records of a results topic without reading them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "count", "enable.auto.commit": False}
        )
        partitions = self._consumer.list_topics(topic, 10).topics[topic].partitions
        self._partitions = [TopicPartition(topic, number) for number in partitions]

    def now(self) -> int:
        """How many there are."""
        return sum(self._consumer.get_watermark_offsets(each, 10)[1] for each in self._partitions)

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()


@contextmanager
def _counter(topics: StageTopics) -> Iterator[ResultCount]:
    counter = ResultCount(topics.bootstrap, topics.results)
    try:
        yield counter
    finally:
        counter.close()


def _at(
    counted: ResultCount, processes: Sequence[subprocess.Popen[bytes]], wanted: int
) -> tuple[int, float, float]:
    """Wait for so many results; gives how many there are, when, and the processor time until then."""
    give_up = time.monotonic() + GIVE_UP_S
    while True:
        now, count = time.monotonic(), counted.now()
        if count >= wanted:
            return count, now, sum(cpu_seconds(process.pid) for process in processes)
        if now > give_up or any(process.poll() is not None for process in processes):
            raise TimeoutError(f"{count} of {wanted} results")
        time.sleep(POLL_S)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
