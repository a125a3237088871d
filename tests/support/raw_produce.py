"""Batches written to a broker as they are, byte for byte, past every client's checks."""

from __future__ import annotations

import asyncio

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NotLeaderForPartitionError, for_code
from aiokafka.protocol.produce import ProduceRequest

DEADLINE_S = 20.0


async def produce_batches(bootstrap: str, topic: str, *batches: bytes, partition: int = 0) -> list[int]:
    """Write batches one by one; their base offsets must be 0.

    Returns:
        The offset that each begins at.

    Raises:
        aiokafka.errors.KafkaError: The broker refused one.
    """
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    try:
        await client.set_topics([topic])
        offsets = []
        for batch in batches:
            request = ProduceRequest(
                transactional_id=None,
                required_acks=-1,
                timeout=10_000,
                topics=[(topic, [(partition, batch)])],
            )
            async with asyncio.timeout(DEADLINE_S):
                offsets.append(await _offset_of(client, request))
    finally:
        await client.close()
    return offsets


async def _offset_of(client: AIOKafkaClient, request: ProduceRequest) -> int:
    """Send until the broker has taken its partition over, which may be just made."""
    while True:
        node = next(iter(client.cluster.brokers())).nodeId
        response = await client.send(node, request)
        ((_, ((_, code, offset, *_rest),)),) = response.topics
        error = for_code(code)
        if error is NotLeaderForPartitionError:
            await asyncio.sleep(0.1)
        elif code:
            raise error
        else:
            return int(offset)
