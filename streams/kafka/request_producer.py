"""A producer for requests that are sent by people's commands: what was lost, or recorded, is sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer

from streams.kafka.connection import client_arguments
from streams.kafka.topics import max_record_bytes, require_topics
from streams.settings.model import KafkaSettings


@asynccontextmanager
async def request_producer(kafka: KafkaSettings, topic: str) -> AsyncIterator[AIOKafkaProducer]:
    """Start a producer that writes to a topic whatever the topic takes, each record once.

    Raises:
        ConfigurationError: One line saying why the brokers or the topic cannot be reached.
    """
    await require_topics(kafka, [topic])
    producer = AIOKafkaProducer(
        **client_arguments(kafka),
        acks="all",
        enable_idempotence=True,
        max_request_size=(await max_record_bytes(kafka, [topic]))[topic],
    )
    try:
        await producer.start()
        yield producer
    finally:
        await producer.stop()
