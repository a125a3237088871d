"""No search at all: aiokafka consumes, orjson reads, the same is produced. What Python can do on Kafka."""

from __future__ import annotations

import asyncio

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from streams.settings.model import Settings

BATCH = 1_000


async def main() -> None:
    """Pass requests on until it is ended."""
    kafka = Settings().kafka
    consumer = AIOKafkaConsumer(
        kafka.topics.requests,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=kafka.group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, acks="all", enable_idempotence=True
    )
    await producer.start()
    await consumer.start()
    try:
        while True:
            batches = await consumer.getmany(timeout_ms=500, max_records=BATCH)
            confirmations = [
                await producer.send(
                    kafka.topics.results, value=orjson.dumps(orjson.loads(message.value)), key=message.key
                )
                for batch in batches.values()
                for message in batch
            ]
            await asyncio.gather(*confirmations)
            if confirmations:
                await consumer.commit()
    finally:
        await consumer.stop()
        await producer.stop()


if __name__ == "__main__":
    asyncio.run(main())
