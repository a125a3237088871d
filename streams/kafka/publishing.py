"""Publishing with confirmation: when `publish` returns, the brokers have the records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer

from pipeline.time_limits import TimeLimit
from streams.kafka.records import ProducedRecord

RECORD_OVERHEAD_BYTES = 256
"""More than a batch and a record of its own add to key, value and headers."""

HEADER_OVERHEAD_BYTES = 10
"""The most that the lengths of a header's name and value take."""


NO_KEY = object()
"""Stands for the key of a tombstone that has none: the producer refuses a record with neither key nor value.

It would take a batch with such a record in it, but only while no other record waits for the same partition.
"""


class RecordPublisher(Protocol):
    """Writes records so that they are not lost."""

    def check_size(self, record: ProducedRecord) -> None:
        """Check that the brokers will take a record.

        Raises:
            RecordTooLarge: They will not.
        """

    async def publish(self, records: Sequence[ProducedRecord]) -> None:
        """Write records and wait until every one is confirmed; raises where one is not."""


class RecordTooLarge(Exception):
    """A record is larger than the brokers take.

    Attributes:
        excess_bytes: By how much.
    """

    def __init__(self, message: str, *, excess_bytes: int) -> None:
        """Take one line and by how much the record is too large."""
        super().__init__(message)
        self.excess_bytes = excess_bytes


class Publisher:
    """Writes records with an idempotent producer and `acks=all`."""

    def __init__(self, producer: AIOKafkaProducer, *, timeout_s: float, max_bytes: Mapping[str, int]) -> None:
        """Initialize with what it writes with.

        Args:
            producer: Started, idempotent, with `acks=all` and `key_as_bytes`.
            timeout_s: Seconds in which the brokers must confirm.
            max_bytes: Largest record of each topic. A record that the brokers refuse would break the
                producer's sequence, so it must not be sent.
        """
        self._producer = producer
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    def check_size(self, record: ProducedRecord) -> None:
        """Check that the brokers will take a record.

        Raises:
            RecordTooLarge: They will not.
        """
        size = _size(record)
        allowed = self._max_bytes[record.topic]
        if size > allowed:
            raise RecordTooLarge(
                f"the record has {size} bytes, {record.topic} takes {allowed}", excess_bytes=size - allowed
            )

    async def publish(self, records: Sequence[ProducedRecord]) -> None:
        """Write records and wait until every one is confirmed.

        Raises:
            TimeoutError: The brokers did not confirm in time.
            aiokafka.errors.KafkaError: The brokers refused one of them.
        """
        try:
            with TimeLimit(asyncio.get_running_loop().time() + self._timeout_s):
                confirmations = [await self._send(record) for record in records]
                if len(confirmations) == 1:  # nearly always
                    await confirmations[0]
                else:
                    await asyncio.gather(*confirmations)
        except TimeoutError as error:
            raise TimeoutError(f"the brokers did not confirm it within {self._timeout_s:g} s") from error

    async def _send(self, record: ProducedRecord) -> asyncio.Future[object]:
        nothing = record.key is None and record.value is None
        sent: asyncio.Future[object] = await self._producer.send(
            record.topic,
            value=record.value,
            key=NO_KEY if nothing else record.key,
            headers=list(record.headers),
        )
        return sent


def key_as_bytes(key: Any) -> bytes | None:
    """Return a key as it is written; a publisher's producer must serialize keys with this."""
    return None if key is NO_KEY else key


def _size(record: ProducedRecord) -> int:
    size = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
    size += HEADER_OVERHEAD_BYTES * len(record.headers)
    for name, value in record.headers:
        size += len(name.encode()) + len(value or b"")
    return size
