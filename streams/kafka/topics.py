"""The stage's topics: what is there, and creating what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from pipeline.errors import ConfigurationError
from streams.kafka.connection import admin_client
from streams.settings.model import KafkaSettings, Settings

CREATE_TIMEOUT_S = 30.0
MAX_MESSAGE_BYTES = "max.message.bytes"
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
MAX_RECORDING_BYTES = 8 * 1_024 * 1_024
"""What a recordings topic that is made here takes: every hit of a request with its content."""

DEAD_LETTER_HEADROOM_BYTES = 64 * 1_024
"""How much larger than a request its dead letter may be: the error's headers come on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """One of the stage's topics on the brokers.

    Attributes:
        name: Its name.
        partitions: How many it has, 0 where it does not exist.
        created: Whether it was made just now.
        note: What differs from what was asked for, or an empty string.
    """

    name: str
    partitions: int
    created: bool
    note: str


async def require_topics(kafka: KafkaSettings, names: Sequence[str]) -> dict[str, int]:
    """Check that the brokers answer and that topics exist.

    Returns:
        The number of partitions of each topic on the brokers.

    Raises:
        ConfigurationError: One line saying what is not there.
    """
    async with admin_client(kafka) as client:
        existing = await _partition_counts(client)
    missing = [name for name in names if name not in existing]
    if missing:
        command = "topics --recordings" if kafka.topics.recordings in missing else "topics"
        raise ConfigurationError(
            f"kafka.bootstrap-servers = {kafka.bootstrap_servers}: there is no topic {', '.join(missing)};"
            f" `lookup-stage {command}` creates what is missing"
        )
    return existing


async def ensure_topics(
    settings: Settings, *, partitions: int, replication: int, dry_run: bool, recordings: bool = False
) -> Sequence[TopicState]:
    """Create the topics that are missing and report those that differ.

    Args:
        settings: Names and brokers, and whether requests are recorded.
        partitions: Partitions of a topic that is created.
        replication: Copies of a topic that is created.
        dry_run: Create nothing.
        recordings: Include the topic of recordings although no requests are recorded.

    Raises:
        ConfigurationError: One line saying why the brokers cannot be reached or refuse.
    """
    kafka, names = settings.kafka, worker_topics(settings)
    if recordings and kafka.topics.recordings not in names:
        names = (*names, kafka.topics.recordings)
    requests, dead_letters = kafka.topics.requests, kafka.topics.dead_letters
    async with admin_client(kafka) as client:
        existing = await _partition_counts(client)
        sizes = await _record_bytes(client, [name for name in names if name in existing])
        needed = sizes.get(requests, DEFAULT_MAX_MESSAGE_BYTES) + DEAD_LETTER_HEADROOM_BYTES
        missing = [name for name in names if name not in existing]
        if missing and not dry_run:
            configs = {
                dead_letters: {MAX_MESSAGE_BYTES: str(needed)},
                kafka.topics.recordings: {MAX_MESSAGE_BYTES: str(MAX_RECORDING_BYTES)},
            }
            await _create(
                client,
                [
                    NewTopic(name, partitions, replication, topic_configs=configs.get(name, {}))
                    for name in missing
                ],
            )
    return [
        _state(
            name,
            existing.get(name, 0),
            partitions,
            created=name in missing and not dry_run,
            note=_too_small(sizes.get(name, needed), needed) if name == dead_letters else "",
        )
        for name in names
    ]


async def max_record_bytes(kafka: KafkaSettings, names: Sequence[str]) -> dict[str, int]:
    """Ask the brokers how large a record of each topic may be.

    Returns:
        `max.message.bytes` of each topic; Kafka's own default where the brokers do not tell.

    Raises:
        ConfigurationError: One line saying why the brokers cannot be reached.
    """
    async with admin_client(kafka) as client:
        return dict.fromkeys(names, DEFAULT_MAX_MESSAGE_BYTES) | await _record_bytes(client, names)


async def dead_letters_too_small(kafka: KafkaSettings) -> str | None:
    """Return how the dead-letter topic takes less than the dead letter of the largest request.

    Returns:
        What it takes and what it should; `None` where it takes enough, or the brokers do not tell.

    Raises:
        ConfigurationError: One line saying why the brokers cannot be reached.
    """
    requests, dead_letters = kafka.topics.requests, kafka.topics.dead_letters
    async with admin_client(kafka) as client:
        sizes = await _record_bytes(client, (requests, dead_letters))
    if sizes.keys() != {requests, dead_letters}:
        return None
    return _too_small(sizes[dead_letters], sizes[requests] + DEAD_LETTER_HEADROOM_BYTES) or None


def worker_topics(settings: Settings) -> tuple[str, ...]:
    """Name the topics that the worker reads or writes; that of recordings only where any are made."""
    topics = settings.kafka.topics
    recordings = (topics.recordings,) if settings.stage.recorded_share else ()
    return (topics.requests, topics.results, topics.dead_letters, *recordings)


async def _partition_counts(client: AIOKafkaAdminClient) -> dict[str, int]:
    names = await client.list_topics()
    return {topic["topic"]: len(topic["partitions"]) for topic in await client.describe_topics(sorted(names))}


async def _record_bytes(client: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, int]:
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, name, configs={MAX_MESSAGE_BYTES: None}) for name in names
    ]
    """Gives what the brokers tell; topics of which they do not are left out."""
    sizes: dict[str, int] = {}
    try:
        responses = await client.describe_configs(resources)
    except KafkaError:  # a broker that does not know the request
        return sizes
    for response in responses:
        for _code, _message, _kind, topic, entries in response.resources:
            told = {name: value for name, value, *_ in entries}
            if told.get(MAX_MESSAGE_BYTES):
                sizes[topic] = int(told[MAX_MESSAGE_BYTES])
    return sizes


async def _create(client: AIOKafkaAdminClient, wanted: Sequence[NewTopic]) -> None:
    names = ", ".join(topic.name for topic in wanted)
    try:
        async with asyncio.timeout(CREATE_TIMEOUT_S):
            response = await client.create_topics(list(wanted))
    except (KafkaError, TimeoutError) as error:
        raise ConfigurationError(f"topics {names} cannot be created: {error}") from error
    for name, code, *message in response.topic_errors:
        if code:
            reason = message[0] if message and message[0] else for_code(code).__name__
            raise ConfigurationError(f"topic {name} cannot be created: {reason}")


def _state(name: str, existing: int, partitions: int, *, created: bool, note: str) -> TopicState:
    if created:
        return TopicState(name=name, partitions=partitions, created=True, note="")
    if not existing:
        return TopicState(name=name, partitions=0, created=False, note="is missing")
    other_count = "" if existing == partitions else f"has {existing} partitions, not {partitions}"
    notes = [each for each in (other_count, note) if each]
    return TopicState(name=name, partitions=existing, created=False, note="; ".join(notes))


def _too_small(size: int, needed: int) -> str:
    """Say that a request which cannot be answered may not fit, and would stop the worker."""
    if size >= needed:
        return ""
    return f"takes {size} bytes, a request with the error's headers may have {needed}"
