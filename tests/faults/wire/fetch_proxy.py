"""A proxy between a broker and its consumers that spoils chosen batches, each time in the same way."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from typing import Any, TypeAlias

from aiokafka.protocol import fetch

from tests.faults.wire.batches import LOG_OVERHEAD, MAGIC_AT

Swap: TypeAlias = Callable[[bytes, int], bytes]
"""Turns a stored batch, and how often it was fetched before, into what a consumer gets."""

Place: TypeAlias = tuple[int, int]
"""Partition and offset."""

FETCH = 1
MOST_BATCHES = 50
"""Of one partition in one response: what comes behind a spoiled batch is fetched again and again."""

NOTHING_YET_S = 0.05
"""How long a response without records is held up: the broker answers at once, since it has some."""


@dataclass(slots=True)
class FetchProxy:
    """Relays every byte but those of chosen batches of one topic.

    Attributes:
        topic: The topic.
        swaps: What happens to the batch that holds an offset of a partition.
        released: By partition, the offset from which on consumers do not yet see anything.
        fetches: How often each batch was fetched that has a swap, by partition and base offset.
    """

    topic: str
    swaps: dict[Place, Swap] = field(default_factory=dict)
    released: dict[int, int] = field(default_factory=dict)
    fetches: Counter[Place] = field(default_factory=Counter)

    def release(self, ends: Mapping[int, int]) -> None:
        """Let consumers see what is before the offsets given."""
        self.released |= ends

    @asynccontextmanager
    async def serve(self, address: str, upstream: str) -> AsyncIterator[None]:
        """Listen at an address, and relay to the broker, for as long as the block goes on.

        Raises:
            ExceptionGroup: A response could not be relayed.
        """
        relays: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            relays.add(task)
            await self._relay(reader, writer, upstream)

        server = await asyncio.start_server(connected, *_host_and_port(address))
        try:
            yield
        finally:
            server.close()
            for relay in relays:
                relay.cancel()
            ends = await asyncio.gather(*relays, return_exceptions=True)
        failures = [end for end in ends if isinstance(end, Exception)]
        if failures:
            raise ExceptionGroup("the proxy failed", failures)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: str) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(*_host_and_port(upstream))
        fetches: dict[int, int] = {}
        ways = [
            asyncio.create_task(_requests(reader, broker_writer, fetches)),
            asyncio.create_task(self._responses(broker_reader, writer, fetches)),
        ]
        try:
            # Where one side hangs up, so does the other.
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)
            broker_writer.close()
            writer.close()
        for way in done:
            way.result()

    async def _responses(
        self, broker: asyncio.StreamReader, client: asyncio.StreamWriter, fetches: dict[int, int]
    ) -> None:
        async for response in _frames(broker):
            (correlation,) = struct.unpack_from(">i", response)
            version = fetches.pop(correlation, None)
            relayed = response
            if version is not None:
                relayed, is_empty = self._rewritten(response, version)
                if is_empty:
                    await asyncio.sleep(NOTHING_YET_S)
            if not await _write(client, relayed):
                return

    def _rewritten(self, frame: bytes, version: int) -> tuple[bytes, bool]:
        """Return a fetch response as the consumer gets it, and whether there are no records in it."""
        response = getattr(fetch, f"FetchResponse_v{version}").decode(BytesIO(frame[4:]))
        *before, topics = _values(response)
        rewritten = [
            (topic, [self._partition(topic, tuple(partition)) for partition in partitions])
            for topic, partitions in topics
        ]
        held = not any(partition[-1] for _, partitions in rewritten for partition in partitions)
        return frame[:4] + type(response)(*before, rewritten).encode(), held

    def _partition(self, topic: str, data: tuple[Any, ...]) -> tuple[Any, ...]:
        if topic != self.topic:
            return data
        number, code, high_watermark, last_stable, *rest, batches = data
        end = self.released.get(number, 0)
        seen = b"".join(islice(self._seen(number, bytes(batches or b""), end), MOST_BATCHES))
        return number, code, min(high_watermark, end), min(last_stable, end), *rest, seen

    def _seen(self, partition: int, batches: bytes, end: int) -> Iterator[bytes]:
        for base, last, batch in split(batches):
            if base >= end:
                return
            swap = self._swap(partition, base, last)
            if swap is None:
                yield batch
            else:
                yield swap(batch, self.fetches[partition, base])
                self.fetches[partition, base] += 1

    def _swap(self, partition: int, base: int, last: int) -> Swap | None:
        found = (self.swaps.get((partition, offset)) for offset in range(base, last + 1))
        return next((swap for swap in found if swap is not None), None)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def split(batches: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield first offset, last offset and bytes of each whole batch of version 2, as brokers store them."""
    at = 0
    while at + LOG_OVERHEAD <= len(batches):
        base, length = struct.unpack_from(">qi", batches, at)
        batch = batches[at : at + LOG_OVERHEAD + length]
        if len(batch) < LOG_OVERHEAD + length:
            return
        assert batch[MAGIC_AT] == 2, "the broker stores version 2"
        (last_offset_delta,) = struct.unpack_from(">i", batch, 23)
        yield base, base + last_offset_delta, batch
        at += len(batch)


async def _requests(
    client: asyncio.StreamReader, broker: asyncio.StreamWriter, fetches: dict[int, int]
) -> None:
    """Relay requests, and note which of them are fetches, of which version."""
    async for frame in _frames(client):
        api, version, correlation = struct.unpack_from(">hhi", frame)
        if api == FETCH:
            fetches[correlation] = version
        if not await _write(broker, frame):
            return


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield requests or responses without their length, until the other side hangs up."""
    while True:
        try:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            yield await reader.readexactly(size)
        except (ConnectionError, asyncio.IncompleteReadError):
            return


async def _write(writer: asyncio.StreamWriter, frame: bytes) -> bool:
    """Write a frame, and say whether the other side was still there."""
    try:
        writer.write(struct.pack(">i", len(frame)) + frame)
        await writer.drain()
    except ConnectionError:
        return False
    return True


def _values(response: Any) -> list[Any]:
    return [getattr(response, name) for name in response.SCHEMA.names]
