"""Requests sent at a rate, through whatever happens to the broker."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.faults.waiting import sleep_until
from tests.support.worker import Payload, StageTopics, request

Fields: TypeAlias = Callable[[int], Mapping[str, Any]]

KeyOf: TypeAlias = Callable[[int], str]

PATIENCE_MS = 120_000
PAUSE_S = 0.5


def name_of(number: int) -> str:
    """Return the id of the request of a number."""
    return f"r-{number}"


def paced(number: int) -> dict[str, Any]:
    """Return the fields of a request whose search takes up to 40 ms, and find five hits."""
    return {"query": f"question {number} after {number * 7 % 40} ms", "retrieve_k": 5}


class Load:
    """Sends numbered requests, each until the broker has confirmed it.

    Attributes:
        count: How many were sent so far; their ids are `r-0` and on.
        sent_at: When each was handed to the producer, by the loop's clock.
        resent: How many were sent again, since nobody could tell whether they had arrived.
    """

    def __init__(self, topics: StageTopics, *, fields: Fields = paced, key_of: KeyOf = name_of) -> None:
        """Initialize with the topics, what the request of a number asks, and its key."""
        self._topics = topics
        self._fields = fields
        self._key_of = key_of
        self._stopped = False
        self.count = 0
        self.sent_at: dict[str, float] = {}
        self.resent = 0

    async def send(self, count: float = math.inf, *, rate: float = math.inf) -> None:
        """Send so many more requests, or until `stop`, and wait until all are confirmed.

        Args:
            count: How many.
            rate: Requests a second; what an outage held up is made up for afterwards.
        """
        self._stopped = False
        fresh = self._fresh(count, rate)
        unconfirmed = await self._unconfirmed(fresh)
        while unconfirmed:
            self.resent += len(unconfirmed)
            again = ((number, 0.0) for number in unconfirmed)
            unconfirmed = await self._unconfirmed(chain(again, fresh))

    def stop(self) -> None:
        """Let `send` send no more."""
        self._stopped = True

    def _fresh(self, count: float, rate: float) -> Iterator[tuple[int, float]]:
        """Yield numbers, and when they are due."""
        started, first = asyncio.get_running_loop().time(), self.count
        while self.count < first + count and not self._stopped:
            self.count += 1
            yield self.count - 1, started + (self.count - first) / rate

    async def _unconfirmed(self, numbers: Iterable[tuple[int, float]]) -> list[int]:
        """Send requests when they are due, and return those that were not confirmed."""
        confirmations: dict[int, asyncio.Future[Any] | None] = {}
        async with _producing(self._topics.bootstrap) as producer:
            try:
                for number, due in numbers:
                    await sleep_until(due)
                    payload, confirmations[number] = self._payload(number), None
                    confirmations[number] = await producer.send(
                        self._topics.requests, value=payload.value, key=payload.key
                    )
                await asyncio.wait([sent for sent in confirmations.values() if sent is not None])
            except KafkaError:
                pass  # what is not confirmed is sent again
        return [number for number, sent in confirmations.items() if not _is_confirmed(sent)]

    def _payload(self, number: int) -> Payload:
        name = name_of(number)
        self.sent_at.setdefault(name, asyncio.get_running_loop().time())
        return replace(request(name, **self._fields(number)), key=self._key_of(number).encode())


@asynccontextmanager
async def _producing(bootstrap: str) -> AsyncIterator[AIOKafkaProducer]:
    """Yield a producer as soon as the broker can be reached, and patient from then on."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        enable_idempotence=True,
        linger_ms=2,
        request_timeout_ms=PATIENCE_MS,
    )
    try:
        while True:
            try:
                await producer.start()
                break
            except KafkaError:
                await asyncio.sleep(PAUSE_S)
        yield producer
    finally:
        await producer.stop()


def _is_confirmed(sent: asyncio.Future[Any] | None) -> bool:
    return sent is not None and sent.done() and not sent.cancelled() and sent.exception() is None
