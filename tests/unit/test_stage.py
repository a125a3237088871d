"""The stage without a broker: what is published, what is acknowledged and when, and how it leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
import structlog

from pipeline.circuit import CircuitBreaker
from pipeline.errors import SearchTimeout, SearchUnavailable
from pipeline.lookup import LookupPipeline
from pipeline.model import SearchHit
from streams.kafka.publishing import Publisher, RecordTooLarge
from streams.kafka.records import ConsumedRecord, ProducedRecord
from streams.recordings.recording import RecordedIndex, decode_recording
from streams.settings.model import TopicSettings
from streams.stage.answering import Answerer
from streams.stage.recorder import Recorder
from streams.stage.stage import LookupStage, StagePolicy
from streams.wire.dead_letters import LEFT_OUT_BYTES, TooManyDeadLetters
from streams.wire.request_rules import RequestRules
from tests.builders import FakeSearch, Hanging, SearchReply, answering, budget, hit, limits, raising
from tests.support.loops import nothing_goes_wrong_unseen, quiet

TOPIC, RESULTS, DEAD = "lookup.requests", "lookup.results", "lookup.dead-letters"
RECORDINGS = "lookup.recordings"
NOT_JSON = b"not json"
FOUND: SearchReply = answering(hit("docA", 0))
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


class FakePublisher:
    """Publishes into a list, when it may.

    Attributes:
        published: The records of each call that was confirmed.
        publishing: Set once records are waiting to be confirmed.
        confirms: Records are confirmed while this is set.
        error: What publishing raises instead, if anything.
        max_bytes: Largest value of each topic.
    """

    def __init__(self) -> None:
        self.published: list[tuple[ProducedRecord, ...]] = []
        self.publishing = asyncio.Event()
        self.confirms = asyncio.Event()
        self.confirms.set()
        self.error: Exception | None = None
        self.max_bytes: dict[str, int] = {}

    def check_size(self, record: ProducedRecord) -> None:
        """Refuse a record with a value that is too large for its topic."""
        excess = len(record.value or b"") - self.max_bytes.get(record.topic, 1_000_000)
        if excess > 0:
            raise RecordTooLarge(f"too large for {record.topic}", excess_bytes=excess)

    async def publish(self, records: Sequence[ProducedRecord]) -> None:
        """Wait for the confirmation."""
        self.publishing.set()
        await self.confirms.wait()
        if self.error is not None:
            raise self.error
        self.published.append(tuple(records))

    @property
    def topics(self) -> list[tuple[str, ...]]:
        """The topics of each call."""
        return [tuple(record.topic for record in records) for records in self.published]

    @property
    def results(self) -> list[dict[str, Any]]:
        """The results of all calls, as agents read them."""
        records = [record for call in self.published for record in call if record.topic == RESULTS]
        return [json.loads(record.value or b"") for record in records]

    @property
    def statuses(self) -> list[tuple[str, str]]:
        """Id and status of each result."""
        return [(result["request_id"], result["status"]) for result in self.results]


class Harness:
    """A stage with its publisher, and what it acknowledged.

    Attributes:
        stage: What is tested.
        publisher: Where it publishes.
        search: What it asks.
        acknowledged: Partition and offset, in the order in which they were acknowledged.
        now: The time by which requests expire.
    """

    def __init__(
        self,
        replies: Mapping[str, SearchReply] | None = None,
        *,
        policy: StagePolicy | None = None,
        circuit: CircuitBreaker | None = None,
    ) -> None:
        self.publisher = FakePublisher()
        self.search = FakeSearch({"q": FOUND} if replies is None else replies)
        self.acknowledged: list[tuple[int, int]] = []
        self.now = NOW
        self.stage = LookupStage(
            Answerer(
                LookupPipeline(self.search, None),
                rules=RequestRules(
                    limits=limits(), max_width=200, budget=budget(), tenant_field=None, dimension=None
                ),
                topics=TopicSettings(),
                timeout_s=60,
                now=lambda: self.now.timestamp(),  # noqa: PLW0108 - `now` is set by tests
            ),
            cast("Publisher", self.publisher),
            policy or StagePolicy(max_in_flight=100),
            circuits={} if circuit is None else {"search": circuit},
        )

    async def take(
        self, offset: int, value: bytes | None = None, *, partition: int = 0, key: bytes | None = None
    ) -> None:
        """Hand over a record; without a value it is a request for `q` that has the offset as its id."""
        record = ConsumedRecord(
            topic=TOPIC,
            partition=partition,
            offset=offset,
            timestamp_ms=0,
            key=key,
            value=request(offset) if value is None else value,
            headers=(),
        )
        await self.stage.take(record, lambda: self.acknowledged.append((partition, offset)))

    def taking(self, offset: int, **others: Any) -> asyncio.Task[None]:
        """Hand over a record that may have to wait."""
        return asyncio.create_task(self.take(offset, **others))

    @property
    def failure(self) -> BaseException | None:
        """Why the stage failed, if it did."""
        return self.stage.failed.result() if self.stage.failed.done() else None


def request(request_id: object, query: str = "q", **fields: object) -> bytes:
    """Return the value of a request."""
    return json.dumps({"request_id": str(request_id), "query": query} | fields).encode()


def slowly() -> tuple[asyncio.Event, SearchReply]:
    """Return the reply of a search that finds nothing, once the event is set."""
    slow = asyncio.Event()

    async def reply(_query: object) -> Sequence[SearchHit]:
        await slow.wait()
        return []

    return slow, reply


@pytest.fixture(autouse=True)
async def _watched() -> AsyncIterator[None]:
    """Fail a test where something went wrong unseen; logs into nothing."""
    with structlog.testing.capture_logs():
        async with nothing_goes_wrong_unseen():
            yield


# Acknowledgement


async def test_acknowledged_only_after_publish_has_returned() -> None:
    """Nothing is acknowledged that the brokers have not confirmed."""
    harness = Harness()
    harness.publisher.confirms.clear()
    await harness.take(0)
    await harness.publisher.publishing.wait()
    await quiet()
    assert (harness.acknowledged, harness.publisher.published) == ([], [])
    harness.publisher.confirms.set()
    await quiet()
    assert harness.acknowledged == [(0, 0)]
    assert harness.publisher.statuses == [("0", "ok")]


async def test_acknowledged_in_the_order_of_offsets() -> None:
    """A quick answer is published at once, and acknowledged behind the slower ones before it."""
    slow, reply = slowly()
    harness = Harness({"q": FOUND, "slow": reply})
    await harness.take(0, request(0, "slow"))
    await harness.take(1)
    await harness.take(7, partition=1)
    await quiet()
    assert harness.publisher.statuses == [("1", "ok"), ("7", "ok")]
    assert harness.acknowledged == [(1, 7)]
    slow.set()
    await quiet()
    assert harness.acknowledged == [(1, 7), (0, 0), (0, 1)]


@pytest.mark.parametrize(
    ("value", "topics", "status"),
    [
        pytest.param(request(0), (RESULTS,), "ok", id="ok"),
        pytest.param(request(0, expires_at="2026-01-31T11:00:00Z"), (RESULTS,), "expired", id="expired"),
        pytest.param(request(0, retrieve_k=0), (RESULTS, DEAD), "rejected", id="rejected"),
        pytest.param(request(0, "broken"), (RESULTS, DEAD), "failed", id="failed"),
        pytest.param(NOT_JSON, (DEAD,), None, id="unreadable"),
    ],
)
async def test_acknowledged_whatever_the_answer_is(
    value: bytes, topics: tuple[str, ...], status: str | None
) -> None:
    """Result and dead letter are published together, and the request is through; the stage goes on."""
    harness = Harness({"q": FOUND, "broken": raising(SearchUnavailable("it is down"))})
    await harness.take(0, value)
    await quiet()
    assert harness.publisher.topics == [topics]
    assert [result["status"] for result in harness.publisher.results] == ([status] if status else [])
    assert harness.acknowledged == [(0, 0)]
    assert harness.failure is None


async def test_acknowledged_tombstone_is_a_dead_letter() -> None:
    """A record without a value is dead-lettered as it is."""
    harness = Harness()
    record = ConsumedRecord(
        topic=TOPIC, partition=0, offset=0, timestamp_ms=0, key=None, value=None, headers=()
    )
    await harness.stage.take(record, lambda: harness.acknowledged.append((0, 0)))
    await quiet()
    ((dead_letter,),) = harness.publisher.published
    assert (dead_letter.topic, dead_letter.key, dead_letter.value) == (DEAD, None, None)
    assert harness.acknowledged == [(0, 0)]


# Publishing that fails


@pytest.mark.parametrize("error", [TimeoutError("not confirmed"), RuntimeError("refused")])
async def test_publish_failure_fails_the_stage_and_acknowledges_nothing(error: Exception) -> None:
    """Where a result cannot be published the worker must stop, and the request is delivered again."""
    harness = Harness()
    harness.publisher.error = error
    await harness.take(0)
    assert await asyncio.wait_for(harness.stage.failed, 10) is error
    harness.publisher.error = None
    await harness.take(1)
    await harness.take(0, partition=1)
    await quiet()
    assert harness.acknowledged == [(1, 0)]


async def test_publish_failure_that_comes_first_is_the_one_told_of() -> None:
    """Later failures do not take its place."""
    harness = Harness()
    first = harness.publisher.error = RuntimeError("first")
    await harness.take(0)
    await quiet()
    harness.publisher.error = RuntimeError("second")
    await harness.take(1)
    await quiet()
    assert harness.failure is first


# Records that are too large


async def test_too_large_result_is_answered() -> None:
    """The agent is told that its result is too large for the brokers, and the request is dead-lettered."""
    harness = Harness({"q": answering(hit("docA", 0, content="x" * 1_500))})
    harness.publisher.max_bytes[RESULTS] = 1_000
    await harness.take(0)
    await quiet()
    assert harness.publisher.topics == [(RESULTS, DEAD)]
    (result,) = harness.publisher.results
    assert (result["status"], result["evidence"]) == ("failed", [])
    assert result["error"] == {"code": "internal", "message": f"too large for {RESULTS}"}
    headers = dict(harness.publisher.published[0][1].headers)
    assert headers["lookup.errors.stage"] == b"publish"
    assert headers["lookup.errors.exception.class.name"] == b"RecordTooLarge"
    assert harness.acknowledged == [(0, 0)]
    assert harness.failure is None


async def test_too_large_dead_letter_does_not_cost_the_result() -> None:
    """A request that is too large to be kept is answered all the same."""
    harness = Harness()
    harness.publisher.max_bytes[DEAD] = 100
    await harness.take(0, request(0, retrieve_k=0, unknown="x" * 200))
    await quiet()
    assert harness.publisher.topics == [(RESULTS,)]
    assert harness.publisher.statuses == [("0", "rejected")]
    assert harness.acknowledged == [(0, 0)]


# Recordings


RECORDING = StagePolicy(
    max_in_flight=100,
    recorder=Recorder(
        topic=RECORDINGS, share=1.0, index=RecordedIndex(collection="knowledge", fingerprint=None)
    ),
)


async def test_recording_is_published_with_the_result_and_confirmed_before_the_acknowledgement() -> None:
    """A request whose recording is not confirmed is not acknowledged; its redelivery is recorded again."""
    harness = Harness(policy=RECORDING)
    harness.publisher.confirms.clear()
    await harness.take(0)
    await harness.publisher.publishing.wait()
    await quiet()
    assert harness.acknowledged == []
    harness.publisher.confirms.set()
    await quiet()
    assert (harness.publisher.topics, harness.acknowledged) == ([(RESULTS, RECORDINGS)], [(0, 0)])


async def test_recording_of_a_dead_letter_is_published_beside_it() -> None:
    """A request that failed is recorded too; one without a readable id is not."""
    harness = Harness({"q": raising(SearchUnavailable("it is down"))}, policy=RECORDING)
    await harness.take(0)
    await quiet()
    await harness.take(1, NOT_JSON)
    await quiet()
    assert harness.publisher.topics == [(RESULTS, DEAD, RECORDINGS), (DEAD,)]


async def test_too_large_recording_does_not_cost_the_answer() -> None:
    """It is logged and left out, and the request is acknowledged."""
    harness = Harness(policy=RECORDING)
    harness.publisher.max_bytes = {RECORDINGS: 10}
    with structlog.testing.capture_logs() as logs:
        await harness.take(0)
        await quiet()
    assert (harness.publisher.topics, harness.acknowledged) == ([(RESULTS,)], [(0, 0)])
    assert [line["event"] for line in logs] == ["recording_too_large"]


async def test_recording_tells_of_the_result_that_was_published() -> None:
    """Where a result was too large, the recording has the one that went out in its place, and no paths."""
    harness = Harness({"q": answering(hit("docA", 0, content="x" * 1_500))}, policy=RECORDING)
    harness.publisher.max_bytes = {RESULTS: 1_000}
    await harness.take(0)
    await quiet()
    ((result, _, recorded),) = harness.publisher.published
    recording = decode_recording(recorded.value or b"")
    assert (recording.result, recording.paths) == (json.loads(result.value or b""), ())


async def test_too_large_dead_letter_without_a_result_is_shortened() -> None:
    """A compressed record may be larger than the dead-letter topic takes: it stops no others."""
    harness = Harness()
    harness.publisher.max_bytes[DEAD] = 1_000
    rubbish = NOT_JSON * 200
    await harness.take(0, rubbish)
    await quiet()
    ((letter,),) = harness.publisher.published
    headers = dict(letter.headers)
    assert letter.value == rubbish[: 1_000 - LEFT_OUT_BYTES]
    assert headers["lookup.errors.value.bytes"] == b"1600"
    assert (harness.acknowledged, harness.failure) == ([(0, 0)], None)


async def test_too_large_dead_letter_that_no_shortening_helps_fails_the_stage() -> None:
    """What can be neither answered nor kept is not passed over."""
    harness = Harness()
    harness.publisher.max_bytes[DEAD] = -1
    await harness.take(0, NOT_JSON * 20)
    await quiet()
    assert isinstance(harness.failure, RecordTooLarge)
    assert (harness.publisher.published, harness.acknowledged) == ([], [])


# Too many dead letters


async def test_dead_letters_over_the_limit_fail_the_stage() -> None:
    """One more than may be in a minute is neither published nor acknowledged: a person should look."""
    harness = Harness(policy=StagePolicy(max_in_flight=100, max_dead_letters_per_minute=2))
    for offset, value in enumerate([NOT_JSON, request(1, retrieve_k=0), NOT_JSON]):
        await harness.take(offset, value)
        await quiet()
    assert isinstance(harness.failure, TooManyDeadLetters)
    assert harness.publisher.topics == [(DEAD,), (RESULTS, DEAD)]
    assert harness.acknowledged == [(0, 0), (0, 1)]


@pytest.mark.parametrize("error", [SearchUnavailable("it is down"), SearchTimeout("too slow")])
async def test_dead_letters_of_an_outage_are_not_limited(error: Exception) -> None:
    """What trying again can help with is no fault of the requests: the stage goes on answering."""
    harness = Harness(
        {"q": raising(error)}, policy=StagePolicy(max_in_flight=100, max_dead_letters_per_minute=1)
    )
    for offset in range(5):
        await harness.take(offset)
    await quiet()
    assert harness.failure is None
    assert len(harness.acknowledged) == 5


# Bound


async def test_bound_makes_take_wait() -> None:
    """While as many are in work as may be, the next record is not taken."""
    harness = Harness(policy=StagePolicy(max_in_flight=2))
    harness.publisher.confirms.clear()
    await harness.take(0)
    await harness.take(1)
    third = harness.taking(2)
    await quiet()
    assert (third.done(), len(harness.search.asked)) == (False, 2)
    harness.publisher.confirms.set()
    await third
    await quiet()
    assert harness.acknowledged == [(0, 0), (0, 1), (0, 2)]


# Ordering


async def started_at_once(harness: Harness, *places: tuple[int, bytes | None]) -> list[int]:
    """Return the indexes of the records, of partitions and keys, searched while none is confirmed."""
    harness.publisher.confirms.clear()
    for index, (partition, key) in enumerate(places):
        await harness.take(index, request(index, str(index)), partition=partition, key=key)
    await quiet()
    return [int(query.text) for query in harness.search.asked]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(StagePolicy(max_in_flight=9, ordering="none"), [0, 1, 2, 3, 4], id="none"),
        pytest.param(StagePolicy(max_in_flight=9, ordering="key"), [0, 2, 3, 4], id="key"),
        pytest.param(StagePolicy(max_in_flight=9, ordering="partition"), [0, 4], id="partition"),
    ],
)
async def test_ordering_says_what_waits_for_what(policy: StagePolicy, expected: list[int]) -> None:
    """By key, the second of a key waits, and none without a key; by partition, all but the first wait."""
    harness = Harness({str(index): FOUND for index in range(5)}, policy=policy)
    places = [(0, b"a"), (0, b"a"), (0, None), (0, None), (1, b"b")]
    assert await started_at_once(harness, *places) == expected


async def test_ordering_by_key_publishes_in_order() -> None:
    """A later request of a key is answered only when the earlier one's answer is confirmed."""
    slow, reply = slowly()
    harness = Harness({"slow": reply, "q": FOUND}, policy=StagePolicy(max_in_flight=9, ordering="key"))
    await harness.take(0, request(0, "slow"), key=b"a")
    await harness.take(1, key=b"a")
    await harness.take(2, key=b"b")
    await quiet()
    assert harness.publisher.statuses == [("2", "ok")]
    slow.set()
    await quiet()
    assert harness.publisher.statuses == [("2", "ok"), ("0", "empty"), ("1", "ok")]


# Leaving and coming back


async def test_drain_finishes_what_is_in_work() -> None:
    """What is confirmed in time is acknowledged when the drain returns."""
    harness = Harness()
    harness.publisher.confirms.clear()
    await harness.take(0)
    draining = asyncio.create_task(harness.stage.drain(60))
    await quiet()
    assert not draining.done()
    harness.publisher.confirms.set()
    await draining
    assert harness.acknowledged == [(0, 0)]


async def test_drain_takes_nothing_new_until_resumed() -> None:
    """A record that comes while the stage is drained waits, and is answered when it resumes."""
    harness = Harness()
    await harness.stage.drain(60)
    waiting = harness.taking(0)
    await quiet()
    assert (waiting.done(), harness.search.asked) == (False, [])
    harness.stage.resume()
    await waiting
    await quiet()
    assert harness.acknowledged == [(0, 0)]


@pytest.mark.parametrize("where", ["search", "publish"])
async def test_drain_cancels_what_does_not_finish(where: str) -> None:
    """What hangs is called off: not published, not acknowledged, and no failure of the stage."""
    hanging = Hanging()
    harness = Harness({"q": hanging if where == "search" else FOUND})
    harness.publisher.confirms.clear()
    await harness.take(0)
    await (hanging.waiting if where == "search" else harness.publisher.publishing).wait()
    await harness.stage.drain(0.01)
    harness.publisher.confirms.set()
    await quiet()
    assert (harness.publisher.published, harness.acknowledged, harness.failure) == ([], [], None)
    assert hanging.cancelled == (where == "search")


async def test_resume_forgets_partitions_of_others() -> None:
    """What was called off in a partition that went holds nothing when the partition comes back."""
    harness = Harness({"q": FOUND, "slow": Hanging()})
    await harness.take(5, request(5, "slow"))
    await harness.take(6)
    await harness.take(7, partition=1)
    await quiet()
    await harness.stage.drain(0.01)
    harness.stage.resume(without=[(TOPIC, 0)])
    for offset in (5, 6):
        await harness.take(offset)
    await quiet()
    assert harness.acknowledged == [(1, 7), (0, 5), (0, 6)]


async def test_resume_keeps_partitions_of_its_own() -> None:
    """What was called off in a partition that stayed is still not passed."""
    harness = Harness({"q": FOUND, "slow": Hanging()})
    await harness.take(5, request(5, "slow"))
    await harness.stage.drain(0)
    harness.stage.resume(without=[(TOPIC, 1)])
    await harness.take(6)
    await quiet()
    assert harness.acknowledged == []


async def test_drain_takes_nothing_new_from_a_take_that_waits_for_a_place() -> None:
    """When a drain has returned nothing is in work, also where a record was waiting for its place."""
    harness = Harness({"slow": Hanging(), "later": Hanging()}, policy=StagePolicy(max_in_flight=1))
    await harness.take(0, request(0, "slow"))
    waiting = harness.taking(1, value=request(1, "later"))
    await quiet()
    await harness.stage.drain(0)
    await quiet()
    assert [query.text for query in harness.search.asked] == ["slow"]
    assert not waiting.done()


@pytest.mark.parametrize("waits_for", ["the end of the drain", "a place"])
async def test_resume_forgets_records_whose_take_is_waiting(waits_for: str) -> None:
    """A record that was handed over before its partition went is not acknowledged later.

    Otherwise its offset is committed when the partition comes back, past earlier ones that are in work again.
    """
    harness = Harness({"q": FOUND, "slow": Hanging()}, policy=StagePolicy(max_in_flight=1))
    if waits_for == "a place":
        harness.publisher.confirms.clear()
        await harness.take(0, partition=1)
        waiting = harness.taking(5)
        await quiet()
    else:
        await harness.stage.drain(60)
        waiting = harness.taking(5)
        await quiet()
    harness.stage.resume(without=[(TOPIC, 0)])
    harness.publisher.confirms.set()
    await quiet()
    assert waiting.done()
    assert (0, 5) not in harness.acknowledged


# Waiting for a search that is down

WAITING = StagePolicy(max_in_flight=100, waits_for_search=True)


def never_probing() -> CircuitBreaker:
    """Return a circuit that one failure opens, and that no time closes."""
    return CircuitBreaker(failure_threshold=1, probe_interval_s=3_600)


def down_until(up: asyncio.Event, circuit: CircuitBreaker) -> SearchReply:
    """Return the reply of a search that is down, and say so to its circuit, until the event is set."""

    async def reply(_query: object) -> Sequence[SearchHit]:
        if not up.is_set():
            circuit.failed()
            raise SearchUnavailable("it is down")
        return [hit("docA", 0)]

    return reply


def come_up(up: asyncio.Event, circuit: CircuitBreaker) -> None:
    """Let the search be up, and its circuit know."""
    up.set()
    circuit.succeeded()


async def test_wait_answers_when_the_search_is_back() -> None:
    """With the policy to wait, an outage is neither an answer nor a dead letter."""
    up, circuit = asyncio.Event(), never_probing()
    harness = Harness({"q": down_until(up, circuit)}, policy=WAITING, circuit=circuit)
    await harness.take(0)
    await quiet()
    assert (harness.publisher.published, harness.acknowledged) == ([], [])
    come_up(up, circuit)
    await quiet()
    assert harness.publisher.statuses == [("0", "ok")]
    assert harness.publisher.topics == [(RESULTS,)]
    assert harness.acknowledged == [(0, 0)]


async def test_wait_takes_no_more_while_the_search_is_down() -> None:
    """While the circuit is open records stay where they are."""
    circuit = never_probing()
    circuit.failed()
    harness = Harness(policy=WAITING, circuit=circuit)
    waiting = harness.taking(0)
    await quiet()
    assert (waiting.done(), harness.search.asked) == (False, [])
    circuit.succeeded()
    await waiting
    await quiet()
    assert harness.acknowledged == [(0, 0)]


async def test_wait_ends_when_the_request_expires() -> None:
    """A request that expired while the search was down is answered so when it is back."""
    up, circuit = asyncio.Event(), never_probing()
    harness = Harness({"q": down_until(up, circuit)}, policy=WAITING, circuit=circuit)
    await harness.take(0, request(0, expires_at="2026-01-31T12:00:30Z"))
    await quiet()
    harness.now = NOW.replace(minute=1)
    come_up(up, circuit)
    await quiet()
    assert harness.publisher.statuses == [("0", "expired")]


async def test_wait_is_for_timeouts_while_the_circuit_is_open() -> None:
    """A search that is too slow is waited for where it counts as down, and answered for where it does not."""
    up, circuit = asyncio.Event(), never_probing()

    async def slow_when_down(_query: object) -> Sequence[SearchHit]:
        if not up.is_set():
            circuit.failed()
            raise SearchTimeout("too slow")
        return [hit("docA", 0)]

    replies = {"q": slow_when_down, "once": raising(SearchTimeout("too slow"))}
    harness = Harness(replies, policy=WAITING, circuit=circuit)
    await harness.take(0, request(0, "once"))
    await quiet()
    await harness.take(1)
    await quiet()
    assert harness.publisher.statuses == [("0", "failed")]
    come_up(up, circuit)
    await quiet()
    assert harness.publisher.statuses == [("0", "failed"), ("1", "ok")]


async def test_wait_can_be_drained() -> None:
    """A worker leaves also while the search is down; what waited is delivered again."""
    up, circuit = asyncio.Event(), never_probing()
    harness = Harness({"q": down_until(up, circuit)}, policy=WAITING, circuit=circuit)
    await harness.take(0)
    await quiet()
    await harness.stage.drain(0.01)
    come_up(up, circuit)
    await quiet()
    assert (harness.publisher.published, harness.acknowledged, harness.failure) == ([], [], None)


async def test_wait_forgets_records_whose_partition_went() -> None:
    """A record that waited for the search when its partition went is not acknowledged later."""
    circuit = never_probing()
    circuit.failed()
    harness = Harness(policy=WAITING, circuit=circuit)
    waiting = harness.taking(5)
    await quiet()
    await harness.stage.drain(0.01)
    harness.stage.resume(without=[(TOPIC, 0)])
    circuit.succeeded()
    await waiting
    await quiet()
    assert harness.acknowledged == []


@pytest.mark.parametrize("value", [NOT_JSON, request(0, retrieve_k=0), request(0, "broken")])
async def test_wait_is_not_for_what_an_outage_does_not_explain(value: bytes) -> None:
    """Bad requests and unforeseen errors are answered at once, whatever the policy."""
    harness = Harness({"broken": raising(ValueError("e"))}, policy=WAITING, circuit=never_probing())
    await harness.take(0, value)
    await quiet()
    assert harness.acknowledged == [(0, 0)]


async def test_no_wait_answers_an_outage_at_once() -> None:
    """With the policy to answer, the agent is told, and the dead letter says that it can be sent again."""
    circuit = never_probing()
    circuit.failed()
    harness = Harness({"q": raising(SearchUnavailable("it is down"))}, circuit=circuit)
    await harness.take(0)
    await quiet()
    assert harness.publisher.statuses == [("0", "failed")]
    assert dict(harness.publisher.published[0][1].headers)["lookup.errors.retryable"] == b"true"
    assert harness.acknowledged == [(0, 0)]


async def test_leave_takes_nothing_again() -> None:
    """A stage that leaves stays closed, also when a rebalance on the way out resumes it."""
    harness = Harness()
    await harness.stage.leave(0.01)
    harness.stage.resume(without=[])
    waiting = harness.taking(0)
    await quiet()
    assert not waiting.done()
    assert harness.acknowledged == []
    waiting.cancel()


async def test_wait_ends_for_a_request_that_alone_finds_the_search_down() -> None:
    """What fails while others are answered is told so, and does not hold its partition for ever."""
    harness = Harness(
        {"poison": raising(SearchUnavailable("it is down"))}, policy=WAITING, circuit=never_probing()
    )
    await harness.take(0, request(0, "poison"))
    await quiet()
    assert harness.acknowledged == [(0, 0)]


async def test_too_large_answer_of_any_kind_leaves_the_dead_letter() -> None:
    """Where not even the refusal fits, for the request's id alone is too large, the request is still kept."""
    harness = Harness()
    harness.publisher.max_bytes[RESULTS] = 100
    await harness.take(0, request("x" * 500))
    await quiet()
    assert harness.acknowledged == [(0, 0)]
    assert harness.publisher.topics == [(DEAD,)]
