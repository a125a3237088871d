"""Produce requests by hand: whatever bytes stand where a record batch belongs are sent."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaError

PRODUCE, VERSION = 0, 8
ACKS_ALL, BROKER_TIMEOUT_MS = -1, 10_000
DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Where a broker has put what it was sent.

    Attributes:
        offset: Of the first record.
    """

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What a broker did not take.

    Attributes:
        reason: The name of its error, or that it closed the connection.
    """

    reason: str


class RawProducer:
    """One connection to a broker; opened again where the broker closes it over what it was sent."""

    def __init__(self, bootstrap: str) -> None:
        """Take the address; nothing is opened."""
        self._host, _, self._port = bootstrap.rpartition(":")
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._correlation = 0

    async def send(self, topic: str, partition: int, batches: bytes) -> Stored | Refused:
        """Send bytes as the batches of a partition, and return what the broker made of them.

        Raises:
            TimeoutError: The broker has not answered.
        """
        self._correlation += 1
        try:
            async with asyncio.timeout(DEADLINE_S):
                response = await self._exchange(_request(self._correlation, topic, partition, batches))
        except (ConnectionError, asyncio.IncompleteReadError):
            self.close()
            return Refused(reason="connection closed")
        return _outcome(response)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _exchange(self, request: bytes) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, int(self._port))
        reader, writer = self._streams
        writer.write(struct.pack(">i", len(request)) + request)
        await writer.drain()
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)


@asynccontextmanager
async def raw_producer(bootstrap: str) -> AsyncIterator[RawProducer]:
    """Yield a raw producer, and close it when the block ends."""
    producer = RawProducer(bootstrap)
    try:
        yield producer
    finally:
        producer.close()


def _request(correlation: int, topic: str, partition: int, batches: bytes) -> bytes:
    return b"".join(
        (
            struct.pack(">hhi", PRODUCE, VERSION, correlation),
            _string("by-hand"),
            struct.pack(">hhi", -1, ACKS_ALL, BROKER_TIMEOUT_MS),
            struct.pack(">i", 1) + _string(topic),
            struct.pack(">iii", 1, partition, len(batches)),
            batches,
        )
    )


def _outcome(response: bytes) -> Stored | Refused:
    """Read the answer of one partition of one topic."""
    (name_size,) = struct.unpack_from(">h", response, 8)
    _, code, offset = struct.unpack_from(">ihq", response, 8 + 2 + name_size + 4)
    return Stored(offset=offset) if code == 0 else Refused(reason=KafkaError(code).name())


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
