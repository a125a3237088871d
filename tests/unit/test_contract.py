"""The contract: what its schemas take and refuse is what the stage takes and refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model import Budget, Limits, Problem
from pipeline.outcome import PathAnswer, conclude
from streams.contract.asyncapi import asyncapi_document
from streams.contract.examples import REQUEST_EVENT
from streams.contract.files import contract_files, written
from streams.contract.schemas import (
    LEFT_TO_THE_STAGE,
    dead_letter_headers_schema,
    recording_schema,
    request_headers_schema,
    request_schema,
    result_headers_schema,
    result_schema,
)
from streams.contract.wire_types import descriptions
from streams.kafka.records import Headers, Undecodable
from streams.recordings.recording import Captured, RecordedIndex, RecordedPath, Recording, encode_recording
from streams.settings.model import KafkaSettings, RagSettings
from streams.wire.dead_letters import Failure, dead_letter_record, shortened
from streams.wire.decoding import RequestUnreadable, decode_request
from streams.wire.request_rules import RequestRules, check
from streams.wire.requests import NOT_BLANK_PATTERN, FieldProblem, LookupRequest, RequestInvalid
from streams.wire.results import LookupResult, encode_result
from tests import strategies
from tests.builders import answer, budget, consumed, failure, hit, limits
from tests.support.contract import check_result, closed

DEFAULTS = RagSettings()
NARROW = RagSettings(retrieve_k=10, return_n=3, max_retrieve_k=30, tenant_field="team")
FILES = contract_files(KafkaSettings(), DEFAULTS)
SCHEMAS = {
    "request": request_schema(DEFAULTS),
    "result": result_schema(),
    "recording": recording_schema(),
    "request headers": request_headers_schema(),
    "result headers": result_headers_schema(),
    "dead-letter headers": dead_letter_headers_schema(),
}


@cache
def validator(name: str) -> jsonschema_rs.Validator:
    """Return a validator of one of the schemas."""
    return jsonschema_rs.validator_for(SCHEMAS[name])


@cache
def strict(name: str) -> jsonschema_rs.Validator:
    """Return one that takes no field but those that the schema names."""
    return jsonschema_rs.validator_for(closed(SCHEMAS[name]))


@cache
def requests_to(rag: RagSettings, *, formats: bool = False) -> jsonschema_rs.Validator:
    """Return a validator of requests to a stage with these settings; it may check formats as well."""
    return jsonschema_rs.validator_for(request_schema(rag), validate_formats=formats)


# The files

KEPT = Path(__file__).parents[2] / "deploy" / "contract"


@pytest.mark.parametrize("name", FILES)
def test_file_that_is_kept_is_that_of_the_code(name: str) -> None:
    """A change of the contract is seen; `lookup-stage contract --out deploy/contract` writes it anew."""
    assert json.loads((KEPT / name).read_bytes()) == json.loads(written(FILES[name]))


def test_no_other_file_is_kept() -> None:
    """What is no longer written is no longer there."""
    assert {file.name for file in KEPT.iterdir()} == FILES.keys()


# The schemas themselves


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_one_of_its_dialect(name: str) -> None:
    """Every file is a schema of draft 2020-12."""
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert jsonschema_rs.meta.is_valid(SCHEMAS[name])


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_describes_every_field(name: str) -> None:
    """Whoever reads a schema finds what each field means, as the docstrings say it."""
    fields = list(described_fields(SCHEMAS[name], name))
    assert len(fields) >= 5 or name == "request headers"
    assert [where for where, field in fields if not (field.get("description") or "const" in field)] == []


def test_descriptions_are_those_of_the_docstring() -> None:
    """Continued lines are joined, and null is called by JSON's name."""
    summary, fields = descriptions(LookupResult)
    assert summary == "The answer to a request: a pure function of request, hits and configuration."
    assert fields["limits"] == "The widths in force, null for a rejected request."
    assert fields["dropped"].endswith("unless asked for with `explain`.")
    assert descriptions(LookupRequest)[1].keys() == LookupRequest.model_fields.keys()


def test_pattern_of_what_is_not_blank_is_pythons() -> None:
    """A text is blank to the schema exactly where it is blank to the stage."""
    finds = jsonschema_rs.validator_for({"pattern": NOT_BLANK_PATTERN})
    characters = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    assert [text for text in characters if finds.is_valid(text) == text.isspace()] == []


# Requests

GOOD: dict[str, list[Any]] = {
    "request_id": ["r", "r" * 200, "日本語😀", " "],
    "query": ["q", "x" * 8_192, "😀", "\ufeff"],
    "queries": [["a"], ["a", "b"], ["a"] * 8],
    "vector": [[0.5, 1, -2], [1e300]],
    "vectors": [[[1.0]], [[1.0], [2.0]], [[0]] * 8],
    "retrieve_k": [1, 3, 10, 30, 200],
    "return_n": [1, 3, 10, 20, 30],
    "max_chunks_per_document": [1, 30],
    "filter": [{}, {"team": "a"}, {"a.b-c_D": ["x", 1, 1.5, True]}, {"größe": 1}, {"f" * 200: 0}],
    "tenant": ["acme"],
    "budget": [{}, {"max_items": 1, "more": "x"}, {"max_chars_per_item": 2**63, "max_total_chars": None}],
    "expires_at": [
        "2026-01-31T12:00:00Z",
        "2026-01-31 12:00:00.123456789+01:30",
        "2026-01-31t12:00:00z",
        "2024-02-29T00:00:00-00:00",
        "2016-12-31T23:59:60Z",
        "2016-12-31 15:59:60.5-08:00",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:60Z",
    ],
    "explain": [True, False],
    "hints": ["", 0, [1, {"a": None}], "x" * 16_000],
    "later": [1],
}
BAD: dict[str, list[Any]] = {
    "request_id": ["", "r" * 201],
    "query": ["", " \x1c\u2003\x85", "x" * 8_193],
    "queries": [[], ["a"] * 9, ["a", " "], ["a", ""]],
    "vector": [[], ["1"], [[1.0]], [True], [0] * 32_769],
    "vectors": [[], [[]], [[1.0], [None]], [[1]] * 9],
    "retrieve_k": [0, -1, 0.5, 5.0, 31, 201, 2**64, "5"],
    "return_n": [0, 2.0, 31, 201],
    "max_chunks_per_document": [0, 31, 201, True],
    "filter": [
        {"a": None},
        {"a": []},
        {"a": [None]},
        {"a": {}},
        {"": 1},
        {"a b": 1},
        {"a\n": 1},
        {"f" * 201: 0},
        {"a—b": 1},
        {"a": ["x"] * 1_001},
        {"a": ["x"] * 600, "b": ["x"] * 600},
    ],
    "tenant": ["", "\u3000"],
    "budget": [{"max_items": 0}, {"max_total_chars": 1.5}, {"max_items": 2.0}, {"max_items": 2**64}],
    "expires_at": [
        "2026-02-30T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+12:60",
        "2026-13-01T12:00:00Z",
        "2016-12-31T23:58:60Z",
        "2016-12-31T23:59:60+01:00",
        "2016-12-31T23:59:61Z",
        "0000-01-01T00:00:00Z",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00:00Z\n",
        "٢٠٢٦-01-31T12:00:00Z",
    ],
    "explain": [1, "true"],
    "hints": ["x" * 16_384],
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def values(name: str) -> st.SearchStrategy[Any]:
    """Return values of a field: mostly good ones, also those at its edges, and anything at all."""
    good, bad = st.sampled_from(GOOD[name]), st.sampled_from(BAD.get(name, [None]))
    return st.one_of(good, good, good, st.none(), bad, ANYTHING)


REQUESTS = st.fixed_dictionaries(
    {"request_id": st.one_of(st.just("r-1"), st.sampled_from(GOOD["request_id"]), values("request_id"))},
    optional={name: values(name) for name in GOOD if name != "request_id"},
)

LEEWAY: dict[str, Callable[[FieldProblem], bool]] = {
    "return_n": lambda problem: "(retrieve_k)" in problem.problem,
    "vector": lambda problem: "numbers, as the collection's" in problem.problem,
    "expires_at": lambda problem: problem.problem.startswith(("day is out of range", "second must be in")),
    "filter": lambda problem: "at most 1000 values" in problem.problem or not problem.value.isascii(),
    "hints": lambda problem: "at most 16384 bytes" in problem.problem,
    "integers": lambda problem: (
        problem.problem == "must be a valid integer" and float(problem.value).is_integer()
    ),
}
"""What a schema leaves to the stage, as `LEFT_TO_THE_STAGE` says: the stage's complaint about each."""


@pytest.mark.parametrize("rag", [DEFAULTS, NARROW], ids=["defaults", "narrow"])
@given(body=REQUESTS)
def test_requests_are_valid_to_the_schema_where_they_are_to_the_stage(
    rag: RagSettings, body: dict[str, Any]
) -> None:
    """The schema takes whatever the stage takes; what it takes beyond that is known field by field."""
    taken = requests_to(rag).is_valid(body)
    if "request_id" in body and (not isinstance(body["request_id"], str) or not body["request_id"]):
        assert not taken
        return
    problems = list(complaints(body, rag))
    assert taken or problems
    if taken:
        assert [problem for problem in problems if not is_left_to_the_stage(problem)] == []


@pytest.mark.parametrize(("field", "value"), [(name, value) for name in BAD for value in BAD[name]], ids=repr)
def test_request_with_one_bad_field_is_valid_to_neither(field: str, value: object) -> None:
    """Each bad value is refused by the stage, and by the schema unless that is known to be beyond it."""
    body = {"request_id": "r-1"} | ({} if field in {"query", "queries"} else {"query": "q"}) | {field: value}
    if not body["request_id"]:
        assert not validator("request").is_valid(body)
        return
    problems = list(complaints(body, NARROW if value == 31 else DEFAULTS, tenant="acme"))
    assert problems
    taken = requests_to(NARROW if value == 31 else DEFAULTS).is_valid({"tenant": "acme"} | body)
    assert not taken or all(map(is_left_to_the_stage, problems))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"query": None},
        {"query": "a", "queries": ["b"]},
        {"query": "a", "vector": [1], "vectors": [[1]]},
        {"query": "a", "vectors": [[1], [2]]},
        {"queries": ["a", "b"], "vectors": [[1]]},
        {"queries": ["a", "b"], "vectors": [[1], [2], [3]]},
        {"queries": ["a", "b"], "vector": [1]},
        {"query": "a", "return_n": 21},
        {"query": "a", "retrieve_k": None, "return_n": 21},
    ],
)
def test_request_against_a_rule_between_fields_is_valid_to_neither(fields: dict[str, Any]) -> None:
    """What one field says of another is in the schema."""
    body = {"request_id": "r-1", **fields}
    assert list(complaints(body, DEFAULTS))
    assert not validator("request").is_valid(body)


MOMENTS = st.from_regex(
    r"(0000|0001|2024|2026|9999)-(02|06|12|13)-(00|01|29|30|31)[Tt ](00|08|15|23|24):(00|59|60):(00|59|60|61)"
    r"(\.[0-9]{1,9})?([Zz]|[+-](00|08|09|23|24):(00|59|60))",
    fullmatch=True,
)


@given(st.sampled_from(GOOD["expires_at"]) | st.sampled_from(BAD["expires_at"]) | MOMENTS)
def test_time_is_valid_to_a_schema_with_formats_where_it_is_to_the_stage(text: str) -> None:
    """Alike in requests, in the headers of events, and in the document.

    With formats checked nothing about a time is left to the stage, except where a space stands in it: the
    format does not know that.
    """
    body = {"request_id": "r-1", "query": "q", "expires_at": text}
    problems = list(complaints(body, DEFAULTS))
    headers = jsonschema_rs.validator_for(SCHEMAS["request headers"], validate_formats=True)
    components = FILES["asyncapi.json"]["components"]
    document = jsonschema_rs.validator_for(
        {"$ref": "#/components/schemas/LookupRequest", "components": components}, validate_formats=True
    )
    valid = requests_to(DEFAULTS, formats=True).is_valid(body)
    assert headers.is_valid({"ce_expirytime": text}) == document.is_valid(body) == valid
    if " " in text:
        assert valid or problems
        assert not valid or all(map(is_left_to_the_stage, problems))
    else:
        assert valid == (not problems)


def test_request_needs_a_tenant_where_tenants_are_kept_apart() -> None:
    """The schema is that of the stage's settings."""
    body = {"request_id": "r-1", "query": "q"}
    assert validator("request").is_valid(body)
    narrow = requests_to(NARROW)
    assert not narrow.is_valid(body)
    assert not narrow.is_valid({**body, "tenant": None})
    assert narrow.is_valid({**body, "tenant": "acme"})


def test_what_is_left_to_the_stage_is_in_the_document() -> None:
    """Whoever reads the document knows what it cannot say."""
    for rule in LEFT_TO_THE_STAGE:
        assert rule in FILES["asyncapi.json"]["info"]["description"]


# What the stage writes


@given(strategies.paths(encodable=True), strategies.widths(), st.booleans(), st.booleans())
def test_results_are_valid(
    found: list[Any],
    widths: Limits,
    explain: bool,  # noqa: FBT001 - given by Hypothesis
    fails: bool,  # noqa: FBT001 - given by Hypothesis
) -> None:
    """Whatever a lookup comes to, its result is in the contract, and has no field beyond it."""
    answers = [answer(*path.hits, query=path.query) for path in found]
    if fails and answers:
        answers[0] = failure(answers[0].query)
    outcome = conclude(answers, limits=widths, budget=budget())
    value = encode_result(
        LookupResult(
            request_id="r-1",
            status=outcome.status,
            evidence=outcome.evidence,
            paths=outcome.paths,
            ledger=outcome.ledger,
            limits=widths,
            error=outcome.error,
            dropped=outcome.dropped if explain else None,
        )
    )
    strict("result").validate(json.loads(value))


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "unheard-of"},
        {"evidence": []},
        {"error": {"code": "internal", "message": "m"}},
        {"request_id": 5},
        {"dropped": None},
        {"ledger": {}},
    ],
)
def test_result_that_the_stage_never_writes_is_not_valid(changes: dict[str, Any]) -> None:
    """A schema that takes anything would be of no use."""
    outcome = conclude([answer(hit("docA", 0))], limits=limits(), budget=budget())
    whole = LookupResult(
        request_id="r-1", status="ok", evidence=outcome.evidence, paths=outcome.paths, limits=limits()
    )
    body = json.loads(encode_result(whole))
    assert validator("result").is_valid(body)
    assert not validator("result").is_valid(body | changes)


def test_dead_letters_headers_are_valid() -> None:
    """The error's headers are those of the contract, in its order."""
    error = Failure(stage="validate", retryable=False, error=ValueError("e"))
    written = dead_letter_record(consumed(b"{"), error, topic="dead").headers
    text = {name: (value or b"").decode() for name, value in written}
    strict("dead-letter headers").validate(text)
    assert list(text) == SCHEMAS["dead-letter headers"]["required"]
    record = replace(consumed(b"\xff"), undecodable=Undecodable(first_offset=3, reason="broken"))
    letter = shortened(dead_letter_record(record, error, topic="dead"), 1, own_headers=0)
    optional = {name: (value or b"").decode() for name, value in letter.headers}
    strict("dead-letter headers").validate(optional)
    assert list(optional) == list(SCHEMAS["dead-letter headers"]["properties"])
    assert not validator("dead-letter headers").is_valid(text | {"lookup.errors.stage": "lunch"})


@given(strategies.paths(encodable=True), st.booleans())
def test_recordings_are_valid(found: list[Any], whole: bool) -> None:  # noqa: FBT001 - given by Hypothesis
    """A line of recordings has the fields of the contract and no others."""
    answers = [PathAnswer(query=path.query, hits=path, error=None) for path in found]
    recording = Recording(
        request_id="r-1",
        request={"request_id": "r-1", "query": "q"},
        key=b"\xff",
        headers=(("a", b"\x00"), ("a", None)),
        captured=Captured(topic="t", partition=0, offset=17, timestamp_ms=0),
        index=RecordedIndex(collection="kb", fingerprint=None) if whole else None,
        paths=tuple(RecordedPath(text="q", answer=each) for each in answers) if whole else None,
        limits=limits() if whole else None,
        budget=budget() if whole else None,
        result={"request_id": "r-1"} if whole else None,
    )
    line = json.loads(encode_recording(recording))
    assert line.keys() <= SCHEMAS["recording"]["properties"].keys()
    without_hits = line | {"paths": [path | {"hits": []} for path in line["paths"] or ()]}
    strict("recording").validate(without_hits)


@pytest.mark.parametrize("error", [None, Problem(code="internal", message="m")])
def test_recorded_hits_are_valid(error: Problem | None) -> None:
    """A hit stands there as a port gives it."""
    path = answer(hit("docA", 0), hit(content=None, score=None, row_id=7))
    recording = Recording(
        request_id="r-1",
        request={"request_id": "r-1"},
        key=None,
        headers=(),
        captured=Captured(topic="t", partition=0, offset=17, timestamp_ms=0),
        index=None,
        paths=(RecordedPath(text="q", answer=PathAnswer(query=0, hits=path.hits, error=error)),),
        limits=limits(),
        budget=Budget(max_items=1, max_chars_per_item=1, max_total_chars=1, min_chars_per_item=1),
        result={},
    )
    strict("recording").validate(json.loads(encode_recording(recording)))


def test_check_of_results_sees_what_is_not_in_the_contract() -> None:
    """The check that the other tests use is no formality."""
    good = encode_result(LookupResult(request_id="r-1", status="expired"))
    headers = (
        ("content-type", b"application/json"),
        ("lookup-request-id", b"r-1"),
        ("lookup-status", b"expired"),
    )
    check_result(good, headers)
    for value, others in (
        (good.replace(b'"hints"', b'"more": 1, "hints"'), headers),
        (good, headers[:2]),
        (good, (*headers, ("x", b""))),
        (good, (*headers, ("lookup-status", b"ok"))),
    ):
        with pytest.raises((jsonschema_rs.ValidationError, AssertionError)):
            check_result(value, others)


# AsyncAPI


def test_document_names_the_topics_and_brokers_of_the_settings() -> None:
    """What is configured is what is described."""
    kafka = KafkaSettings.model_validate(
        {
            "bootstrap_servers": "a:1, b:2",
            "group_id": "g",
            "topics": {"requests": "in", "results": "out"},
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
        }
    )
    document = asyncapi_document(kafka, NARROW)
    assert [server["host"] for server in document["servers"].values()] == ["a:1", "b:2"]
    assert {server["protocol"] for server in document["servers"].values()} == {"kafka-secure"}
    assert document["components"]["securitySchemes"]["sasl"] == {"type": "scramSha512"}
    channels = document["channels"]
    assert [channel["address"] for channel in channels.values()] == [
        "in",
        "out",
        "lookup.dead-letters",
        "lookup.recordings",
    ]
    assert channels["requests"]["bindings"]["kafka"]["topic"] == "in"
    assert document["operations"]["answerRequests"]["bindings"]["kafka"]["groupId"]["const"] == "g"
    widths = document["components"]["schemas"]["LookupRequest"]["properties"]["retrieve_k"]
    assert widths["anyOf"][0]["maximum"] == 30


def test_document_points_only_at_what_is_in_it() -> None:
    """Every reference can be followed."""
    document = FILES["asyncapi.json"]
    pointers = list(references(document))
    assert len(pointers) > 20
    for pointer in pointers:
        found: Any = document
        for part in pointer.removeprefix("#/").split("/"):
            found = found[part]


def test_examples_of_the_document_are_valid() -> None:
    """What is shown is what may be sent, and what comes of it."""
    messages = FILES["asyncapi.json"]["components"]["messages"]
    (request,), (result,) = (messages[name]["examples"] for name in ("LookupRequest", "LookupResult"))
    (event,) = messages["LookupRequestEvent"]["examples"]
    assert list(complaints(request["payload"], DEFAULTS)) == []
    validator("request").validate(request["payload"])
    events().validate(event["payload"])
    strict("result").validate(result["payload"])
    assert result["payload"]["request_id"] == request["payload"]["request_id"]
    assert len(result["payload"]["evidence"]) == 2


def events() -> jsonschema_rs.Validator:
    """Return a validator of the document's events."""
    schema = {
        "$ref": "#/components/schemas/LookupRequestEvent",
        "components": FILES["asyncapi.json"]["components"],
    }
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@pytest.mark.parametrize(
    ("members", "valid"),
    [
        ({}, True),
        ({"id": "i" * 200, "more": 5}, True),
        ({"data": {"query": "q", "request_id": "r-1"}}, True),
        ({"data": '{"query": "q"}', "datacontenttype": "text/plain"}, True),
        ({"data_base64": "eyJxdWVyeSI6ICJxIn0="}, True),
        ({"expirytime": "2016-12-31 23:59:60Z"}, True),
        ({"id": ""}, False),
        ({"id": "i" * 201}, False),
        ({"expirytime": "2026-02-30T12:00:00Z"}, False),
        ({"data": {"query": ""}}, False),
        ({"data": [1]}, False),
        ({"data": {"query": "q"}, "data_base64": "eyJxdWVyeSI6ICJxIn0="}, False),
        ({"data_base64": 5}, False),
        ({"data": {}}, False),
    ],
)
def test_event_is_valid_to_the_document_where_it_is_to_the_stage(
    members: dict[str, Any], *, valid: bool
) -> None:
    """CloudEvents in structured mode are in the contract with the rules that requests have."""
    event = REQUEST_EVENT | members
    if "data_base64" in members and "data" not in members:
        del event["data"]
    headers = (("content-type", b"application/cloudevents+json"),)
    assert events().is_valid(event) == valid
    assert (list(complaints(event, DEFAULTS, headers=headers)) == []) == valid


def test_document_takes_requests_whose_id_is_in_the_headers() -> None:
    """A CloudEvent's value need not repeat the id."""
    document = FILES["asyncapi.json"]
    schema = {"$ref": "#/components/schemas/LookupRequest", "components": document["components"]}
    assert jsonschema_rs.is_valid(schema, {"query": "q"})
    assert not jsonschema_rs.is_valid(schema, {"query": ""})
    assert not validator("request").is_valid({"query": "q"})


def complaints(
    body: dict[str, Any], rag: RagSettings, *, tenant: str | None = None, headers: Headers = ()
) -> Iterator[FieldProblem]:
    """Yield what the stage says against a request."""
    rules = RequestRules(
        limits=rag.limits,
        max_width=rag.max_retrieve_k,
        budget=budget(),
        tenant_field=rag.tenant_field,
        dimension=None,
    )
    whole = body if tenant is None else {"tenant": tenant} | body
    try:
        check(decode_request(json.dumps(whole).encode(), headers), rules)
    except RequestInvalid as error:
        yield from error.problems
    except RequestUnreadable as error:
        yield FieldProblem(field="request_id", value="None", problem=str(error))


def is_left_to_the_stage(problem: FieldProblem) -> bool:
    """Return whether a schema cannot say what is wrong."""
    field = problem.field.partition(".")[0]
    by_field = LEEWAY.get(field)
    if by_field is not None and by_field(problem):
        return True
    return problem.problem == "must be a valid integer" and LEEWAY["integers"](problem)


def references(node: object) -> Iterator[str]:
    """Yield every reference in a document."""
    if isinstance(node, dict):
        yield from (value for name, value in node.items() if name == "$ref")
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def described_fields(schema: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field of a schema and of the types in it."""
    for title, part in ((where, schema), *schema.get("$defs", {}).items()):
        for name, field in part.get("properties", {}).items():
            yield f"{title}.{name}", field
