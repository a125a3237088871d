"""Real workers in processes of their own, and the traffic that tests send through them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.support.contract import check_result
from tests.support.topics import StoredRecord, create_topics, stored

READY = '"worker_ready"'


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTopics:
    """Topics and group of one test's stage, its alone."""

    bootstrap: str
    name: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:12]}")

    @property
    def requests(self) -> str:
        """The requests topic."""
        return f"{self.name}.requests"

    @property
    def results(self) -> str:
        """The results topic."""
        return f"{self.name}.results"

    @property
    def dead_letters(self) -> str:
        """The dead-letter topic."""
        return f"{self.name}.dead-letters"

    @property
    def recordings(self) -> str:
        """The recordings topic; only tests that record make it."""
        return f"{self.name}.recordings"

    @property
    def environment(self) -> dict[str, str]:
        """Settings of a stage on these topics."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap,
            "KAFKA_GROUP_ID": self.name,
            "KAFKA_TOPICS_REQUESTS": self.requests,
            "KAFKA_TOPICS_RESULTS": self.results,
            "KAFKA_TOPICS_DEAD_LETTERS": self.dead_letters,
            "KAFKA_TOPICS_RECORDINGS": self.recordings,
            "STAGE_LOG_FORMAT": "json",
            "METRICS_PORT": "0",
        }

    async def create(self, *, partitions: int = 4, configs: Mapping[str, str] | None = None) -> None:
        """Create the three topics."""
        await create_topics(
            self.bootstrap,
            self.requests,
            self.results,
            self.dead_letters,
            partitions=partitions,
            configs=configs,
        )


def run_command(*arguments: str, environment: Mapping[str, str], timeout_s: float = 60.0) -> CommandOutput:
    """Run `lookup-stage` with arguments and return what it printed."""
    finished = subprocess.run(
        [sys.executable, "-m", "streams", *arguments],
        env=os.environ | dict(environment),
        capture_output=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return CommandOutput(
        code=finished.returncode, stdout=finished.stdout.decode(), stderr=finished.stderr.decode()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutput:
    """What a command left."""

    code: int
    stdout: str
    stderr: str


class WorkerProcess:
    """A `lookup-stage worker` in a process of its own; ended by its id when the block ends."""

    def __init__(self, environment: Mapping[str, str], log_file: Path) -> None:
        """Initialize with its settings and where its log goes."""
        self._environment = os.environ | dict(environment)
        self.log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, deadline_s: float = 60.0) -> Self:
        """Start it and wait until it is ready."""
        self.launch()
        self.wait_until_ready(deadline_s=deadline_s)
        return self

    def launch(self) -> None:
        """Start it without waiting."""
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streams", "worker"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_until_ready(self, *, deadline_s: float) -> None:
        """Wait for its ready line."""
        give_up = time.monotonic() + deadline_s
        while READY not in self.log:
            if self.exit_code is not None:
                raise AssertionError(f"the worker ended with {self.exit_code}: {self.log[-2_000:]}")
            if time.monotonic() > give_up:
                raise AssertionError(f"the worker is not ready after {deadline_s} s: {self.log[-2_000:]}")
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """Everything it logged so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, `None` while it runs."""
        return None if self._process is None else self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, *, timeout_s: float) -> int:
        """Wait for its end and return the exit code."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.exit_code is None:
            self.send(signal.SIGTERM)
            try:
                self.wait(timeout_s=40)
            finally:
                self.kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A record to send to the requests topic."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def request(request_id: str, **fields: Any) -> Payload:
    """Make the record of a request, keyed by its id."""
    body = {"request_id": request_id, **fields}
    return Payload(value=orjson.dumps(body), key=request_id.encode())


async def send_all(
    topics: StageTopics,
    payloads: Iterable[Payload],
    *,
    rate: float | None = None,
    to: str | None = None,
    linger_ms: int = 5,
) -> None:
    """Send records in order, confirmed, at most `rate` a second, to the requests topic or another."""
    producer = AIOKafkaProducer(
        bootstrap_servers=topics.bootstrap, acks="all", enable_idempotence=True, linger_ms=linger_ms
    )
    await producer.start()
    loop = asyncio.get_running_loop()
    started = loop.time()
    confirmations = []
    try:
        for number, payload in enumerate(payloads):
            if rate is not None:
                await asyncio.sleep(max(0.0, started + number / rate - loop.time()))
            confirmations.append(
                await producer.send(
                    to or topics.requests, value=payload.value, key=payload.key, headers=list(payload.headers)
                )
            )
        await asyncio.gather(*confirmations)
    finally:
        await producer.stop()


class ResultLog:
    """Everything on a results topic, read as it comes."""

    def __init__(self) -> None:
        """Start empty."""
        self.by_request: defaultdict[str, list[StoredRecord]] = defaultdict(list)
        self.arrived_at: list[float] = []
        self._grown = asyncio.Event()

    async def read(self, topics: StageTopics, partitions: int) -> None:
        """Read from the topic's beginning until cancelled."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=topics.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topics.results, number) for number in range(partitions)])
            async for message in consumer:
                self._add(message)
        finally:
            await consumer.stop()

    async def wait_for(self, request_ids: Iterable[str], *, timeout_s: float) -> None:
        """Wait until every one of the requests has a result."""
        missing = set(request_ids)
        try:
            async with asyncio.timeout(timeout_s):
                while missing := {name for name in missing if name not in self.by_request}:
                    self._grown.clear()
                    await self._grown.wait()
        except TimeoutError:
            raise AssertionError(
                f"{len(missing)} requests have no result after {timeout_s} s, such as {sorted(missing)[:3]}"
            ) from None

    def _add(self, message: Any) -> None:
        request_id = dict(message.headers)["lookup-request-id"].decode()
        self.by_request[request_id].append(stored(message))
        self.arrived_at.append(time.monotonic())
        self._grown.set()


@asynccontextmanager
async def reading_results(topics: StageTopics, partitions: int = 4) -> AsyncIterator[ResultLog]:
    """Read the results topic for as long as the block goes on; what is there must be in the contract."""
    log = ResultLog()
    reading = asyncio.create_task(log.read(topics, partitions))
    try:
        yield log
    finally:
        reading.cancel()
        await asyncio.wait([reading])
    for records in log.by_request.values():
        for record in records:
            check_result(record.value, record.headers)
