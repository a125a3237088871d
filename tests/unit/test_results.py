"""Results: their JSON, what survives the way there and back, and how they are addressed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model import (
    Dropped,
    Evidence,
    HitReason,
    Ledger,
    Outcome,
    PathHits,
    PathReport,
    Problem,
)
from pipeline.outcome import PathAnswer, conclude
from streams.kafka.records import ConsumedRecord, Headers, ProducedRecord
from streams.wire.requests import FieldProblem
from streams.wire.results import (
    LookupResult,
    Rejection,
    ResultStatus,
    decode_result,
    encode_result,
    result_record,
)
from tests import strategies
from tests.builders import answer, budget, failure, limits
from tests.strategies import LONE_SURROGATE

EXAMPLE: dict[str, Any] = {
    "request_id": "r-1",
    "status": "ok",
    "evidence": [
        {
            "rank": 1,
            "document_id": "docA#chunk-2",
            "doc_id": "docA",
            "chunk_index": 2,
            "source": "runbooks/a.md",
            "title": "Restarts",
            "breadcrumb": "Kafka → Restarts",
            "content": "Restart the consumer.",
            "truncated": False,
            "score": 0.83,
            "hit_reasons": [{"query": 0, "rank": 1, "score": 0.83}],
        }
    ],
    "paths": [{"query": 0, "status": "ok", "hits": 20, "error": None}],
    "ledger": {
        "retrieved": 20,
        "rejected": 0,
        "duplicates": 3,
        "over_document_cap": 6,
        "over_return_n": 6,
        "over_budget": 4,
        "projected": 1,
    },
    "limits": {"retrieve_k": 20, "return_n": 5, "max_chunks_per_document": 2},
    "error": None,
    "hints": None,
}
"""The JSON of the result that `example` gives, its fields in order."""


def example() -> LookupResult:
    """Return a result with one piece of evidence."""
    return LookupResult(
        request_id="r-1",
        status="ok",
        evidence=(
            Evidence(
                rank=1,
                document_id="docA#chunk-2",
                doc_id="docA",
                chunk_index=2,
                source="runbooks/a.md",
                title="Restarts",
                breadcrumb="Kafka → Restarts",
                content="Restart the consumer.",
                truncated=False,
                score=0.83,
                hit_reasons=(HitReason(query=0, rank=1, score=0.83),),
            ),
        ),
        paths=(PathReport(query=0, status="ok", hits=20),),
        ledger=Ledger(
            retrieved=20, duplicates=3, over_document_cap=6, over_return_n=6, over_budget=4, projected=1
        ),
        limits=limits(),
    )


def result_of(outcome: Outcome, *, explain: bool = True, hints: object = None) -> LookupResult:
    """Return the result of a lookup."""
    return LookupResult(
        request_id="r-1",
        status=outcome.status,
        evidence=outcome.evidence,
        paths=outcome.paths,
        ledger=outcome.ledger,
        limits=limits(),
        error=outcome.error,
        hints=hints,
        dropped=outcome.dropped if explain else None,
    )


def record(*, key: bytes | None = b"session-7", headers: Headers = ()) -> ConsumedRecord:
    """Return a request as it was read."""
    return ConsumedRecord(
        topic="lookup.requests",
        partition=3,
        offset=17,
        timestamp_ms=1_800_000_000_000,
        key=key,
        value=b"{}",
        headers=headers,
    )


# JSON


def test_json_has_the_fields_in_order() -> None:
    """A result is compact JSON, its fields and those inside them in the documented order."""
    assert encode_result(example()) == orjson.dumps(EXAMPLE)


def test_json_of_a_request_that_was_not_searched_has_every_field() -> None:
    """An agent finds the same fields whatever the status: empty lists, a ledger of zeros, and nulls."""
    body = json.loads(encode_result(LookupResult(request_id="r-1", status="expired")))
    assert list(body) == list(EXAMPLE)
    assert body["evidence"] == body["paths"] == []
    assert body["ledger"] == dict.fromkeys(EXAMPLE["ledger"], 0)
    assert body["limits"] is body["error"] is body["hints"] is None


def test_json_of_a_failure_has_code_and_message() -> None:
    """The error of a path and of the whole are code and message."""
    outcome = conclude([failure()], limits=limits(), budget=budget())
    body = json.loads(encode_result(result_of(outcome)))
    problem = {"code": "search_unavailable", "message": "the engine cannot be reached"}
    assert body["error"] == problem
    assert body["paths"] == [{"query": 0, "status": "failed", "hits": 0, "error": problem}]


def test_json_of_a_rejection_names_each_field() -> None:
    """The error of a rejection has every bad field, in order."""
    rejection = Rejection(
        message="the request is not valid",
        fields=(
            FieldProblem(field="query", value="' '", problem="must not be blank"),
            FieldProblem(field="retrieve_k", value="0", problem="must be greater than or equal to 1"),
        ),
    )
    body = json.loads(encode_result(LookupResult(request_id="r-1", status="rejected", error=rejection)))
    assert list(body["error"]) == ["code", "message", "fields"]
    assert body["error"]["code"] == "invalid_request"
    assert body["error"]["fields"] == [
        {"field": "query", "value": "' '", "problem": "must not be blank"},
        {"field": "retrieve_k", "value": "0", "problem": "must be greater than or equal to 1"},
    ]


def test_json_has_dropped_only_where_it_was_asked_for() -> None:
    """With `explain`, `dropped` stands behind the ledger, empty or not; without, it is not there."""
    assert "dropped" not in json.loads(encode_result(example()))
    body = json.loads(encode_result(replace(example(), dropped=())))
    assert body["dropped"] == []
    assert list(body)[4:6] == ["ledger", "dropped"]


def test_json_of_dropped_names_hit_reason_and_merger() -> None:
    """Each dropped hit says which it was, why it was dropped, and what it was merged into."""
    dropped = (
        Dropped(document_id="docA#chunk-7", reason="over_document_cap", query=0, rank=4),
        Dropped(document_id="docA#chunk-2", reason="duplicate", query=1, rank=1, merged_into="docA#chunk-2"),
    )
    body = json.loads(encode_result(replace(example(), dropped=dropped)))
    assert [list(drop)[:2] for drop in body["dropped"]] == [["document_id", "reason"]] * 2
    assert [(drop["document_id"], drop["reason"], drop["merged_into"]) for drop in body["dropped"]] == [
        ("docA#chunk-7", "over_document_cap", None),
        ("docA#chunk-2", "duplicate", "docA#chunk-2"),
    ]


def test_json_is_utf8_and_not_escaped() -> None:
    """Text is itself, in UTF-8."""
    value = encode_result(replace(example(), request_id="日本語😀", hints="é"))
    assert "日本語😀".encode() in value
    assert json.loads(value)["hints"] == "é"


def test_json_of_equal_results_is_equal_bytes() -> None:
    """The bytes are a function of the result."""
    assert encode_result(example()) == encode_result(example())
    assert encode_result(replace(example(), hints={"b": 1, "a": 2})) == encode_result(
        replace(example(), hints={"b": 1, "a": 2})
    )


# What a port may bring


@pytest.mark.parametrize("large", [2**63, 2**64 - 1, 2**64, 10**400, -(2**63) - 1])
def test_integers_over_64_bits_do_not_cost_the_answer(large: int) -> None:
    """An integer of any size is written down exactly."""
    evidence = replace(example().evidence[0], chunk_index=large)
    value = encode_result(replace(example(), evidence=(evidence,)))
    assert json.loads(value) == EXAMPLE | {"evidence": [EXAMPLE["evidence"][0] | {"chunk_index": large}]}


def test_lone_surrogates_do_not_cost_the_answer() -> None:
    """Text that UTF-8 cannot hold is replaced where it cannot, and the rest of the result is untouched."""
    evidence = replace(example().evidence[0], content=f"a{LONE_SURROGATE}b", title="日本語")
    body = json.loads(encode_result(replace(example(), evidence=(evidence,))).decode())
    assert body["evidence"] == [EXAMPLE["evidence"][0] | {"content": "a?b", "title": "日本語"}]


def test_json_on_the_second_way_has_the_same_fields_in_order() -> None:
    """Whether the fast or the exact encoder wrote a result does not show."""
    slow = encode_result(replace(example(), hints=[2**64], dropped=()))
    fast = encode_result(replace(example(), hints=[2**63], dropped=()))
    assert slow.replace(str(2**64).encode(), b"") == fast.replace(str(2**63).encode(), b"")


JSON_HINTS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=10,
)


@st.composite
def any_outcome(draw: st.DrawFn, *, encodable: bool) -> Outcome:
    """Return what a lookup comes to, whatever its paths found and whichever of them failed."""
    answers = [
        failure(found.query) if draw(st.booleans()) and draw(st.booleans()) else answered(found)
        for found in draw(strategies.paths(encodable=encodable))
    ]
    return conclude(answers, limits=draw(strategies.widths()), budget=draw(strategies.budgets()))


def answered(found: PathHits) -> PathAnswer:
    """Return the answer of a path that found something."""
    return answer(*found.hits, query=found.query)


@given(any_outcome(encodable=True), st.booleans(), JSON_HINTS)
def test_decode_gives_back_what_was_encoded(
    outcome: Outcome,
    explain: bool,  # noqa: FBT001 - given by Hypothesis
    hints: object,
) -> None:
    """Every result survives the way to the topic and back."""
    result = result_of(outcome, explain=explain, hints=hints)
    assert decode_result(encode_result(result)) == result


@given(st.lists(st.builds(FieldProblem, field=st.text(), value=st.text(), problem=st.text()), min_size=1))
def test_decode_gives_back_a_rejection(fields: Sequence[FieldProblem]) -> None:
    """A rejection is not taken for another error."""
    rejection = Rejection(message="the request is not valid", fields=tuple(fields))
    result = LookupResult(request_id="r-1", status="rejected", error=rejection)
    assert decode_result(encode_result(result)) == result


@pytest.mark.parametrize(
    "code", ["search_unavailable", "search_timeout", "search_rejected", "internal", "invalid_request"]
)
def test_decode_gives_back_a_problem(code: Any) -> None:
    """A problem is not taken for a rejection."""
    result = LookupResult(request_id="r-1", status="failed", error=Problem(code=code, message="m"))
    assert decode_result(encode_result(result)) == result


@given(any_outcome(encodable=False), JSON_HINTS)
def test_encode_takes_whatever_a_port_may_bring(outcome: Outcome, hints: object) -> None:
    """Every result becomes JSON in UTF-8, complete and without NaN."""
    value = encode_result(result_of(outcome, hints=hints))
    body = json.loads(value.decode("utf-8"), parse_constant=pytest.fail)
    assert body["status"] == outcome.status
    assert [item["chunk_index"] for item in body["evidence"]] == [
        item.chunk_index for item in outcome.evidence
    ]


@pytest.mark.parametrize("large", [2**64 + 1, 10**300, 10**400])
def test_decode_gives_back_integers_over_64_bits(large: int) -> None:
    """What the stage writes exactly, a client reads exactly."""
    result = replace(example(), evidence=(replace(example().evidence[0], chunk_index=large),))
    assert decode_result(encode_result(result)) == result


def test_decode_gives_back_hints_as_deep_as_requests_may_have() -> None:
    """Hints that a request may bring, 250 levels deep, do not cost the client its result."""
    hints: object = 0
    for _ in range(250):
        hints = [hints]
    result = replace(example(), hints=hints)
    assert decode_result(encode_result(result)) == result


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"\xff", "utf-8"),
        (b"null", "LookupResult"),
        (b"[]", "LookupResult"),
        (b"{}", "request_id"),
        (b'{"request_id": "r-1", "status": "unheard-of"}', "status"),
    ],
)
def test_decode_value_that_is_no_result_is_an_error(value: bytes, why: str) -> None:
    """What is not the JSON of a result is not taken for one."""
    with pytest.raises(ValueError, match=why):
        decode_result(value)


def test_decode_ignores_fields_that_it_does_not_know() -> None:
    """A newer stage may say more."""
    assert decode_result(orjson.dumps(EXAMPLE | {"later": 1})) == example()


# Records


def produced(
    request: ConsumedRecord, *, request_id: str = "r-1", status: ResultStatus = "ok"
) -> ProducedRecord:
    """Return the record of a request's result."""
    return result_record(request, LookupResult(request_id=request_id, status=status), topic="the.results")


def test_record_has_the_topic_and_the_value() -> None:
    """The value is the result's JSON."""
    assert produced(record()).topic == "the.results"
    assert produced(record()).value == encode_result(LookupResult(request_id="r-1", status="ok"))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param(b"session-7", b"session-7", id="key"),
        pytest.param(b"", b"", id="empty key"),
        pytest.param(b"\xff\x00", b"\xff\x00", id="key that is no text"),
        pytest.param(None, "r-日".encode(), id="no key"),
    ],
)
def test_record_has_the_requests_key_or_its_id(key: bytes | None, expected: bytes) -> None:
    """A result goes where its request was; one without a key goes by the request's id."""
    assert produced(record(key=key), request_id="r-日").key == expected


def test_record_headers_say_what_and_whose_it_is() -> None:
    """Content type, request and status stand in the headers, in UTF-8."""
    assert produced(record(), request_id="r-日", status="partial").headers == (
        ("content-type", b"application/json"),
        ("lookup-request-id", "r-日".encode()),
        ("lookup-status", b"partial"),
    )


def test_record_headers_copy_those_of_correlation_and_tracing() -> None:
    """The three are copied, repeated names and empty values too, in the request's order; others are not."""
    headers = (
        ("tracestate", None),
        ("content-type", b"text/plain"),
        ("correlation_id", b"c-1"),
        ("lookup-status", b"ok"),
        ("correlation_id", b"c-2"),
        ("traceparent", b"00-\xff"),
        ("x-internal", b"secret"),
    )
    assert produced(record(headers=headers)).headers[3:] == (
        ("tracestate", None),
        ("correlation_id", b"c-1"),
        ("correlation_id", b"c-2"),
        ("traceparent", b"00-\xff"),
    )


def test_record_headers_have_one_tracestate() -> None:
    """The pieces of a list that came in several headers are one in the result, in the request's order."""
    headers = (
        ("tracestate", b"a=1"),
        ("correlation_id", b"c-1"),
        ("tracestate", b"b=2, c=3"),
        ("Tracestate", b"z=0"),
    )
    assert produced(record(headers=headers)).headers[3:] == (
        ("tracestate", b"a=1,b=2, c=3"),
        ("correlation_id", b"c-1"),
    )


def test_record_is_the_same_for_equal_requests() -> None:
    """Nothing of the place where a request was read stands in its result."""
    elsewhere = replace(record(), partition=0, offset=99, timestamp_ms=0)
    assert produced(record()) == produced(elsewhere)
