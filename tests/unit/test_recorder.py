"""What a worker records, and of which requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import orjson
import pytest
import structlog

from pipeline.errors import SearchUnavailable
from pipeline.model import Limits
from pipeline.ports import IndexDescription, KnowledgeSearchPort
from pipeline.testing.in_memory import InMemorySearch
from streams.kafka.records import ConsumedRecord, ProducedRecord
from streams.recordings.recording import RecordedIndex, Recording, decode_recording
from streams.replay.capture import _request_line
from streams.settings.model import EmbeddingSettings, SearchSettings, Settings
from streams.stage.answering import Answer
from streams.stage.recorder import Recorder, is_sampled, recorded_index, requested
from tests.builders import (
    FakeSearch,
    SearchReply,
    answering,
    budget,
    consumed,
    hit,
    hit_with,
    limits,
    lookup_answerer,
    raising,
)

INDEX = RecordedIndex(collection="knowledge", fingerprint="f")
HITS = (hit("docA", 0, score=0.9), hit("docA", 1, score=0.8), hit("docB", 3, content=" "))
FOUND = answering(*HITS)
DOWN: SearchReply = raising(SearchUnavailable("it is down"))


async def answered(request: ConsumedRecord, replies: Mapping[str, SearchReply]) -> Answer:
    """Answer a request as the stage does, by the product's default rules."""
    return await lookup_answerer(FakeSearch(replies)).answer(request)


async def recorded(
    request: ConsumedRecord, replies: Mapping[str, SearchReply] | None = None
) -> tuple[Answer, ProducedRecord | None]:
    """Answer a request, and record it."""
    answer = await answered(request, replies or {"q": FOUND})
    return answer, Recorder(topic="the.recordings", share=1.0, index=INDEX).record(request, answer)


def read(record: ProducedRecord | None) -> Recording:
    """Read the recording out of its record."""
    assert record is not None
    assert record.value is not None
    return decode_recording(record.value)


def request(**fields: object) -> ConsumedRecord:
    """Return a request for `q`, written with white space that no JSON library writes."""
    body = {"request_id": "r-1", "query": "q"} | fields
    return consumed(json.dumps(body, indent=1).encode(), headers=(("a", b"\xff"), ("a", None)))


async def test_recording_has_the_hits_as_the_port_returned_them() -> None:
    """Hits that are rejected or dropped later are there too, as is the result as it is published."""
    asked = request(max_chunks_per_document=1, budget={"max_items": 3}, hints=[1.50], explain=True)
    answer, record = await recorded(asked)
    recording = read(record)
    assert answer.result is not None
    assert answer.result.value is not None
    assert record is not None
    assert record.value is not None
    assert [path.answer.hits.hits for path in recording.paths or ()] == [HITS]
    assert [path.text for path in recording.paths or ()] == ["q"]
    assert record.value.endswith(b'"result":' + answer.result.value + b"}")
    assert (recording.limits, recording.budget) == (limits(max_chunks_per_document=1), budget(max_items=3))
    assert recording.request == json.loads(asked.value or b"")
    assert (recording.key, recording.headers) == (asked.key, asked.headers)
    assert (recording.captured.partition, recording.captured.offset) == (asked.partition, asked.offset)
    assert recording.index == INDEX


async def test_record_has_the_requests_key_and_names_the_request() -> None:
    """It goes where the request was, and can be filtered without being read."""
    _, record = await recorded(request())
    assert record is not None
    assert (record.topic, record.key) == ("the.recordings", b"session-7")
    assert dict(record.headers)["lookup-request-id"] == b"r-1"


async def test_recording_of_failed_paths_has_their_errors() -> None:
    """What the search said stands where the hits would."""
    _, record = await recorded(request(query=None, queries=["q", "down"]), {"q": FOUND, "down": DOWN})
    ok, failed = read(record).answers
    assert (ok.error, failed.hits.hits) == (None, ())
    assert failed.error is not None
    assert failed.error.code == "search_unavailable"


@pytest.mark.parametrize(
    ("asked", "status", "widths"),
    [
        pytest.param(request(retrieve_k=0), "rejected", None, id="rejected"),
        pytest.param(request(expires_at="2020-01-01T00:00:00Z"), "expired", limits(), id="expired"),
    ],
)
async def test_recording_of_what_was_not_searched_has_the_result_and_no_paths(
    asked: ConsumedRecord, status: str, widths: Limits | None
) -> None:
    """Requests that were rejected or expired are recorded with what they had."""
    answer, record = await recorded(asked)
    recording = read(record)
    assert answer.status == status
    assert (recording.paths, recording.limits) == ((), widths)
    assert recording.result == json.loads((answer.result and answer.result.value) or b"")
    assert recording.request == json.loads(asked.value or b"")


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        pytest.param(b'{"request_id": "r-1", "query": NaN}', (), id="only almost JSON"),
        pytest.param(b"\xff", (("ce_id", b"r-1"),), id="not JSON, the id in a header"),
        pytest.param(b"[1]", (("ce_id", b"r-1"),), id="no object, the id in a header"),
        pytest.param(None, (("ce_id", b"r-1"),), id="tombstone, the id in a header"),
    ],
)
async def test_request_that_is_no_json_object_is_kept_as_bytes(
    value: bytes | None, headers: tuple[tuple[str, bytes], ...]
) -> None:
    """The recording itself is JSON all the same."""
    _, record = await recorded(consumed(value, headers=headers))
    recording = read(record)
    assert (recording.request_id, recording.request, recording.raw) == ("r-1", {}, value or b"")
    assert record is not None
    assert json.loads(record.value or b"")["result"]["status"] == "rejected"


async def test_request_without_an_id_is_not_recorded() -> None:
    """It has no result that could be compared with another."""
    assert (await recorded(consumed(b"not json")))[1] is None


async def test_recording_that_cannot_be_made_costs_no_answer() -> None:
    """It is logged instead."""
    endless: dict[str, object] = {}
    endless["again"] = endless
    with structlog.testing.capture_logs() as logs:
        answer, record = await recorded(request(), {"q": answering(hit_with(metadata=endless))})
    assert (answer.status, record) == ("ok", None)
    assert [line["event"] for line in logs] == ["recording_failed"]


# Which requests


def test_sample_takes_about_the_share_and_the_same_each_time() -> None:
    """A redelivered request is recorded again or again is not."""
    ids = [f"r-{number}" for number in range(10_000)]
    taken = [request_id for request_id in ids if is_sampled(request_id, 0.1)]
    assert 800 < len(taken) < 1_200
    assert taken == [request_id for request_id in ids if is_sampled(request_id, 0.1)]


def test_sample_of_everything_takes_everything() -> None:
    """A larger share takes what a smaller one takes, and 1 takes all."""
    ids = [f"r-{number}" for number in range(1_000)]
    assert all(is_sampled(request_id, 1.0) for request_id in ids)
    assert {each for each in ids if is_sampled(each, 0.1)} < {each for each in ids if is_sampled(each, 0.2)}


async def test_request_outside_the_sample_is_not_recorded() -> None:
    """Nothing is made of it."""
    answer = await answered(request(), {"q": FOUND})
    assert Recorder(topic="t", share=1e-9, index=INDEX).record(request(), answer) is None


# Requests alone, and the index


def test_request_alone_has_no_paths_and_no_result() -> None:
    """What is recorded from the requests topic waits for a live replay."""
    asked = request()
    recording = requested(asked, "r-1")
    assert recording.request == json.loads(asked.value or b"")
    assert (recording.paths, recording.limits, recording.budget, recording.result) == (None,) * 4
    assert requested(consumed(b"\xff"), "r-1").raw == b"\xff"


def test_deeply_nested_request_is_recorded_alone() -> None:
    """What orjson reads, but neither writes nor does Python's own JSON, stands in the line as it was sent."""
    value = b'{"request_id":"r-1","hints":%b}' % (b"[" * 900 + b"]" * 900)
    line = _request_line(consumed(value))
    assert value in line
    assert decode_recording(line).request == orjson.loads(value)


class Described(InMemorySearch):
    """A search port that tells what it searches."""

    def __init__(self, **traits: object) -> None:
        super().__init__([])
        self.index = IndexDescription(collection="kb", traits=traits)


def test_index_has_a_fingerprint_that_tells_others_apart() -> None:
    """Another index or another embedder has another; the same has the same."""

    def fingerprint(search: object, **embedding: Any) -> RecordedIndex:
        settings = Settings.model_construct(
            embedding=EmbeddingSettings(**embedding), search=SearchSettings(port="a.b:c")
        )
        return recorded_index(cast("KnowledgeSearchPort", search), settings)

    one = fingerprint(Described(rows=1, metric="IP"))
    assert one.collection == "kb"
    assert one == fingerprint(Described(metric="IP", rows=1))
    assert one != fingerprint(Described(rows=2, metric="IP"))
    assert one != fingerprint(Described(rows=1, metric="IP"), provider="openai")
    assert fingerprint(InMemorySearch([])) == RecordedIndex(collection="a.b:c", fingerprint=None)
