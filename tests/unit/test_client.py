"""The client for agents: each gets its own result, in time or not at all, whatever else is going on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from streams.client import ClientClosed, LookupClient, ResultUnreadable
from streams.kafka.records import Undecodable, UndecodableHeaders
from streams.settings.model import TopicSettings
from streams.wire.results import LookupResult, encode_result

TOPICS = TopicSettings(requests="the.requests", results="the.results")
FOREVER_S = 30.0
"""No test waits for this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request that was sent."""

    topic: str
    value: bytes
    key: bytes | None
    headers: list[tuple[str, bytes | None]]

    @property
    def request_id(self) -> str:
        """The id in it."""
        request_id: str = orjson.loads(self.value)["request_id"]
        return request_id


@dataclass
class Producer:
    """Takes requests, or refuses them."""

    sent: asyncio.Queue[Sent] = field(default_factory=asyncio.Queue)
    error: Exception | None = None

    async def send_and_wait(self, topic: str, **record: Any) -> None:
        """Keep the request."""
        if self.error is not None:
            raise self.error
        self.sent.put_nowait(Sent(topic=topic, **record))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A record of the results topic."""

    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int = 0
    offset: int = 17


class Consumer:
    """A results topic that a test writes to.

    Attributes:
        places: The next offset of each partition that is read.
        numbers: The partitions that the topic has.
    """

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Message | Exception] = asyncio.Queue()
        self.places = {TopicPartition("the.results", 0): 17}
        self.numbers = {0}

    async def getmany(self, *, timeout_ms: int) -> dict[TopicPartition, list[Message]]:
        """Return the next message once there is one."""
        assert timeout_ms > 0
        message = await self._messages.get()
        if isinstance(message, Exception):
            raise message
        return {TopicPartition("the.results", 0): [message]}

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are read."""
        return frozenset(self.places)

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the partitions that the topic has."""
        assert topic == "the.results"
        return self.numbers

    async def position(self, partition: TopicPartition) -> int:
        """Return the next offset of a partition."""
        return self.places[partition]

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read other partitions, each from nobody knows where."""
        self.places = dict.fromkeys(partitions, -1)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from an offset."""
        self.places[partition] = offset

    def answer(self, request_id: str, value: bytes | None = None) -> None:
        """Write a result."""
        result = (
            encode_result(LookupResult(request_id=request_id, status="empty")) if value is None else value
        )
        self.write(Message(value=result, headers=(("x", b""), ("lookup-request-id", request_id.encode()))))

    def write(self, message: Message | Exception) -> None:
        """Write anything."""
        self._messages.put_nowait(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A client with both of its ends in the test's hands."""

    client: LookupClient
    producer: Producer
    consumer: Consumer
    receiving: asyncio.Task[None]


@asynccontextmanager
async def connected() -> AsyncIterator[Connection]:
    """Yield a client that receives."""
    producer, consumer = Producer(), Consumer()
    client = LookupClient(producer, consumer, TOPICS)
    receiving = asyncio.create_task(client.receive())
    async with asyncio.timeout(10):
        yield Connection(client=client, producer=producer, consumer=consumer, receiving=receiving)
    receiving.cancel()
    await asyncio.wait([receiving])


async def test_result_is_awaited_by_id() -> None:
    """A request goes out with key and headers, and its result is returned."""
    async with connected() as end:
        asking = asyncio.create_task(
            end.client.look_up({"query": "q", "request_id": "r-1"}, key=b"k", headers=(("h", b"1"),))
        )
        sent = await end.producer.sent.get()
        assert (sent.topic, sent.key, sent.headers) == ("the.requests", b"k", [("h", b"1")])
        assert orjson.loads(sent.value) == {"query": "q", "request_id": "r-1"}
        end.consumer.answer("r-1")
        assert await asking == LookupResult(request_id="r-1", status="empty")


async def test_results_of_many_find_whoever_asked() -> None:
    """Requests wait at once, and results may come in any order, more than once, and for others."""
    async with connected() as end:
        asking = [asyncio.create_task(end.client.look_up({"query": "q"})) for _ in range(50)]
        ids = [(await end.producer.sent.get()).request_id for _ in asking]
        assert len(set(ids)) == 50
        end.consumer.write(Message(value=b"not a result", headers=()))
        for request_id in ["somebody-else", *reversed(ids), *ids]:
            end.consumer.answer(request_id)
        assert [result.request_id for result in await asyncio.gather(*asking)] == ids


async def test_id_that_is_waited_for_already_is_refused() -> None:
    """Two that wait for one id could not be told apart; once it is answered, the id is free again."""
    async with connected() as end:
        request = {"query": "q", "request_id": "r-1"}
        first = asyncio.create_task(end.client.look_up(request))
        await end.producer.sent.get()
        with pytest.raises(ValueError, match="'r-1': this client is waiting for that id already"):
            await end.client.look_up(request)
        assert end.producer.sent.empty()
        end.consumer.answer("r-1")
        await first
        again = asyncio.create_task(end.client.look_up(request))
        await end.producer.sent.get()
        end.consumer.answer("r-1")
        assert (await again).request_id == "r-1"


@pytest.mark.parametrize("wrong", ["", 5, True, ["r-1"]])
async def test_id_that_is_no_text_is_refused(wrong: object) -> None:
    """Its result could not be told from others."""
    async with connected() as end:
        with pytest.raises(ValueError, match="request_id must be a string that is not empty"):
            await end.client.look_up({"query": "q", "request_id": wrong})
        assert end.producer.sent.empty()


async def test_request_that_is_no_json_is_refused() -> None:
    """What JSON has no word for does not go out."""
    async with connected() as end:
        with pytest.raises(TypeError):
            await end.client.look_up({"query": object()})


async def test_result_that_does_not_come_is_a_timeout() -> None:
    """The time is up, and what comes later disturbs nobody."""
    async with connected() as end:
        with pytest.raises(TimeoutError):
            await end.client.look_up({"query": "q", "request_id": "late"}, timeout_s=0.01)
        end.consumer.answer("late")
        await end.producer.sent.get()
        asking = asyncio.create_task(end.client.look_up({"query": "q", "request_id": "r-1"}))
        await end.producer.sent.get()
        end.consumer.answer("r-1")
        assert (await asking).request_id == "r-1"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "is a tombstone, not a result"),
        (b"", "is not a result"),
        (b"{", "is not a result"),
        (b"\xff\xfe", "is not a result"),
        (b"7", "is not a result"),
        (b'{"request_id": "a", "status": "ok", "evidence": 5}', "is not a result"),
        (b'{"request_id": "a", "status": "of the future"}', "is not a result"),
        (b"[" * 200_000, "is not a result"),
        (b'{"request_id": "b", "status": "empty"}', "is the result of another request, 'b'"),
    ],
)
async def test_result_that_is_none_is_an_error_of_that_request_alone(value: bytes | None, why: str) -> None:
    """Whoever waits is told what came and where; the others get their results, then and later."""
    async with connected() as end:
        asking = [asyncio.create_task(end.client.look_up({"request_id": name})) for name in ("a", "b")]
        for _ in asking:
            await end.producer.sent.get()
        end.consumer.write(Message(value=value, headers=(("lookup-request-id", b"a"),)))
        end.consumer.answer("b")
        with pytest.raises(ResultUnreadable, match=f"'a': offset 17 of partition 0 {why}") as caught:
            await asking[0]
        assert "\n" not in str(caught.value)
        assert (await asking[1]).request_id == "b"
        later = asyncio.create_task(end.client.look_up({"request_id": "a"}))
        end.consumer.answer("a")
        assert (await later).request_id == "a"


async def test_result_of_a_later_version_is_read() -> None:
    """Fields that are not known yet are ignored."""
    async with connected() as end:
        asking = asyncio.create_task(end.client.look_up({"request_id": "a"}))
        await end.producer.sent.get()
        end.consumer.answer("a", value=b'{"request_id": "a", "status": "empty", "v": 2, "new": {"x": []}}')
        assert await asking == LookupResult(request_id="a", status="empty")


async def test_results_that_cannot_be_decoded_disturb_nobody() -> None:
    """Whose they are nobody knows; whoever waits for others gets them, and the log says what was passed."""
    async with connected() as end:
        asking = asyncio.create_task(end.client.look_up({"request_id": "a"}))
        await end.producer.sent.get()
        headers = UndecodableHeaders.of(Undecodable(first_offset=11, reason="the checksum is wrong"))
        with structlog.testing.capture_logs() as logs:
            end.consumer.write(Message(value=b"\x00", headers=headers))
            end.consumer.answer("a")
            assert (await asking).request_id == "a"
        (line,) = logs
        assert (line["event"], line["first_offset"], line["last_offset"]) == ("results_undecodable", 11, 17)
        assert line["why"] == "the checksum is wrong"


async def test_request_that_cannot_be_sent_is_an_error() -> None:
    """What the brokers say reaches whoever asked, and nobody waits for that id any more."""
    async with connected() as end:
        end.producer.error = KafkaError("refused")
        with pytest.raises(KafkaError, match="refused"):
            await end.client.look_up({"request_id": "r-1"})
        end.producer.error = None
        asking = asyncio.create_task(end.client.look_up({"request_id": "r-1"}))
        await end.producer.sent.get()
        end.consumer.answer("r-1")
        assert (await asking).status == "empty"


async def test_closing_tells_whoever_waits() -> None:
    """Nobody waits out the time for a result that nobody reads any more, and nobody can ask any more."""
    async with connected() as end:
        asking = asyncio.create_task(end.client.look_up({"query": "q"}, timeout_s=FOREVER_S))
        await end.producer.sent.get()
        end.receiving.cancel()
        with pytest.raises(ClientClosed, match="the client is closed"):
            await asking
        with pytest.raises(ClientClosed):
            await end.client.look_up({"query": "q"})
        assert end.producer.sent.empty()


async def test_results_that_cannot_be_read_tell_whoever_waits() -> None:
    """Where the brokers refuse, the reason is in the error."""
    async with connected() as end:
        asking = asyncio.create_task(end.client.look_up({"query": "q"}, timeout_s=FOREVER_S))
        await end.producer.sent.get()
        end.consumer.write(KafkaError("not authorized"))
        with pytest.raises(ClientClosed, match=r"results can no longer be read: .*not authorized"):
            await asking


async def test_cancelled_request_is_forgotten() -> None:
    """Whoever stops waiting leaves nothing behind."""
    async with connected() as end:
        asking = asyncio.create_task(end.client.look_up({"request_id": "r-1"}))
        await end.producer.sent.get()
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        again = asyncio.create_task(end.client.look_up({"request_id": "r-1"}))
        await end.producer.sent.get()
        end.consumer.answer("r-1")
        assert (await again).request_id == "r-1"


async def test_partitions_that_a_topic_is_given_later_are_read_too() -> None:
    """Old ones go on where they are, new ones from their beginning: a result there is nobody's loss."""
    async with connected() as end:
        end.consumer.numbers = {0, 1, 2}
        asking = asyncio.create_task(end.client.look_up({"request_id": "r-1"}))
        await end.producer.sent.get()
        end.consumer.answer("r-1")
        await asking
        assert {tp.partition: offset for tp, offset in end.consumer.places.items()} == {0: 17, 1: 0, 2: 0}


async def test_field_that_is_nearly_a_known_one_is_warned_of() -> None:
    """It is sent all the same: the stage may know it one day."""
    async with connected() as end:
        warning = r"^request field retreive_k is ignored: did you mean retrieve_k\?$"
        with pytest.warns(UserWarning, match=warning) as warned:
            sent = await answered(end, {"query": "q", "retreive_k": 5, "session": "s"})
    assert len(warned) == 1
    assert orjson.loads(sent.value)["retreive_k"] == 5


async def test_other_unknown_fields_are_sent_without_a_word() -> None:
    """They are somebody's own; a warning would fail this test."""
    async with connected() as end:
        sent = await answered(end, {"query": "q", "session": "s"})
    assert orjson.loads(sent.value)["session"] == "s"


async def answered(end: Connection, request: dict[str, Any]) -> Sent:
    """Look up a request, and return what was sent."""
    asking = asyncio.ensure_future(end.client.look_up(request))
    sent = await end.producer.sent.get()
    end.consumer.answer(sent.request_id)
    await asking
    return sent
