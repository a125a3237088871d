"""Recorded requests sent to a topic again, to drive a whole deployment."""

from __future__ import annotations

from collections.abc import Iterable

from aiokafka.errors import KafkaError

from pipeline.errors import ConfigurationError, LookupStageError
from streams.kafka.records import Headers
from streams.kafka.request_producer import request_producer
from streams.recordings.files import NumberedRecording
from streams.recordings.recording import Recording
from streams.recordings.requests import lasting_value
from streams.replay.in_order import in_order
from streams.settings.model import KafkaSettings
from streams.wire.cloud_events import HEADER_EXPIRY_TIME

HEADER_REPLAY = "lookup-replay"
"""Marks a request that was sent before; its value is the request's id."""

UNCONFIRMED = 500
"""Most requests on their way to the brokers at once."""


def check_topic(kafka: KafkaSettings, topic: str) -> None:
    """Refuse the topics of the stage that is configured.

    Raises:
        ConfigurationError: It is one of them.
    """
    for name, own in kafka.topics.model_dump().items():
        if topic == own:
            key = f"kafka.topics.{name.replace('_', '-')}"
            raise ConfigurationError(
                f"--to-topic = {topic}: must not be {key}: nobody asked again; --force sends anyway"
            )


async def resend(
    kafka: KafkaSettings, topic: str, recordings: Iterable[NumberedRecording], *, rate: float | None
) -> int:
    """Send recorded requests with their keys and headers, marked, and without their expiry.

    Args:
        kafka: The brokers.
        topic: Where to.
        recordings: Whose requests.
        rate: Most requests a second; `None` for as many as the brokers confirm.

    Returns:
        How many were sent and confirmed.

    Raises:
        ConfigurationError: One line saying why the brokers or the topic cannot be reached.
        LookupStageError: The brokers do not take one of them.
    """
    async with request_producer(kafka, topic) as producer:

        async def send(numbered: NumberedRecording) -> None:
            recording = numbered.recording
            try:
                await producer.send_and_wait(
                    topic,
                    value=lasting_value(recording),
                    key=recording.key,
                    headers=list(_headers(recording)),
                )
            except KafkaError as error:
                raise LookupStageError(f"line {numbered.number}: cannot be sent: {error}") from error

        count = 0
        async for _ in in_order(map(send, recordings), concurrency=UNCONFIRMED, rate=rate):
            count += 1
        return count


def _headers(recording: Recording) -> Headers:
    # With its expiry, long past, a request would be answered `expired`.
    kept = tuple(header for header in recording.headers if header[0] != HEADER_EXPIRY_TIME)
    return (*kept, (HEADER_REPLAY, recording.request_id.encode()))
