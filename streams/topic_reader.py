"""Reading a topic from where it begins to where it ends now, outside any consumer group."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from pipeline.errors import ConfigurationError
from streams.connection import client_arguments
from streams.records import ConsumedRecord, consumed_record
from streams.settings import KafkaSettings
from streams.topics import require_topics

POLL_MS = 1_000


async def read_topic(kafka: KafkaSettings, topic: str) -> AsyncIterator[ConsumedRecord]:
    """Reads the records that a topic holds when this starts, each partition in order, then stops.

    Raises:
        ConfigurationError: One line saying why the brokers or the topic cannot be reached.
    """
    count = (await require_topics(kafka, [topic]))[topic]
    partitions = [TopicPartition(topic, number) for number in range(count)]
    consumer = AIOKafkaConsumer(
        **client_arguments(kafka), enable_auto_commit=False, auto_offset_reset="earliest"
    )
    try:
        await consumer.start()
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        await consumer.seek_to_beginning()
        while reading := [tp for tp in partitions if await consumer.position(tp) < ends[tp]]:
            for records in (await consumer.getmany(*reading, timeout_ms=POLL_MS)).values():
                for record in records:
                    if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                        yield consumed_record(record, timestamp_ms=record.timestamp)
    except KafkaError as error:
        raise ConfigurationError(f"topic {topic} cannot be read: {error}") from error
    finally:
        await consumer.stop()
