"""The client for agents on Apache Kafka."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from streams.client import LookupClient, connected_client
from streams.settings.model import KafkaSettings, TopicSettings
from streams.wire.results import LookupResult, encode_result
from tests.support.worker import StageTopics

pytestmark = pytest.mark.kafka


async def test_results_in_partitions_that_were_added_later_are_read(kafka: str) -> None:
    """A client that is connected for long does not miss what goes to a partition that is new."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create(partitions=1)
    settings = KafkaSettings(
        bootstrap_servers=kafka, topics=TopicSettings(requests=topics.requests, results=topics.results)
    )
    async with connected_client(settings) as client:
        asking = asyncio.create_task(client.look_up({"request_id": "r-1", "query": "q"}))
        await _grow(kafka, topics.results)
        await _until_known(client, topics.results)
        await _answer(topics, partition=1)
        assert await asking == LookupResult(request_id="r-1", status="empty")


async def _grow(kafka: str, topic: str) -> None:
    """Return a topic a second partition."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.create_partitions({topic: NewPartitions(2)})
    await admin.close()


async def _until_known(client: LookupClient, topic: str) -> None:
    """Have the client ask the brokers at once for what it would ask them within five minutes."""
    async with asyncio.timeout(30):
        while len(client._consumer.partitions_for_topic(topic) or ()) < 2:
            await client._consumer._client.force_metadata_update()


async def _answer(topics: StageTopics, *, partition: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=topics.bootstrap)
    await producer.start()
    await producer.send_and_wait(
        topics.results,
        value=encode_result(LookupResult(request_id="r-1", status="empty")),
        partition=partition,
        headers=[("lookup-request-id", b"r-1")],
    )
    await producer.stop()
