"""A loop over aiokafka: `getmany`, one gather, confirmed sends, one commit a batch."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.benchmarks.peers.job import Job, running_job

BATCH = 128


async def main() -> None:
    """Answer requests until it is ended."""
    async with running_job() as job:
        kafka = job.settings.kafka
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
                messages = [message for batch in batches.values() for message in batch]
                await asyncio.gather(*(answer(job, producer, message) for message in messages))
                if messages:
                    await consumer.commit()
        finally:
            await consumer.stop()
            await producer.stop()


async def answer(job: Job, producer: AIOKafkaProducer, message: Any) -> None:
    """Answer one request, confirmed."""
    value = await job.look_up(message.value)
    await producer.send_and_wait(job.settings.kafka.topics.results, value=value, key=message.key)


if __name__ == "__main__":
    asyncio.run(main())
