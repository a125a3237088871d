"""A client for agents written in Python: send a request, await its result by request id."""

from __future__ import annotations

import asyncio
import uuid
import warnings
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import orjson
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from pipeline.errors import LookupStageError
from streams.kafka.connection import client_arguments
from streams.kafka.records import Headers, UndecodableHeaders
from streams.kafka.tolerant_fetcher import ISOLATION, read_tolerantly
from streams.kafka.topics import max_record_bytes, require_topics
from streams.settings.model import KafkaSettings, TopicSettings
from streams.wire.near_misses import near_misses
from streams.wire.results import HEADER_REQUEST_ID, LookupResult, decode_result

log = structlog.get_logger(__name__)

POLL_MS = 1_000
MAX_SHOWN_CHARS = 300


class ClientClosed(LookupStageError):
    """The client no longer reads results: it was closed, or the brokers refuse."""


class ResultUnreadable(LookupStageError, ValueError):
    """What came for a request on the results topic is no result of it."""


class LookupClient:
    """Sends requests and awaits their results, many at once. Made by `connected_client`."""

    def __init__(self, producer: AIOKafkaProducer, consumer: AIOKafkaConsumer, topics: TopicSettings) -> None:
        """Initialize with started clients; the consumer reads the results topic from its end."""
        self._producer = producer
        self._consumer = consumer
        self._topics = topics
        self._waiting: dict[str, asyncio.Future[LookupResult]] = {}
        self._closed: str | None = None

    async def look_up(
        self,
        request: Mapping[str, Any],
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timeout_s: float = 30.0,
    ) -> LookupResult:
        """Send a request and await its result.

        Fields that the stage does not know are sent, and ignored there. One that is nearly a known field is
        warned of with `UserWarning`, for it was probably meant to be that.

        Args:
            request: The request's fields; a `request_id` is made up where it has none.
            key: Key of the request and of its result.
            headers: Headers of the request.
            timeout_s: Seconds to wait for the result.

        Raises:
            TimeoutError: No result came in time.
            ValueError: The request's id is no text, or one that this client is waiting for already.
            TypeError: The request is not JSON.
            ResultUnreadable: What came for it is no result: a tombstone, not JSON, or of another form.
            ClientClosed: The client was closed before the result came.
            aiokafka.errors.KafkaError: The request could not be sent.
        """
        request_id = request.get("request_id")
        if request_id is None:
            request_id = str(uuid.uuid4())
        body = orjson.dumps({**request, "request_id": request_id})
        for name, meant in near_misses(request).items():
            warnings.warn(f"request field {name} is ignored: did you mean {meant}?", stacklevel=2)
        with self._expected(request_id) as result:
            async with asyncio.timeout(timeout_s):
                await self._producer.send_and_wait(
                    self._topics.requests, value=body, key=key, headers=list(headers)
                )
                return await result

    async def receive(self) -> None:
        """Hand results to those who wait for them, until it is cancelled.

        Whoever still waits then gets `ClientClosed`, and so does whoever asks later.
        """
        reason = "the client is closed"
        try:
            while True:
                for messages in (await self._consumer.getmany(timeout_ms=POLL_MS)).values():
                    for message in messages:
                        self._hand_over(message)
                await self._take_in_new_partitions()
        except KafkaError as error:
            reason = f"results can no longer be read: {error}"
        finally:
            self._closed = reason
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ClientClosed(reason))

    def _hand_over(self, message: Any) -> None:
        """Give a result to whoever waits for it; what is wrong with it is their concern alone."""
        if isinstance(message.headers, UndecodableHeaders):
            what = message.headers.undecodable
            log.warning(
                "results_undecodable",
                partition=message.partition,
                first_offset=what.first_offset,
                last_offset=message.offset,
                why=what.reason,
            )
            return
        request_id = _request_id(message.headers)
        waiting = self._waiting.get(request_id)
        if waiting is None or waiting.done():
            return
        try:
            waiting.set_result(_result_of(message, request_id))
        except ResultUnreadable as error:
            waiting.set_exception(error)

    async def _take_in_new_partitions(self) -> None:
        """Read the partitions too that the topic was given since, from their beginning."""
        known = self._consumer.assignment()
        numbers = self._consumer.partitions_for_topic(self._topics.results) or ()
        new = {TopicPartition(self._topics.results, number) for number in numbers} - known
        if not new:
            return
        places = {partition: await self._consumer.position(partition) for partition in known}
        self._consumer.assign([*known, *new])
        for partition, offset in (places | dict.fromkeys(new, 0)).items():
            self._consumer.seek(partition, offset)

    @contextmanager
    def _expected(self, request_id: object) -> Iterator[asyncio.Future[LookupResult]]:
        """Note who waits for a result."""
        if not isinstance(request_id, str) or not request_id:
            raise ValueError(f"request_id must be a string that is not empty, not {request_id!r}")
        if request_id in self._waiting:
            raise ValueError(f"request_id = {request_id!r}: this client is waiting for that id already")
        if self._closed is not None:
            raise ClientClosed(self._closed)
        result: asyncio.Future[LookupResult] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = result
        try:
            yield result
        finally:
            del self._waiting[request_id]
            if not result.cancel() and not result.cancelled():
                result.exception()  # which nobody may have awaited: it must not be logged as lost


@asynccontextmanager
async def connected_client(kafka: KafkaSettings) -> AsyncIterator[LookupClient]:
    """Connect a client and disconnect it again.

    Raises:
        ConfigurationError: One line saying why the brokers or the topics cannot be reached.
    """
    requests, results = kafka.topics.requests, kafka.topics.results
    partitions = await require_topics(kafka, (requests, results))
    producer = AIOKafkaProducer(
        **client_arguments(kafka),
        acks="all",
        enable_idempotence=True,
        max_request_size=(await max_record_bytes(kafka, [requests]))[requests],
    )
    consumer = AIOKafkaConsumer(
        **client_arguments(kafka), enable_auto_commit=False, isolation_level=ISOLATION
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(producer.stop)
        await producer.start()
        stack.push_async_callback(consumer.stop)
        await consumer.start()
        read_tolerantly(consumer)
        await _read_from_end(consumer, [TopicPartition(results, n) for n in range(partitions[results])])
        client = LookupClient(producer, consumer, kafka.topics)
        receiving = asyncio.create_task(client.receive())
        stack.push_async_callback(_cancelled, receiving)
        yield client


async def _read_from_end(consumer: AIOKafkaConsumer, partitions: list[TopicPartition]) -> None:
    """Accept its places before the first request is sent, so that no result can come too early."""
    consumer.assign(partitions)
    for partition, offset in (await consumer.end_offsets(partitions)).items():
        consumer.seek(partition, offset)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _result_of(message: Any, request_id: str) -> LookupResult:
    place = f"request_id = {request_id!r}: offset {message.offset} of partition {message.partition}"
    if message.value is None:
        raise ResultUnreadable(f"{place} is a tombstone, not a result")
    try:
        result = decode_result(message.value)
    except (ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:MAX_SHOWN_CHARS]
        raise ResultUnreadable(f"{place} is not a result: {why}") from error
    if result.request_id != request_id:
        raise ResultUnreadable(f"{place} is the result of another request, {result.request_id!r}")
    return result


def _request_id(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Return the id in a result's headers, an empty text where there is none."""
    for name, value in headers:
        if name == HEADER_REQUEST_ID and value is not None:
            return value.decode("utf-8", "replace")
    return ""
