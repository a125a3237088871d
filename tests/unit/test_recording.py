"""The format of recordings: what is written, and that it is read back as what it was."""

from __future__ import annotations

import enum
import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model import SearchHit
from pipeline.outcome import PathAnswer, conclude
from streams.recordings.recording import Recording, RecordingUnreadable, decode_recording, encode_recording
from tests import strategies
from tests.builders import answer, budget, failure, hit, hit_with, limits, recording


def example() -> Recording:
    """Return a recording of two paths, of which one failed."""
    return recording(answer(hit("docA", 2, score=0.83, row_id=7)), failure(1), hints={"b": 1, "a": 2})


def members(line: bytes) -> dict[str, Any]:
    """Read a line as any parser does."""
    read: dict[str, Any] = json.loads(line)
    return read


# What is written


def test_line_has_the_request_the_hits_and_the_result() -> None:
    """Each field is there, hits stand as the port returned them, and bytes are base64."""
    line = encode_recording(example())
    assert b"\n" not in line
    assert members(line) == {
        "v": 1,
        "request_id": "r-1",
        "request": {"request_id": "r-1", "queries": ["query 0", "query 1"], "hints": {"b": 1, "a": 2}},
        "raw": None,
        "key": "c2Vzc2lvbi03",
        "headers": [["traceparent", "MDAtYWItY2QtMDE="], ["note", None]],
        "captured": {
            "topic": "lookup.requests",
            "partition": 3,
            "offset": 17,
            "timestamp_ms": 1_800_000_000_123,
        },
        "index": {"collection": "knowledge", "fingerprint": "0123456789abcdef"},
        "paths": [
            {
                "query": 0,
                "text": "query 0",
                "status": "ok",
                "error": None,
                "hits": [
                    {
                        "id": 7,
                        "content": "Restart the consumer.",
                        "metadata": {"docId": "docA", "chunkIndex": 2},
                        "score": 0.83,
                        "distance": None,
                        "metric": None,
                    }
                ],
            },
            {
                "query": 1,
                "text": "query 1",
                "status": "failed",
                "error": {"code": "search_unavailable", "message": "the engine cannot be reached"},
                "hits": [],
            },
        ],
        "limits": {"retrieve_k": 20, "return_n": 5, "max_chunks_per_document": 2},
        "budget": {
            "max_items": 20,
            "max_chars_per_item": 2_000,
            "max_total_chars": 8_000,
            "min_chars_per_item": 200,
        },
        "result": example().result,
    }


def test_line_holds_request_and_result_as_they_stood() -> None:
    """The bytes that the caller has are not written anew, but for line ends between them."""
    request, result = b'{ "request_id": "r-1",\r\n"big": 36893488147419103232,\n "x": 1e2 }\n', b'{"a": 1.50}'
    line = encode_recording(example(), request=request, result=result)
    assert b'"request":{ "request_id": "r-1", "big": 36893488147419103232,  "x": 1e2 },' in line
    assert line.endswith(b'"result":{"a": 1.50}}')
    assert "exact" not in members(line)


def test_line_with_what_few_parsers_keep_says_so() -> None:
    """Integers over 64 bits and lone surrogates mark the line; everything else does not."""
    plain = encode_recording(recording(answer(hit("docA", 2**63, content="日本語"))))
    assert "exact" not in members(plain)
    assert members(encode_recording(recording(answer(hit("docA", 2**64)))))["exact"] is True
    assert members(encode_recording(recording(answer(hit(content="a\ud800b")))))["exact"] is True


# What is read


def test_decode_gives_back_what_was_encoded() -> None:
    """A recording survives the way to a file and back."""
    assert decode_recording(encode_recording(example())) == example()


@pytest.mark.parametrize(
    "changed",
    [
        {"key": None, "headers": ()},
        {"key": b"\xff\x00", "headers": (("a", b""), ("a", b"\xff"))},
        {"index": None},
        {"paths": (), "limits": None, "budget": None},
        {"paths": None, "limits": None, "budget": None, "result": None},
        {"request": {}, "raw": b'{"request_id": "r-1", "query": NaN}'},
    ],
)
def test_decode_gives_back_what_may_be_absent(changed: Mapping[str, Any]) -> None:
    """Whatever a recording does not have, it does not have afterwards either."""
    other = replace(example(), **changed)
    assert decode_recording(encode_recording(other)) == other


def test_decode_reads_a_request_as_the_stage_does() -> None:
    """An integer over 64 bits in a request is a float to the stage, whatever the hits hold."""
    request = b'{"request_id": "r-1", "query": "q", "hints": [36893488147419103232, "\xe6\x97\xa5"]}'
    for found in (hit("docA", 0), hit("docA", 2**64)):
        read = decode_recording(encode_recording(recording(answer(found)), request=request))
        assert read.request == orjson.loads(request)
        assert type(read.request["hints"][0]) is float


def test_decode_takes_any_order_and_spacing_of_the_fields() -> None:
    """Another tool may have written the line anew."""
    shuffled = dict(reversed(members(encode_recording(example())).items()))
    assert decode_recording(json.dumps(shuffled, indent=1).encode()) == example()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "is not JSON"),
        (b"hello", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"null", "is not a recording: it has no field v"),
        (b"[1]", "is not a recording: it has no field v"),
        (b'{"request_id": "r-1"}', "is not a recording: it has no field v"),
        (b'{"v": 2, "anything": 1}', "is of version 2, this lookup-stage reads version 1"),
        (b'{"v": "1"}', "is of version '1', this lookup-stage reads version 1"),
        (b'{"v": 1}', "is not a recording: it has no field paths"),
    ],
)
def test_decode_of_what_is_no_recording_says_what_it_is(line: bytes, why: str) -> None:
    """One line names what is wrong."""
    with pytest.raises(RecordingUnreadable, match=why):
        decode_recording(line)


@pytest.mark.parametrize(
    "wrong",
    [
        {"request": None},
        {"request_id": 5},
        {"result": "ok"},
        {"key": "not base64"},
        {"headers": [["a"]]},
        {"headers": {"a": "b"}},
        {"captured": {"topic": "t"}},
        {"index": {"collection": "k", "shape": 1}},
        {"paths": [{"query": 0}]},
        {"paths": [{"query": 0, "text": "q", "error": None, "hits": [5]}]},
        {"paths": [{"query": 0, "text": "q", "error": None, "hits": [{"text": "no content"}]}]},
        {"paths": 5},
        {"paths": [{"query": 0, "text": "q", "error": None, "hits": []}] * 2},
        {"paths": [{"query": "0", "text": "q", "error": None, "hits": []}]},
        {"limits": {"retrieve_k": 20}},
        {"limits": None},
        {"budget": None},
        {"limits": {"retrieve_k": "20", "return_n": 5, "max_chunks_per_document": 2}},
        {"limits": {"retrieve_k": True, "return_n": 5, "max_chunks_per_document": 2}},
    ],
)
def test_decode_of_a_recording_with_a_wrong_field_is_refused(wrong: Mapping[str, Any]) -> None:
    """What is of another form is not taken for a recording."""
    with pytest.raises(RecordingUnreadable, match=r"is not a recording: \S"):
        decode_recording(json.dumps({**members(encode_recording(example())), **wrong}).encode())


# What a port may bring


class Colour(enum.Enum):
    """An enumeration, which orjson writes as its value."""

    RED = "red"


STRANGE: dict[str, object] = {
    "NaN": math.nan,
    "infinite": math.inf,
    "UUID": uuid.UUID(int=5),
    "enumeration": Colour.RED,
    "bytes": b"bytes",
    "object": object(),
    "tuple": (1, 2),
    "mapping by number": {1: "a"},
    "mapping that is no dict": MappingProxyType({"a": 1}),
    "65 bits": 2**64,
    "400 digits": 10**400,
    "lone surrogate": "\ud800",
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize(
    "found",
    [
        lambda value: hit_with(id=value),
        lambda value: hit_with(content=value),
        lambda value: hit_with(score=value),
        lambda value: hit_with(metadata=value),
        lambda value: hit_with(metadata={"docId": value, "chunkIndex": 1}),
        lambda value: hit_with(metadata=MappingProxyType({"docId": "docA", "chunkIndex": value})),
        lambda value: hit_with(metadata={"docId": "docA", "chunkIndex": 1, "title": value, "more": [value]}),
    ],
    ids=["id", "content", "score", "metadata", "docId", "chunkIndex", "title"],
)
def test_values_that_are_no_json_replay_as_what_they_were(found: Any, strange: object) -> None:
    """No value becomes one that a rule takes for something else."""
    answers = (answer(found(strange), hit("docB", 1)),)
    assert concluded(decode_recording(encode_recording(recording(*answers))).answers) == concluded(answers)


@given(strategies.paths(), strategies.widths(), strategies.budgets())
def test_any_hits_conclude_to_the_same_after_a_recording(paths: Any, widths: Any, room: Any) -> None:
    """Whatever a port returned, the recorded answers come to what the answers came to."""
    answers = tuple(PathAnswer(query=path.query, hits=path) for path in paths)
    read = decode_recording(encode_recording(recording(*answers, widths=widths, room=room)))
    assert (read.limits, read.budget) == (widths, room)
    assert conclude(read.answers, limits=widths, budget=room) == conclude(answers, limits=widths, budget=room)


@given(st.lists(strategies.sound_hits().filter(lambda found: isinstance(found.metadata, dict)), max_size=4))
def test_sound_hits_are_read_back_as_they_were(found: list[SearchHit]) -> None:
    """Hits as ports return them are equal before and after, scores to the last bit."""
    (read,) = decode_recording(encode_recording(recording(answer(*found)))).answers
    assert [each.content for each in read.hits.hits] == [each.content for each in found]
    assert [each.score for each in read.hits.hits] == [each.score for each in found]


def concluded(answers: tuple[PathAnswer, ...]) -> object:
    """Return what answers come to under the product's limits."""
    return conclude(answers, limits=limits(), budget=budget())
