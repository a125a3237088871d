"""FastStream: a subscriber that works on many messages at once, and a publisher."""

from __future__ import annotations

import asyncio
from typing import Any

from faststream import FastStream
from faststream.kafka import KafkaBroker, KafkaMessage, KafkaResponse

from tests.benchmarks.peers.job import running_job

WORKERS = 64


async def main() -> None:
    """Answer requests until it is ended."""
    async with running_job() as job:
        kafka = job.settings.kafka
        broker = KafkaBroker(kafka.bootstrap_servers, acks="all", enable_idempotence=True, logger=None)

        async def answer(message: KafkaMessage) -> KafkaResponse:
            raw: Any = message.raw_message
            return KafkaResponse(await job.look_up(message.body), key=raw.key)

        # As decorators, in the library's documentation; they have no types here.
        published = broker.publisher(kafka.topics.results)(answer)
        broker.subscriber(
            kafka.topics.requests,
            group_id=kafka.group_id,
            auto_offset_reset="earliest",
            max_workers=WORKERS,
        )(published)
        await FastStream(broker, logger=None).run()


if __name__ == "__main__":
    asyncio.run(main())
