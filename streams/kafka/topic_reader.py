"""Reading a topic up to where it ends now, whole or a part of it, outside any consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from pipeline.errors import ConfigurationError
from streams.kafka.connection import client_arguments
from streams.kafka.record_batches import NO_TIMESTAMP
from streams.kafka.records import ConsumedRecord, Undecodable, consumed_record
from streams.kafka.tolerant_fetcher import ISOLATION, read_tolerantly
from streams.kafka.topics import require_topics
from streams.settings.model import KafkaSettings

POLL_MS = 1_000

Bound: TypeAlias = int | datetime | None
"""An offset, which holds in every partition, a time, or no bound."""

Offsets: TypeAlias = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a topic; both bounds belong to it.

    Attributes:
        first: The first record's offset, or the earliest time.
        last: The last record's offset, or the latest time.
    """

    first: Bound = None
    last: Bound = None


EVERYTHING = Span()

MAX_NAMED = 5
"""Most offsets or stretches of offsets that are named of what was passed over."""


@dataclass(slots=True, kw_only=True)
class PassedOver:
    """What was read of a topic and could not be decoded.

    Attributes:
        offsets: How many offsets.
        places: The first of them, as `partition:offset` or `partition:first..last`.
        reason: What is wrong with the first.
    """

    offsets: int = 0
    places: list[str] = field(default_factory=list)
    reason: str = ""
    _stretches: int = 0

    def add(self, record: ConsumedRecord, what: Undecodable) -> None:
        """Count one."""
        first, last = what.first_offset, record.offset
        self.offsets += last - first + 1
        self._stretches += 1
        self.reason = self.reason or what.reason
        if len(self.places) < MAX_NAMED:
            self.places.append(f"{record.partition}:{first}" + (f"..{last}" if last > first else ""))

    def __str__(self) -> str:
        more = self._stretches - len(self.places)
        places = ", ".join(self.places) + (f" and {more} more" if more else "")
        return f"{self.offsets} offsets passed over, cannot be decoded: {places}: {self.reason}"


async def read_topic(
    kafka: KafkaSettings,
    topic: str,
    span: Span = EVERYTHING,
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005 - told, and does nothing
    *,
    passed_over: PassedOver,
) -> AsyncIterator[ConsumedRecord]:
    """Read the records that a topic holds when this starts, each partition in order, then stop.

    Records of transactions that are aborted, or still open, are not among them.

    Args:
        kafka: The brokers.
        topic: Its name.
        span: Which of its records; of times, those that the brokers' index has between them.
        progress: Told from time to time how many offsets are behind, and how many there are.
        passed_over: Told of what cannot be decoded, which is left out.

    Raises:
        ConfigurationError: One line saying why the brokers or the topic cannot be reached.
    """
    count = (await require_topics(kafka, [topic]))[topic]
    partitions = [TopicPartition(topic, number) for number in range(count)]
    consumer = AIOKafkaConsumer(
        **client_arguments(kafka),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level=ISOLATION,
    )
    try:
        await consumer.start()
        read_tolerantly(consumer)
        consumer.assign(partitions)
        starts, ends = await _offsets(consumer, partitions, span)
        for partition, offset in starts.items():
            consumer.seek(partition, offset)
        total = sum(ends[tp] - starts[tp] for tp in partitions)
        at = dict(starts)
        while reading := [tp for tp in partitions if at[tp] < ends[tp]]:
            for tp, messages in (await consumer.getmany(*reading, timeout_ms=POLL_MS)).items():
                for message in messages:
                    if message.offset >= ends[tp]:
                        break
                    record = consumed_record(message, timestamp_ms=_milliseconds_of(message))
                    if record.undecodable is None:
                        yield record
                    else:
                        passed_over.add(record, record.undecodable)
            # Nothing else here waits while the client has records: an interruption would go unnoticed.
            await asyncio.sleep(0)
            # By position, not by counting records: compaction and transactions leave offsets without one.
            at |= {tp: await consumer.position(tp) for tp in reading}
            progress(sum(min(at[tp], ends[tp]) - starts[tp] for tp in partitions), total)
    except KafkaError as error:
        raise ConfigurationError(f"topic {topic} cannot be read: {error}") from error
    finally:
        await consumer.stop()


async def _offsets(
    consumer: AIOKafkaConsumer, partitions: list[TopicPartition], span: Span
) -> tuple[Offsets, Offsets]:
    """Return, of each partition, the first offset of the span and the one after its last."""
    begin, end = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    first, after = dict(begin), dict(end)
    if isinstance(span.first, datetime):
        first = await _offsets_at(consumer, _milliseconds(span.first), end)
    elif span.first is not None:
        first = dict.fromkeys(partitions, span.first)
    if isinstance(span.last, datetime):
        after = await _offsets_at(consumer, _milliseconds(span.last) + 1, end)
    elif span.last is not None:
        after = dict.fromkeys(partitions, span.last + 1)
    starts = {tp: min(max(first[tp], begin[tp]), end[tp]) for tp in partitions}
    return starts, {tp: max(starts[tp], min(after[tp], end[tp])) for tp in partitions}


async def _offsets_at(consumer: AIOKafkaConsumer, time_ms: int, end: Offsets) -> dict[TopicPartition, int]:
    found = await consumer.offsets_for_times(dict.fromkeys(end, time_ms))
    return {tp: end[tp] if found.get(tp) is None else found[tp].offset for tp in end}


def _milliseconds_of(message: Any) -> int:
    """Return the time of a message; those of format 0 have none."""
    return NO_TIMESTAMP if message.timestamp is None else message.timestamp


def _milliseconds(moment: datetime) -> int:
    return max(0, int(moment.timestamp() * 1_000))
