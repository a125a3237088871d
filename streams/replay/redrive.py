"""Dead letters looked at again: what they say, and sending their requests once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from pipeline.errors import LookupStageError
from streams.kafka.records import ConsumedRecord, Headers
from streams.kafka.request_producer import request_producer
from streams.kafka.topic_reader import PassedOver, read_topic
from streams.settings.model import KafkaSettings
from streams.wire.dead_letters import ERROR_HEADER_PREFIX, RecordUndecodable
from streams.wire.decoding import RequestUnreadable, decode_request
from streams.wire.requests import RequestInvalid


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
        """The request's id, if the stage can read it."""
        try:
            return decode_request(self.record.value, self.headers).request_id
        except RequestInvalid as error:
            return error.request_id
        except RequestUnreadable:
            return None

    @property
    def has_request(self) -> bool:
        """Whether there is something to send again, as it was sent."""
        nothing = self.record.value is None and self.record.key is None
        undecodable = self.errors.get("exception.class.name") == RecordUndecodable.__name__
        return not (nothing or undecodable or "value.bytes" in self.errors)

    @property
    def place(self) -> str:
        """Partition and offset on the dead-letter topic: `3:17`."""
        return f"{self.record.partition}:{self.record.offset}"


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
        """Return whether a dead letter is among them."""
        return (
            (self.reason is None or self.reason in letter.reason)
            and (not self.retryable_only or letter.retryable)
            and (self.request_id is None or self.request_id == letter.request_id)
        )


async def dead_letters(
    kafka: KafkaSettings, wanted: DeadLetterFilter, passed_over: PassedOver
) -> AsyncIterator[DeadLetter]:
    """Read the dead letters that are there now.

    Args:
        kafka: Brokers and topics.
        wanted: Which dead letters.
        passed_over: Told of what cannot be decoded.

    Raises:
        ConfigurationError: One line saying why the brokers or the topic cannot be reached.
    """
    async for record in read_topic(kafka, kafka.topics.dead_letters, passed_over=passed_over):
        letter = parse(record)
        if wanted.takes(letter):
            yield letter


def parse(record: ConsumedRecord) -> DeadLetter:
    """Tell a request's own headers from the error's."""
    errors = {
        name.removeprefix(ERROR_HEADER_PREFIX): (value or b"").decode("utf-8", "replace")
        for name, value in record.headers
        if name.startswith(ERROR_HEADER_PREFIX)
    }
    own = tuple(header for header in record.headers if not header[0].startswith(ERROR_HEADER_PREFIX))
    return DeadLetter(record=record, headers=own, errors=errors)


async def redrive(
    kafka: KafkaSettings, wanted: DeadLetterFilter, passed_over: PassedOver, *, rate: float, dry_run: bool
) -> AsyncIterator[DeadLetter]:
    """Send the requests of dead letters to the requests topic again: same key, value and headers.

    A tombstone without key cannot be sent and has no request in it; it is left out, and so is what could not
    be decoded or is not there whole: it would only become a dead letter again.

    Args:
        kafka: Brokers and topics.
        wanted: Which dead letters.
        passed_over: Told of what cannot be decoded on the dead-letter topic.
        rate: Most requests a second.
        dry_run: Send nothing.

    Yields:
        Each dead letter whose request has been sent and confirmed.

    Raises:
        ConfigurationError: One line saying why the brokers or the topics cannot be reached.
        LookupStageError: One line saying which request the brokers did not take; those before it are sent.
    """
    async with AsyncExitStack() as stack:
        sender = None
        if not dry_run:
            producer = await stack.enter_async_context(request_producer(kafka, kafka.topics.requests))
            sender = _Sender(producer, kafka.topics.requests, rate)
        async for letter in dead_letters(kafka, wanted, passed_over):
            if not letter.has_request:
                continue
            if sender is not None:
                await sender.send(letter)
            yield letter


class _Sender:
    """Sends requests one after the other, each confirmed, at most `rate` a second."""

    def __init__(self, producer: AIOKafkaProducer, topic: str, rate: float) -> None:
        self._producer = producer
        self._topic = topic
        self._interval_s = 1 / rate
        self._loop = asyncio.get_running_loop()
        self._next_at = self._loop.time()

    async def send(self, letter: DeadLetter) -> None:
        """Send the request of a dead letter, without the error's headers."""
        await asyncio.sleep(self._next_at - self._loop.time())
        self._next_at = self._loop.time() + self._interval_s
        record = letter.record
        try:
            await self._producer.send_and_wait(
                self._topic, value=record.value, key=record.key, headers=list(letter.headers)
            )
        except KafkaError as error:
            raise LookupStageError(f"dead letter {letter.place} cannot be sent again: {error}") from error
