"""Publishing with confirmation: when `publish` returns, the brokers have the records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from aiokafka import AIOKafkaProducer

from streams.records import ProducedRecord

RECORD_OVERHEAD_BYTES = 256
"""More than a batch and a record of its own add to key, value and headers."""


class RecordPublisher(Protocol):
    """Writes records so that they are not lost."""

    def check_size(self, record: ProducedRecord) -> None:
        """Checks that the brokers will take a record.

        Raises:
            RecordTooLarge: They will not.
        """

    async def publish(self, records: Sequence[ProducedRecord]) -> None:
        """Writes records and waits until every one is confirmed; raises where one is not."""


class RecordTooLarge(Exception):
    """A record is larger than the brokers take."""


class Publisher:
    """Writes records with an idempotent producer and `acks=all`."""

    def __init__(self, producer: AIOKafkaProducer, *, timeout_s: float, max_bytes: Mapping[str, int]) -> None:
        """Takes what it writes with.

        Args:
            producer: Started, idempotent, with `acks=all`.
            timeout_s: Seconds in which the brokers must confirm.
            max_bytes: Largest record of each topic. A record that the brokers refuse would break the
                producer's sequence, so it must not be sent.
        """
        self._producer = producer
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    def check_size(self, record: ProducedRecord) -> None:
        """Checks that the brokers will take a record.

        Raises:
            RecordTooLarge: They will not.
        """
        size = _size(record)
        allowed = self._max_bytes[record.topic]
        if size > allowed:
            raise RecordTooLarge(f"the record has {size} bytes, {record.topic} takes {allowed}")

    async def publish(self, records: Sequence[ProducedRecord]) -> None:
        """Writes records and waits until every one is confirmed.

        Raises:
            TimeoutError: The brokers did not confirm in time.
            aiokafka.errors.KafkaError: The brokers refused one of them.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                confirmations = [await self._send(record) for record in records]
                await asyncio.gather(*confirmations)
        except TimeoutError as error:
            raise TimeoutError(f"the brokers did not confirm it within {self._timeout_s:g} s") from error

    async def _send(self, record: ProducedRecord) -> asyncio.Future[object]:
        headers = list(record.headers)
        if record.value is None and record.key is None:
            return await self._send_empty(record, headers)
        sent: asyncio.Future[object] = await self._producer.send(
            record.topic, value=record.value, key=record.key, headers=headers
        )
        return sent

    async def _send_empty(
        self, record: ProducedRecord, headers: list[tuple[str, bytes | None]]
    ) -> asyncio.Future[object]:
        """Writes a tombstone without key, which the producer's `send` refuses."""
        batch = self._producer.create_batch()
        batch.append(key=None, value=None, timestamp=None, headers=headers)
        partitions = await self._producer.partitions_for(record.topic)
        sent: asyncio.Future[object] = await self._producer.send_batch(
            batch, record.topic, partition=min(partitions)
        )
        return sent


def _size(record: ProducedRecord) -> int:
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + RECORD_OVERHEAD_BYTES
