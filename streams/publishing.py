"""Publishing with confirmation: when `publish` returns, the brokers have the records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError

from streams.records import ProducedRecord


class RecordTooLarge(Exception):
    """A record is larger than the brokers take."""


class Publisher:
    """Writes records with an idempotent producer and `acks=all`."""

    def __init__(self, producer: AIOKafkaProducer, *, timeout_s: float) -> None:
        """Takes a started producer and the seconds in which the brokers must confirm."""
        self._producer = producer
        self._timeout_s = timeout_s

    async def publish(self, records: Sequence[ProducedRecord]) -> None:
        """Writes records and waits until every one is confirmed.

        Raises:
            RecordTooLarge: One of them is larger than the brokers take.
            TimeoutError: The brokers did not confirm in time.
            aiokafka.errors.KafkaError: The brokers refused one of them.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                confirmations = [await self._send(record) for record in records]
                await asyncio.gather(*confirmations)
        except MessageSizeTooLargeError as error:
            raise RecordTooLarge(str(error)) from error

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
