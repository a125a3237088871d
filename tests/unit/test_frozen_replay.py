"""Frozen replay: recorded hits come to the recorded bytes, or the first difference is named."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError
from pipeline.model import Budget, Limits, SearchHit
from pipeline.outcome import PathAnswer
from streams.recordings.files import NumberedRecording
from streams.recordings.recording import (
    RecordedIndex,
    Recording,
    RecordingUnreadable,
    decode_recording,
    encode_recording,
)
from streams.replay.changes import limit_change
from streams.replay.frozen import FrozenReplay, replay_frozen
from streams.settings.loading import load_limits
from streams.stage.recorder import Recorder
from tests import strategies
from tests.builders import (
    FakeSearch,
    answer,
    answering,
    budget,
    consumed,
    failure,
    hit,
    limits,
    lookup_answerer,
    recording,
)
from tests.support.contract import check_recording
from tests.support.pages import text_of

FILE = Path("file.jsonl")
FOUND = answer(*(hit(f"doc{number % 3}", number, score=1 - number / 10) for number in range(8)))


def replayed(line: bytes, **sets: object) -> tuple[bytes, FrozenReplay]:
    """Replay one line, with other values where some are given, and return the line that comes out."""
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in sets.items()}
    change = limit_change(*load_limits(keys)) if keys else None
    lines: list[bytes] = []
    replay = replay_frozen(FILE, [NumberedRecording(7, line, decode_recording(line))], lines.append, change)
    return lines[0], replay


def with_result(old: Recording, **fields: object) -> bytes:
    """Return a recording's line with another result than its hits come to."""
    return encode_recording(replace(old, result={**(old.result or {}), **fields}))


async def recorded_by_the_stage(value: bytes, found: Sequence[Any]) -> bytes:
    """Return what a worker records of a request whose search finds these hits."""
    request = consumed(value)
    answered = await lookup_answerer(FakeSearch({"q": answering(*found)})).answer(request)
    recorder = Recorder(topic="t", share=1.0, index=RecordedIndex(collection="c", fingerprint=None))
    recorded = recorder.record(request, answered)
    assert recorded is not None
    assert recorded.value is not None
    return recorded.value


# The same code and limits


@pytest.mark.parametrize(
    "fields",
    [{}, {"explain": True}, {"explain": False, "hints": {"b": [1.0, "é"], "a": None}}, {"hints": 2**53 + 1}],
)
def test_result_is_byte_identical(fields: dict[str, Any]) -> None:
    """The line comes out as it went in."""
    line = encode_recording(recording(FOUND, failure(1), **fields))
    out, replay = replayed(line)
    assert out == line
    assert (replay.replayed, replay.differing, replay.first) == (1, 0, None)


@given(
    strategies.paths(),
    st.lists(st.booleans(), min_size=3),
    strategies.widths(),
    strategies.budgets(),
    st.booleans(),
)
def test_result_of_any_hits_is_byte_identical(
    paths: Any,
    failing: list[bool],
    widths: Any,
    room: Any,
    explain: bool,  # noqa: FBT001 - given by Hypothesis
) -> None:
    """Whatever a port returned and whichever paths failed, recording and replaying changes no byte."""
    answers = [
        failure(path.query) if fails else PathAnswer(query=path.query, hits=path)
        for path, fails in zip(paths, failing, strict=False)
    ]
    line = encode_recording(recording(*answers, widths=widths, room=room, explain=explain))
    out, replay = replayed(line)
    assert (out, replay.first) == (line, None)


@given(st.lists(strategies.hits(), max_size=6), st.booleans())
async def test_what_the_stage_records_is_byte_identical(
    found: list[Any],
    explain: bool,  # noqa: FBT001 - given by Hypothesis
) -> None:
    """The whole way: request, search port, answer, recording, replay."""
    body = {"request_id": "r-1", "query": "q", "explain": explain, "hints": {"n": 1.5, "s": "日本語"}}
    line = await recorded_by_the_stage(json.dumps(body, indent=1, ensure_ascii=False).encode(), found)
    out, replay = replayed(line)
    assert (out, replay.first) == (line, None)


@pytest.mark.parametrize(
    "fields",
    [
        b'"query": "q", "hints": [1180591620717411303424, 1e400000]',
        b'"query": "q", "hints": [1180591620717411303424, 1.50, -0.0, 1e2]',
        b'"query": "q", "retrieve_k": 0',
        b'"query": "q", "expires_at": "2020-01-01T00:00:00Z"',
        b'"query": NaN',
        b'"query": "boom"',
    ],
)
@pytest.mark.parametrize("large", [2, 2**70])
async def test_result_of_any_request_is_byte_identical(fields: bytes, large: int) -> None:
    """Numbers that JSON writes in several ways, and requests that are not searched, replay to the same."""
    line = await recorded_by_the_stage(b'{"request_id": "r-1", %s}' % fields, [hit("docA", large)])
    out, replay = replayed(line)
    assert (out, replay.first) == (line, None)


def test_file_that_another_tool_wrote_anew_is_still_identical() -> None:
    """Spaces and the order of a recording's fields are not part of a result."""
    line = encode_recording(recording(FOUND))
    spaced = json.dumps(dict(reversed(json.loads(line).items())), indent=None, ensure_ascii=False).encode()
    assert spaced != line
    out, replay = replayed(spaced)
    assert (out, replay.differing) == (spaced, 0)


def test_recording_on_its_page_is_one_and_replays_to_its_result() -> None:
    """The example is in the contract, and the rules make of its hits what it says."""
    line = " ".join(text_of("recording").splitlines()).encode()
    check_recording(line)
    assert replayed(line)[1].first is None


# Differences


@pytest.mark.parametrize(
    ("fields", "difference"),
    [
        ({"status": "empty"}, 'status: recorded "empty", now "ok"'),
        ({"hints": 1}, "hints: recorded 1, now null"),
        ({"limits": {"retrieve_k": 20.0, "return_n": 5, "max_chunks_per_document": 2}}, "20.0, now 20"),
        ({"later": True}, "later: recorded true, now absent"),
        ({"evidence": []}, "evidence[0]: recorded absent, now"),
    ],
)
def test_first_difference_names_request_line_path_and_both_values(
    fields: dict[str, object], difference: str
) -> None:
    """One line is enough to find it."""
    out, replay = replayed(with_result(recording(FOUND), **fields))
    assert replay.differing == 1
    assert replay.first is not None
    assert replay.first.startswith("line 7: request r-1: ")
    assert difference in replay.first
    assert out == encode_recording(recording(FOUND)), "what comes out has the result as it is now"


def test_order_of_a_results_fields_is_part_of_its_bytes() -> None:
    """Agents are promised the same bytes."""
    old = recording(FOUND)
    line = encode_recording(replace(old, result=dict(reversed(list((old.result or {}).items())))))
    _, replay = replayed(line)
    assert replay.first is not None
    assert "order of the fields of the result" in replay.first


def test_difference_deep_in_a_long_text_is_shown_where_it_is() -> None:
    """Of a text the part is shown in which the two differ."""
    old = recording(answer(hit("docA", 0, content="a" * 500)))
    other = recording(answer(hit("docA", 0, content="a" * 300 + "b" + "a" * 199)))
    _, replay = replayed(encode_recording(replace(old, result=other.result)))
    assert replay.first is not None
    assert "evidence[0].content: recorded …aaaaaaaaaaaaaaab" in replay.first
    assert len(replay.first) < 250


def test_only_the_first_difference_is_kept_and_all_are_counted() -> None:
    """A million differences are one line."""
    lines = [with_result(recording(FOUND, request_id=f"r-{number}"), hints=1) for number in range(3)]
    numbered = [
        NumberedRecording(number, line, decode_recording(line)) for number, line in enumerate(lines, start=1)
    ]
    replay = replay_frozen(FILE, numbered, lambda line: None, None)  # noqa: ARG005 - not looked at
    assert (replay.replayed, replay.differing) == (3, 3)
    assert replay.first is not None
    assert replay.first.startswith("line 1: request r-0: hints")


def test_recording_without_hits_is_named() -> None:
    """A request that was recorded alone has nothing to replay."""
    alone = replace(recording(FOUND), paths=None, limits=None, budget=None, result=None)
    with pytest.raises(RecordingUnreadable, match=r"file\.jsonl: line 7: has no hits"):
        replayed(encode_recording(alone))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything inside a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


WRONG: list[Any] = [None, True, 0, -1, 1.5, "", "7", [], {}, [1], {"a": 1}, [["a"]], 2**70, "\ud800"]


@pytest.mark.parametrize("sets", [{}, {"rag__return_n": 2}], ids=["as recorded", "other limits"])
def test_field_of_another_form_is_never_more_than_a_line(sets: dict[str, object]) -> None:
    """Whatever stands in the place of a field, the recording is replayed or refused."""
    line = encode_recording(
        recording(answer(hit("docA", 0, row_id="x", source="s")), failure(1), explain=True, hints=1)
    )
    refused: list[str] = []
    for path in places(json.loads(line)):
        for wrong in WRONG:
            changed = json.loads(line)
            reduce(operator.getitem, path[:-1], changed)[path[-1]] = wrong
            try:
                replayed(json.dumps(changed).encode(), **sets)
            except (RecordingUnreadable, ConfigurationError) as error:
                refused.append(str(error))
    assert len(refused) > 100
    assert {len(each.splitlines()) for each in refused} == {1}


# Other limits


@pytest.mark.parametrize(
    ("sets", "widths"),
    [
        ({"rag__max_chunks_per_document": "3"}, limits(max_chunks_per_document=3)),
        ({"rag__return_n": "2"}, limits(return_n=2)),
        ({"rag__retrieve_k": "6"}, limits(retrieve_k=6)),
        ({"rag__top_k": "7"}, limits(retrieve_k=7, return_n=7)),
        ({"rag__top_k": "7", "rag__return_n": "3"}, limits(retrieve_k=7, return_n=3)),
        ({"rag__max_retrieve_k": "100"}, limits()),
    ],
)
def test_other_limits_give_what_a_stage_so_configured_would(sets: dict[str, str], widths: Limits) -> None:
    """Limits, hits and result of the new recording are those of a stage with these settings."""
    hits = answer(*FOUND.hits.hits[: widths.retrieve_k])
    out, replay = replayed(encode_recording(recording(FOUND)), **sets)
    assert out == encode_recording(recording(hits, widths=widths))
    assert replay.differing == 0, "with other limits other results are no difference"


def test_other_budget_gives_what_a_stage_so_configured_would() -> None:
    """Every key of `projection.*` is one of the budget."""
    room = budget(max_items=3, max_chars_per_item=10, max_total_chars=25, min_chars_per_item=4)
    sets = {f"projection__{name}": getattr(room, name) for name in room.__dataclass_fields__}
    out, _ = replayed(encode_recording(recording(FOUND)), **sets)
    assert out == encode_recording(recording(FOUND, room=room))


def test_what_a_request_asks_for_goes_before_other_limits() -> None:
    """As in the stage, a setting holds for requests that name no width of their own."""
    own = limits(return_n=3, max_chunks_per_document=1)
    asked = {"return_n": 3, "max_chunks_per_document": 1, "budget": {"max_items": 2}}
    old = recording(FOUND, widths=own, room=budget(max_items=2), **asked)
    out, _ = replayed(
        encode_recording(old), rag__return_n=5, rag__max_chunks_per_document=4, projection__max_items=10
    )
    assert out == encode_recording(old)


def test_request_that_asks_for_more_than_other_limits_allow_is_rejected() -> None:
    """The stage would not have searched for it."""
    old = recording(FOUND, widths=limits(return_n=8), return_n=8)
    new = decode_recording(replayed(encode_recording(old), rag__retrieve_k=6)[0])
    assert (new.paths, new.limits, new.budget) == ((), None, None)
    assert new.result is not None
    assert (new.result["status"], new.result["request_id"]) == ("rejected", "r-1")
    assert [problem["field"] for problem in new.result["error"]["fields"]] == ["return_n"]


def test_results_without_hits_keep_what_they_were_under_other_limits() -> None:
    """A request that had expired has only other limits in its result; one that was rejected nothing."""
    old = replace(recording(FOUND), paths=(), result={"status": "expired", "limits": asdict(limits())})
    new = decode_recording(replayed(encode_recording(old), rag__return_n=2)[0])
    assert new.result == {"status": "expired", "limits": asdict(limits(return_n=2))}
    rejected = replace(old, limits=None, budget=None, result={"status": "rejected", "limits": None})
    assert decode_recording(replayed(encode_recording(rejected), rag__return_n=2)[0]) == rejected


@given(
    st.lists(strategies.hits(encodable=True), max_size=12),
    st.fixed_dictionaries(
        {"explain": st.booleans()},
        optional={
            "retrieve_k": st.integers(1, 12),
            "return_n": st.integers(1, 12),
            "max_chunks_per_document": st.integers(1, 3),
            "budget": st.fixed_dictionaries({}, optional={"max_items": st.integers(1, 4)}),
        },
    ),
    strategies.widths(),
    strategies.budgets(),
)
async def test_other_limits_give_what_the_stage_answers_under_them(
    found: list[SearchHit], asked: dict[str, Any], widths: Limits, room: Budget
) -> None:
    """Recorded under one configuration and replayed under another is asked under the other."""
    assume(asked.get("return_n", 1) <= asked.get("retrieve_k", 20))  # else it is rejected under both

    async def reply(query: Any) -> Sequence[SearchHit]:
        return found[: query.limit]

    request = consumed(json.dumps({"request_id": "r-1", "query": "q", **asked}).encode())
    search = FakeSearch({"q": reply})
    recorder = Recorder(topic="t", share=1.0, index=RecordedIndex(collection="c", fingerprint=None))
    recorded = recorder.record(request, await lookup_answerer(search).answer(request))
    there = await lookup_answerer(search, widths=widths, room=room).answer(request)
    sets = {f"rag__{name}": value for name, value in asdict(widths).items()}
    sets |= {f"projection__{name}": value for name, value in asdict(room).items()}
    assert recorded is not None
    assert there.result is not None
    out, _ = replayed(recorded.value or b"", **sets)
    assert out.endswith(b'"result":%s}' % (there.result.value or b""))


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        (
            {"rag__retrieve_k": 50},
            "rag.retrieve-k = 50: of request r-1 the first 8 hits were recorded: use --live",
        ),
        ({"rag__return_n": 9}, "rag.return-n = 9 must not be greater than rag.retrieve-k = 8"),
        ({"rag__tenant_field": "team"}, "rag.tenant-field=team: changes the search: use --live"),
        ({"rag__return_n": "many"}, r"rag.return-n = 'many' \(command line\): must be a valid integer"),
        ({"projection__max_items": 0}, r"projection.max-items = 0 \(command line\): must be greater than"),
    ],
)
def test_limits_that_recorded_hits_cannot_tell_are_refused(sets: dict[str, object], why: str) -> None:
    """The line says why."""
    with pytest.raises(ConfigurationError, match=why):
        replayed(encode_recording(recording(FOUND, widths=limits(retrieve_k=8))), **sets)


def test_wider_recall_is_no_guess_where_all_hits_were_recorded() -> None:
    """A search that gave fewer hits than it might have has no others."""
    out, _ = replayed(encode_recording(recording(FOUND)), rag__retrieve_k=50)
    assert out == encode_recording(recording(FOUND, widths=limits(retrieve_k=50)))
