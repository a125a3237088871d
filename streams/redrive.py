"""Dead letters looked at again: what they say, and sending their requests once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import orjson
from aiokafka import AIOKafkaProducer

from streams.connection import client_arguments
from streams.dead_letters import ERROR_HEADER_PREFIX
from streams.records import ConsumedRecord, Headers
from streams.settings import KafkaSettings
from streams.topic_reader import read_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A dead letter with its error's headers read.

    Attributes:
        record: The record on the dead-letter topic.
        headers: The request's own headers, in order.
        errors: The error's headers by name, without their prefix.
    """

    record: ConsumedRecord
    headers: Headers
    errors: dict[str, str]

    @property
    def retryable(self) -> bool:
        """Whether sending the request again may help."""
        return self.errors.get("retryable") == "true"

    @property
    def reason(self) -> str:
        """Where it went wrong and with what: `search:SearchUnavailable`."""
        return f"{self.errors.get('stage', '?')}:{self.errors.get('exception.class.name', '?')}"

    @property
    def request_id(self) -> str | None:
        """The request's id, if it can be read."""
        try:
            body = orjson.loads(self.record.value or b"")
        except orjson.JSONDecodeError:
            return None
        request_id = body.get("request_id") if isinstance(body, dict) else None
        return request_id if isinstance(request_id, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters to look at.

    Attributes:
        reason: Only those whose reason contains this text.
        retryable_only: Only those where sending again may help.
        request_id: Only that request's.
    """

    reason: str | None = None
    retryable_only: bool = False
    request_id: str | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Says whether a dead letter is among them."""
        return (
            (self.reason is None or self.reason in letter.reason)
            and (not self.retryable_only or letter.retryable)
            and (self.request_id is None or self.request_id == letter.request_id)
        )


async def dead_letters(kafka: KafkaSettings, wanted: DeadLetterFilter) -> AsyncIterator[DeadLetter]:
    """Reads the dead letters that are there now.

    Raises:
        ConfigurationError: One line saying why the brokers or the topic cannot be reached.
    """
    async for record in read_topic(kafka, kafka.topics.dead_letters):
        letter = parse(record)
        if wanted.takes(letter):
            yield letter


def parse(record: ConsumedRecord) -> DeadLetter:
    """Tells a request's own headers from the error's."""
    errors = {
        name.removeprefix(ERROR_HEADER_PREFIX): (value or b"").decode("utf-8", "replace")
        for name, value in record.headers
        if name.startswith(ERROR_HEADER_PREFIX)
    }
    own = tuple(header for header in record.headers if not header[0].startswith(ERROR_HEADER_PREFIX))
    return DeadLetter(record=record, headers=own, errors=errors)


async def redrive(
    kafka: KafkaSettings, wanted: DeadLetterFilter, *, rate: float, dry_run: bool
) -> AsyncIterator[DeadLetter]:
    """Sends the requests of dead letters to the requests topic again: same key, value and headers.

    A tombstone without key cannot be sent and has no request in it; it is passed over.

    Args:
        kafka: Brokers and topics.
        wanted: Which dead letters.
        rate: Most requests a second.
        dry_run: Send nothing.

    Yields:
        Each dead letter whose request has been sent and confirmed.
    """
    producer = AIOKafkaProducer(**client_arguments(kafka), acks="all", enable_idempotence=True)
    await producer.start()
    loop = asyncio.get_running_loop()
    next_at = loop.time()
    try:
        async for letter in dead_letters(kafka, wanted):
            record = letter.record
            if record.value is None and record.key is None:
                continue
            if not dry_run:
                await asyncio.sleep(next_at - loop.time())
                next_at = max(next_at, loop.time()) + 1 / rate
                await producer.send_and_wait(
                    kafka.topics.requests, value=record.value, key=record.key, headers=list(letter.headers)
                )
            yield letter
    finally:
        await producer.stop()
