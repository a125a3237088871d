"""The results topic as it fills: who was answered, how often, and whether with the same bytes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.faults.waiting import until
from tests.support.worker import StageTopics


@dataclass(slots=True, kw_only=True)
class Answered:
    """The results of one request.

    Attributes:
        status: Of the first.
        at: When the first was read, by the loop's clock.
        place: Partition and offset of the first.
        digest: Of the first's key, value and headers.
        count: How many results there are.
        differs: Whether any differs from the first.
    """

    status: str
    at: float
    place: tuple[int, int]
    digest: int
    count: int = 1
    differs: bool = False


class Results:
    """Everything on a results topic, kept in a few bytes a request.

    Attributes:
        by_request: What each request got.
        codes: How often each error stands in a result.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.by_request: dict[str, Answered] = {}
        self.codes: Counter[str] = Counter()
        self._read = 0

    @property
    def repeated(self) -> int:
        """How many results are not their request's first."""
        return self._read - len(self.by_request)

    @property
    def differing(self) -> int:
        """How many requests got results that are not the same bytes."""
        return sum(answered.differs for answered in self.by_request.values())

    def missing(self, count: int) -> int:
        """Count the requests without a result, of so many that were sent."""
        return count - len(self.by_request)

    async def complete(self, count: int, *, patience_s: float = 30.0) -> None:
        """Wait until so many requests have a result, or none has come for `patience_s`."""
        loop = asyncio.get_running_loop()
        seen, grown_at = -1, loop.time()

        def is_over() -> bool:
            nonlocal seen, grown_at
            if len(self.by_request) != seen:
                seen, grown_at = len(self.by_request), loop.time()
            return seen >= count or loop.time() > grown_at + patience_s

        await until(is_over, deadline_s=float("inf"), what="results")

    @property
    def statuses(self) -> Counter[str]:
        """How many requests got each status."""
        return Counter(answered.status for answered in self.by_request.values())

    def times(self, status: str) -> list[float]:
        """Return when the results of a status came, sorted."""
        return sorted(answered.at for answered in self.by_request.values() if answered.status == status)

    def latencies_s(self, sent_at: dict[str, float]) -> list[float]:
        """Return the seconds from each request to its first result, sorted."""
        return sorted(answered.at - sent_at[name] for name, answered in self.by_request.items())

    def add(self, message: Any, now: float) -> None:
        """Take in a record."""
        headers = dict(message.headers)
        name, status = headers["lookup-request-id"].decode(), headers["lookup-status"].decode()
        digest = hash((message.key, message.value, tuple(message.headers)))
        self._read += 1
        if status in {"failed", "rejected"}:
            self.codes[orjson.loads(message.value)["error"]["code"]] += 1
        known = self.by_request.get(name)
        if known is None:
            place = (message.partition, message.offset)
            self.by_request[name] = Answered(status=status, at=now, place=place, digest=digest)
        else:
            known.count += 1
            known.differs |= known.digest != digest


@asynccontextmanager
async def reading(topics: StageTopics, *, partitions: int = 4) -> AsyncIterator[Results]:
    """Read the results topic from its beginning for as long as the block goes on."""
    results = Results()
    task = asyncio.create_task(_read(topics, partitions, results))
    try:
        yield results
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _read(topics: StageTopics, partitions: int, results: Results) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=topics.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    loop = asyncio.get_running_loop()
    try:
        await consumer.start()
        consumer.assign([TopicPartition(topics.results, number) for number in range(partitions)])
        while True:
            for messages in (await consumer.getmany(timeout_ms=1_000)).values():
                for message in messages:
                    results.add(message, loop.time())
    finally:
        await consumer.stop()
