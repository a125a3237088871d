"""Topics of a running broker: made, deleted, measured and read, each within a deadline."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import confluent_kafka
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

_DEADLINE_S = 20.0
_POLL_INTERVAL_S = 0.05
_FETCH_TIMEOUT_MS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record as the broker keeps it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def unique_topic(prefix: str = "topic") -> str:
    """Return a topic name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex}"


async def create_topics(
    bootstrap: str,
    *names: str,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
    deadline_s: float = _DEADLINE_S,
) -> None:
    """Create topics of one replica, and wait until every partition has a leader.

    Raises:
        aiokafka.errors.KafkaError: The broker refused one of them.
        TimeoutError: Not done within ``deadline_s``.
    """
    topics = [NewTopic(name, partitions, 1, topic_configs=dict(configs or {})) for name in names]
    async with asyncio.timeout(deadline_s), _admin(bootstrap) as admin:
        response = await admin.create_topics(topics)
        for topic, code, *_ in response.topic_errors:
            if code:
                raise for_code(code)(f"creating {topic}")
        for name in names:
            await _served_partitions(admin, name, at_least=partitions)


async def delete_topics(bootstrap: str, *names: str, deadline_s: float = _DEADLINE_S) -> None:
    """Delete topics, and wait until the broker no longer lists them.

    Raises:
        aiokafka.errors.KafkaError: The broker refused one of them.
        TimeoutError: Not done within ``deadline_s``.
    """
    async with asyncio.timeout(deadline_s), _admin(bootstrap) as admin:
        response = await admin.delete_topics(list(names))
        for topic, code in response.topic_error_codes:
            if code:
                raise for_code(code)(f"deleting {topic}")
        while True:
            if set(names).isdisjoint(await admin.list_topics()):
                return
            await asyncio.sleep(_POLL_INTERVAL_S)


async def end_offsets(bootstrap: str, topic: str, *, deadline_s: float = _DEADLINE_S) -> dict[int, int]:
    """Return the offset after the last record, by partition.

    Raises:
        TimeoutError: The topic does not exist, or its offsets were not told within ``deadline_s``.
    """
    async with asyncio.timeout(deadline_s), _reader(bootstrap, topic) as reader:
        return await _end_offsets(reader)


async def committed_offsets(
    bootstrap: str, group: str, topic: str, *, deadline_s: float = _DEADLINE_S
) -> dict[int, int]:
    """Return what ``group`` has committed, by partition; partitions without a commit are left out.

    Raises:
        TimeoutError: The topic does not exist.
        confluent_kafka.KafkaException: The offsets were not told within ``deadline_s``.
    """
    async with asyncio.timeout(deadline_s), _admin(bootstrap) as admin:
        partitions = await _served_partitions(admin, topic)
    return await asyncio.to_thread(_committed_offsets, bootstrap, group, topic, partitions, deadline_s)


async def until_committed(
    bootstrap: str, group: str, topic: str, offsets: Mapping[int, int], *, deadline_s: float = _DEADLINE_S
) -> None:
    """Wait until ``group`` has committed these offsets and no others.

    Raises:
        AssertionError: It has not within ``deadline_s``.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + deadline_s
    while (committed := await committed_offsets(bootstrap, group, topic)) != offsets:
        if loop.time() > give_up:
            raise AssertionError(f"committed are {committed}, not {offsets}")
        await asyncio.sleep(_POLL_INTERVAL_S)


async def read_all(
    bootstrap: str, topic: str, *, deadline_s: float = _DEADLINE_S
) -> tuple[StoredRecord, ...]:
    """Return every record from the beginning to the end offsets at the time of the call.

    Returns:
        The records by partition, and by offset within each.

    Raises:
        TimeoutError: The topic does not exist, or not every record was read within ``deadline_s``.
    """
    async with asyncio.timeout(deadline_s), _reader(bootstrap, topic) as reader:
        ends = await _end_offsets(reader)
        records: list[StoredRecord] = []
        while not await _has_reached(reader, ends):
            for batch in (await reader.getmany(timeout_ms=_FETCH_TIMEOUT_MS)).values():
                records.extend(stored(message) for message in batch)
    # What was appended while reading came along in the last batches.
    records = [record for record in records if record.offset < ends[record.partition]]
    return tuple(sorted(records, key=lambda record: (record.partition, record.offset)))


@asynccontextmanager
async def _admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


@asynccontextmanager
async def _reader(bootstrap: str, topic: str) -> AsyncIterator[AIOKafkaConsumer]:
    """Open a consumer of the whole topic, from its beginning, outside any group."""
    async with _admin(bootstrap) as admin:
        partitions = await _served_partitions(admin, topic)
    reader = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
    try:
        await reader.start()
        reader.assign([TopicPartition(topic, partition) for partition in partitions])
        yield reader
    finally:
        await reader.stop()


async def _served_partitions(admin: AIOKafkaAdminClient, topic: str, *, at_least: int = 1) -> list[int]:
    """Wait until every partition of the topic has a leader; a topic just made is not known at once."""
    while True:
        (description,) = await admin.describe_topics([topic])
        partitions = description["partitions"]
        if len(partitions) >= at_least and all(partition["leader"] >= 0 for partition in partitions):
            return [partition["partition"] for partition in partitions]
        await asyncio.sleep(_POLL_INTERVAL_S)


async def _end_offsets(reader: AIOKafkaConsumer) -> dict[int, int]:
    ends = await reader.end_offsets(reader.assignment())
    return {partition.partition: offset for partition, offset in ends.items()}


async def _has_reached(reader: AIOKafkaConsumer, ends: Mapping[int, int]) -> bool:
    # By position, not by counting records: compaction and transactions leave offsets without one.
    positions = [(partition.partition, await reader.position(partition)) for partition in reader.assignment()]
    return all(position >= ends[partition] for partition, position in positions)


def _committed_offsets(
    bootstrap: str, group: str, topic: str, partitions: Iterable[int], timeout_s: float
) -> dict[int, int]:
    # Not through aiokafka, which takes the error of a coordinator that is still loading for "no commits".
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        asked = [confluent_kafka.TopicPartition(topic, partition) for partition in partitions]
        answered = consumer.committed(asked, timeout=timeout_s)
    finally:
        consumer.close()
    return {answer.partition: answer.offset for answer in answered if answer.offset >= 0}


def stored(message: ConsumerRecord[bytes, bytes]) -> StoredRecord:
    """Return a record as the broker keeps it, out of a consumer's message."""
    return StoredRecord(
        partition=message.partition,
        offset=message.offset,
        timestamp_ms=message.timestamp,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
    )
