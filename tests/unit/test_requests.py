"""Requests: what is read from the bytes, what is refused and how, and the lookup that comes of the rest."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.model import Budget, Condition, Limits, Lookup
from streams.wire.decoding import DecodedRequest, RequestUnreadable, decode_request
from streams.wire.request_rules import RequestRules, check
from streams.wire.requests import FieldProblem, LookupRequest, RequestInvalid, shown
from tests.builders import budget, limits

Fields = dict[str, Any]


def body(**fields: object) -> Fields:
    """Return the object of a request; without a query of its own it asks one."""
    asks = {} if {"query", "queries"} & fields.keys() else {"query": "How do I restart it?"}
    return {"request_id": "r-1"} | asks | fields


def value(**fields: object) -> bytes:
    """Return the bytes of a request."""
    return json.dumps(body(**fields)).encode()


def raw(fields: str) -> bytes:
    """Return the bytes of a request with fields that are written out, whatever they are."""
    return f'{{"request_id": "r-1", "query": "q", {fields}}}'.encode()


def rules(
    *,
    widths: Limits | None = None,
    max_width: int = 200,
    allowed: Budget | None = None,
    tenant_field: str | None = None,
    dimension: int | None = None,
) -> RequestRules:
    """Return rules; the defaults are the product's."""
    return RequestRules(
        limits=widths or limits(),
        max_width=max_width,
        budget=allowed or budget(),
        tenant_field=tenant_field,
        dimension=dimension,
    )


def requested(request: bytes | None) -> LookupRequest:
    """Read and check a request."""
    return check(decode_request(request), rules())[0]


def asked(request: bytes | None, under: RequestRules | None = None) -> Lookup:
    """Accept a request all the way."""
    return check(decode_request(request), under or rules())[1]


def problems(request: bytes, under: RequestRules | None = None) -> dict[str, FieldProblem]:
    """Return, by field, what is wrong with a request."""
    with pytest.raises(RequestInvalid) as refused:
        asked(request, under)
    found = refused.value.problems
    assert refused.value.request_id == "r-1"
    assert len({problem.field for problem in found}) == len(found) > 0
    return {problem.field: problem for problem in found}


# Decoding


@pytest.mark.parametrize(
    ("request_value", "why"),
    [
        pytest.param(None, "the value is null", id="tombstone"),
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b" \n", "not JSON", id="blank"),
        pytest.param(b"\x00\x01\x02\xff", "not JSON", id="binary"),
        pytest.param(b'{"request_id": "r-1", "query": "\xff"}', "not JSON", id="not UTF-8"),
        pytest.param(b'{"request_id": "r-1", "query": "q"', "not JSON", id="cut off"),
        pytest.param(b'{"request_id": "r-1",}', "not JSON", id="comma at the end"),
        pytest.param(b"{'request_id': 'r-1'}", "not JSON", id="single quotes"),
        pytest.param(b'{"request_id": "r-1"} {}', "not JSON", id="two objects"),
        pytest.param(b'{"request_id": "r-1", "query": "a\nb"}', "not JSON", id="raw control character"),
        pytest.param(b"[" * 100_000, "not JSON", id="brackets only"),
        pytest.param(b'{"a":' * 100_000, "not JSON", id="braces only"),
        pytest.param(b"null", "not a JSON object but NoneType", id="null"),
        pytest.param(b"[]", "not a JSON object but list", id="empty array"),
        pytest.param(b'[{"request_id": "r-1"}]', "not a JSON object but list", id="array of requests"),
        pytest.param(b'"r-1"', "not a JSON object but str", id="string"),
        pytest.param(b"5", "not a JSON object but int", id="number"),
        pytest.param(b"NaN", "not a JSON object but float", id="NaN"),
        pytest.param(b"{}", "request_id must be a string", id="no id"),
        pytest.param(b'{"requestId": "r-1"}', "request_id must be a string", id="another name"),
        pytest.param(b'{"request_id": null}', "request_id must be a string", id="null id"),
        pytest.param(b'{"request_id": ""}', "request_id must be a string", id="empty id"),
        pytest.param(b'{"request_id": 5}', "request_id must be a string", id="number as id"),
        pytest.param(b'{"request_id": true}', "request_id must be a string", id="boolean as id"),
        pytest.param(b'{"request_id": ["r-1"]}', "request_id must be a string", id="array as id"),
        pytest.param(b'{"request_id": NaN}', "request_id must be a string", id="NaN as id"),
        pytest.param(b'{"request_id": "\\ud800"}', "request_id must be a string", id="surrogate in the id"),
    ],
)
def test_decode_value_without_readable_id_is_unreadable(request_value: bytes | None, why: str) -> None:
    """Where there is nobody to answer, the error says in one line of bounded length what the value is."""
    with pytest.raises(RequestUnreadable, match=why) as refused:
        decode_request(request_value)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 300


@pytest.mark.parametrize(
    ("request_value", "field"),
    [
        pytest.param(raw('"hints": NaN'), "request", id="NaN"),
        pytest.param(raw('"hints": -Infinity'), "request", id="infinity"),
        pytest.param(raw('"hints": 1e400'), "request", id="number over the range of doubles"),
        pytest.param(raw(f'"hints": {"9" * 400}'), "hints", id="integer of 400 digits"),
        pytest.param(raw('"filter": {"team": NaN}'), "request", id="NaN in the filter"),
        pytest.param(raw('"filter": {"team": "\\ud800"}'), "request", id="lone surrogate in the filter"),
        pytest.param(raw('"unknown": "\\udc00"'), "request", id="lone surrogate in an unknown field"),
        pytest.param(raw('"\\ud800": 1'), "request", id="lone surrogate as a name"),
        pytest.param(raw('"tenant": "\\ud800"'), "tenant", id="lone surrogate in the tenant"),
        pytest.param(raw('"hints": "\\ud800"'), "hints", id="lone surrogate in the hints"),
        pytest.param(raw('"vector": [NaN]'), "vector[0]", id="NaN in the vector"),
        pytest.param(raw('"vector": [1e400]'), "vector[0]", id="infinity in the vector"),
        pytest.param(raw(f'"vector": [{"9" * 400}]'), "vector[0]", id="400 digits in the vector"),
        pytest.param(raw('"retrieve_k": 1e400'), "retrieve_k", id="infinite width"),
        pytest.param(b"\xef\xbb\xbf" + value(), "request", id="byte order mark"),
    ],
)
def test_decode_value_for_lenient_parsers_is_rejected_and_not_lost(request_value: bytes, field: str) -> None:
    """What only lenient parsers take is no valid request, but the agent gets an answer that says so."""
    assert decode_request(request_value).flaw is not None
    assert field in problems(request_value)


@pytest.mark.parametrize("digits", [4_299, 5_000, 100_000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_decode_number_beyond_the_parsers_is_rejected_and_not_lost(digits: int, sign: str) -> None:
    """JSON with a request id has somebody who waits for an answer, however long a number in it is."""
    request_value = raw(f'"retrieve_k": {sign}{"9" * digits}')
    assert decode_request(request_value).request_id == "r-1"
    assert problems(request_value)


def test_decode_nesting_beyond_the_parsers_is_unreadable() -> None:
    """Of JSON that is nested deeper than parsers go no request id can be read."""
    with pytest.raises(RequestUnreadable, match="recursion"):
        decode_request(raw(f'"unknown": {"[" * 200_000}{"]" * 200_000}'))


def test_decode_request_keeps_the_object_as_it_is() -> None:
    """A value that is JSON has no flaw, and nothing about it is changed."""
    fields = body(unknown={"a": [1, None]})
    assert decode_request(json.dumps(fields).encode()) == DecodedRequest(
        request_id="r-1", body=fields, flaw=None
    )


def test_decode_repeated_names_take_the_last() -> None:
    """Of a name that repeats, the last one holds, in the id as in any field."""
    request = requested(b'{"request_id": 5, "request_id": "r-2", "query": "a", "query": "b"}')
    assert (request.request_id, request.query) == ("r-2", "b")


def test_decode_nested_value_is_read() -> None:
    """Depth by itself is no flaw."""
    assert requested(raw(f'"unknown": {"[" * 500}{"]" * 500}')).request_id == "r-1"


# Fields that are taken


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"request_id": "r"}, id="id of 1"),
        pytest.param({"request_id": "r" * 200}, id="id of 200"),
        pytest.param({"request_id": "日本語😀"}, id="id beyond ASCII"),
        pytest.param({"query": "q"}, id="query of 1"),
        pytest.param({"query": "q" * 8_192}, id="query of 8,192"),
        pytest.param({"query": "😀" * 8_192}, id="query of 8,192 code points"),
        pytest.param({"query": "\x00"}, id="query of one control character"),
        pytest.param({"queries": ["q"]}, id="1 query"),
        pytest.param({"queries": ["q"] * 8}, id="8 queries"),
        pytest.param({"query": None, "queries": ["q"]}, id="null beside queries"),
        pytest.param({"vector": [0.5, -0.5]}, id="vector"),
        pytest.param({"vector": [1, 0]}, id="vector of integers"),
        pytest.param({"queries": ["a", "b"], "vectors": [[1.0], [2.0]]}, id="vectors"),
        pytest.param({"queries": ["a"], "vector": [1.0]}, id="vector of the one of queries"),
        pytest.param({"retrieve_k": 1, "return_n": 1, "max_chunks_per_document": 1}, id="widths of 1"),
        pytest.param(
            {"retrieve_k": 200, "return_n": 200, "max_chunks_per_document": 200}, id="widths of 200"
        ),
        pytest.param({"filter": {}}, id="empty filter"),
        pytest.param({"filter": {"a.b-c_D": ["x", 1, 1.5, True]}}, id="filter of every scalar"),
        pytest.param({"filter": {"f" * 200: 0}}, id="filter field of 200"),
        pytest.param({"tenant": "acme"}, id="tenant"),
        pytest.param({"budget": {}}, id="empty budget"),
        pytest.param({"budget": {"max_items": 1, "unknown": "x"}}, id="unknown field of the budget"),
        pytest.param({"expires_at": "2026-01-31T12:00:00Z"}, id="expiry"),
        pytest.param({"explain": True}, id="explain"),
        pytest.param({"hints": None}, id="null hints"),
        pytest.param({"hints": [1, "a", {"b": [None, False]}]}, id="hints"),
        pytest.param({"hints": "x" * (16 * 1_024 - 2)}, id="hints of 16 KiB"),
        pytest.param({"unknown": {"deep": [1]}, "Query": 5}, id="unknown fields"),
        pytest.param(
            dict.fromkeys(
                (
                    "queries",
                    "vector",
                    "vectors",
                    "retrieve_k",
                    "return_n",
                    "max_chunks_per_document",
                    "filter",
                    "tenant",
                    "budget",
                    "expires_at",
                    "hints",
                )
            )
            | {"query": "q"},
            id="null fields",
        ),
    ],
)
def test_field_within_its_rule_is_taken(fields: Fields) -> None:
    """Every field is taken up to its edges; null is absent, and unknown fields are ignored."""
    assert isinstance(asked(value(**fields)), Lookup)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+01:30", datetime(2026, 1, 31, 10, 30, tzinfo=UTC)),
        ("2026-01-31T12:00:00-00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5Z", datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456789Z", datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)),
        ("0001-01-01T00:00:00+23:59", datetime.fromisoformat("0001-01-01T00:00:00+23:59")),
        ("9999-12-31T23:59:59-23:59", datetime.fromisoformat("9999-12-31T23:59:59-23:59")),
        ("2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=UTC)),
        ("2016-12-31t23:59:60.999999999z", datetime(2017, 1, 1, tzinfo=UTC)),
        ("2016-12-31 23:59:60-00:00", datetime(2017, 1, 1, tzinfo=UTC)),
        ("2016-12-31T15:59:60-08:00", datetime(2017, 1, 1, tzinfo=UTC)),
        ("2017-01-01T05:29:60+05:30", datetime(2017, 1, 1, tzinfo=UTC)),
        ("0001-01-01T08:59:60+09:00", datetime.fromisoformat("0001-01-01T09:00:00+09:00")),
        ("9999-12-31T15:59:60-08:00", datetime.fromisoformat("9999-12-31T16:00:00-08:00")),
        ("9999-12-31T23:59:60Z", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_expires_at_in_any_form_of_rfc3339(text: str, moment: datetime) -> None:
    """Every form of the standard names its moment."""
    assert requested(value(expires_at=text)).expires_at == moment


# Fields that are refused

AT_LEAST_ONE = "must be greater than or equal to 1"
INTEGER = "must be a valid integer"
RFC3339 = "must be an RFC 3339 time with an offset, such as 2026-01-31T12:00:00Z"
SCALARS = "must be a string, number, boolean or a list of at least one"
NAMES = "field names are 1 to 200 letters, digits, '_', '-' or '.'"


@pytest.mark.parametrize(
    ("fields", "field", "held", "allowed"),
    [
        ({"request_id": "r-1" * 67}, "request_id", "'r-1r-1", "at most 200 characters"),
        ({"query": None}, "query", "None", "query or queries must be given"),
        ({"query": ""}, "query", "''", "at least 1 character"),
        ({"query": " \t\n\u2003"}, "query", "' \\t\\n\\u2003'", "must not be blank"),
        ({"query": "q" * 8_193}, "query", "'qqq", "at most 8192 characters"),
        ({"query": 5}, "query", "5", "must be a valid string"),
        ({"query": ["q"]}, "query", "['q']", "must be a valid string"),
        ({"query": True}, "query", "True", "must be a valid string"),
        ({"query": "a", "queries": ["b"]}, "queries", "['b']", "must not be given beside query"),
        ({"queries": []}, "queries", "[]", "at least 1 item"),
        ({"queries": ["q"] * 9}, "queries", "['q', 'q', ", "at most 8 items"),
        ({"queries": "q"}, "queries", "'q'", "must be a valid list"),
        ({"queries": {"0": "q"}}, "queries", "{'0': 'q'}", "must be a valid list"),
        ({"queries": ["q", None]}, "queries[1]", "None", "must be a valid string"),
        ({"queries": ["q", " "]}, "queries[1]", "' '", "must not be blank"),
        ({"queries": ["q", ""]}, "queries[1]", "''", "at least 1 character"),
        ({"queries": ["q", "q" * 8_193]}, "queries[1]", "'qqq", "at most 8192 characters"),
        ({"vector": []}, "vector", "[]", "at least 1 item"),
        ({"vector": "0.5"}, "vector", "'0.5'", "must be a valid list"),
        ({"vector": 0.5}, "vector", "0.5", "must be a valid list"),
        ({"vector": [1.0, "0.5"]}, "vector[1]", "'0.5'", "must be a valid number"),
        ({"vector": [1.0, None]}, "vector[1]", "None", "must be a valid number"),
        ({"vector": [True]}, "vector[0]", "True", "must be a valid number"),
        ({"vector": [[1.0]]}, "vector[0]", "[1.0]", "must be a valid number"),
        ({"vector": [1.0], "vectors": [[1.0]]}, "vectors", "[[1.0]]", "must not be given beside vector"),
        ({"queries": ["a", "b"], "vector": [1.0]}, "vector", "1 vectors", "one for each query"),
        ({"queries": ["a", "b"], "vectors": [[1.0]]}, "vectors", "1 vectors", "there are 2"),
        ({"query": "a", "vectors": [[1.0], [2.0]]}, "vectors", "2 vectors", "there are 1"),
        ({"vectors": []}, "vectors", "[]", "at least 1 item"),
        ({"vectors": [[]]}, "vectors[0]", "[]", "at least 1 item"),
        ({"vectors": [[1.0, False]]}, "vectors[0][1]", "False", "must be a valid number"),
        ({"vectors": [1.0]}, "vectors[0]", "1.0", "must be a valid list"),
        ({"retrieve_k": 0}, "retrieve_k", "0", AT_LEAST_ONE),
        ({"retrieve_k": -1}, "retrieve_k", "-1", AT_LEAST_ONE),
        ({"retrieve_k": True}, "retrieve_k", "True", INTEGER),
        ({"retrieve_k": "5"}, "retrieve_k", "'5'", INTEGER),
        ({"retrieve_k": 5.0}, "retrieve_k", "5.0", INTEGER),
        ({"retrieve_k": 201}, "retrieve_k", "201", "must be at most 200 (rag.max-retrieve-k)"),
        ({"retrieve_k": 2**63}, "retrieve_k", str(2**63), "must be at most 200"),
        ({"retrieve_k": 2**64}, "retrieve_k", "1.8446744073709552e+19", INTEGER),
        ({"return_n": 0}, "return_n", "0", AT_LEAST_ONE),
        ({"return_n": False}, "return_n", "False", INTEGER),
        ({"return_n": 21}, "return_n", "21", "must be at most 20 (retrieve_k)"),
        ({"return_n": 201}, "return_n", "201", "must be at most 20 (retrieve_k)"),
        ({"retrieve_k": 3, "return_n": 4}, "return_n", "4", "must be at most 3 (retrieve_k)"),
        ({"max_chunks_per_document": 0}, "max_chunks_per_document", "0", AT_LEAST_ONE),
        ({"max_chunks_per_document": "2"}, "max_chunks_per_document", "'2'", INTEGER),
        ({"max_chunks_per_document": 201}, "max_chunks_per_document", "201", "must be at most 200"),
        ({"filter": "team == 'a'"}, "filter", "\"team == 'a'\"", "must be a valid object"),
        ({"filter": [["team", "a"]]}, "filter", "[['team', 'a']]", "must be a valid object"),
        ({"filter": {"team": None}}, "filter", "{'team': None}", f"team {SCALARS}, not None"),
        ({"filter": {"team": []}}, "filter", "{'team': []}", f"team {SCALARS}, not []"),
        ({"filter": {"team": [None]}}, "filter", "{'team': [None]}", f"team {SCALARS}, not [None]"),
        ({"filter": {"team": [["a"]]}}, "filter", "{'team': [['a']]}", f"team {SCALARS}"),
        ({"filter": {"team": {"$ne": "a"}}}, "filter", "{'team': {'$ne': 'a'}}", f"team {SCALARS}"),
        ({"filter": {"": "a"}}, "filter", "{'': 'a'}", f"{NAMES}, not ''"),
        ({"filter": {"f" * 201: "a"}}, "filter", "{'fff", NAMES),
        ({"filter": {'a" or 1 == 1': 1}}, "filter", "{'a\" or 1 == 1': 1}", NAMES),
        ({"filter": {"team\n": 1}}, "filter", "{'team\\n': 1}", NAMES),
        ({"filter": {"meta['a']": 1}}, "filter", "{\"meta['a']\": 1}", NAMES),
        ({"tenant": ""}, "tenant", "''", "at least 1 character"),
        ({"tenant": " "}, "tenant", "' '", "must not be blank"),
        ({"tenant": 5}, "tenant", "5", "must be a valid string"),
        ({"tenant": ["a", "b"]}, "tenant", "['a', 'b']", "must be a valid string"),
        ({"budget": []}, "budget", "[]", "must be a valid object"),
        ({"budget": 5}, "budget", "5", "must be a valid object"),
        ({"budget": {"max_items": 0}}, "budget.max_items", "0", AT_LEAST_ONE),
        ({"budget": {"max_items": True}}, "budget.max_items", "True", INTEGER),
        ({"budget": {"max_chars_per_item": "9"}}, "budget.max_chars_per_item", "'9'", INTEGER),
        ({"budget": {"max_total_chars": 0.5}}, "budget.max_total_chars", "0.5", INTEGER),
        ({"expires_at": 1_800_000_000}, "expires_at", "1800000000", RFC3339),
        ({"expires_at": "tomorrow"}, "expires_at", "'tomorrow'", RFC3339),
        ({"expires_at": "2026-01-31"}, "expires_at", "'2026-01-31'", RFC3339),
        ({"expires_at": "2026-01-31T12:00:00"}, "expires_at", "'2026-01-31T12:00:00'", RFC3339),
        ({"expires_at": "2026-01-31T12:00Z"}, "expires_at", "'2026-01-31T12:00Z'", RFC3339),
        ({"expires_at": "20260131T120000Z"}, "expires_at", "'20260131T120000Z'", RFC3339),
        ({"expires_at": "2026-W05-6T12:00:00Z"}, "expires_at", "'2026-W05-6T12:00:00Z'", RFC3339),
        ({"expires_at": "2026-01-31T12:00:00Z\n"}, "expires_at", "'2026-01-31T12:00:00Z\\n'", RFC3339),
        ({"expires_at": "2026-02-30T12:00:00Z"}, "expires_at", "'2026-02-30T12:00:00Z'", "out of range"),
        ({"expires_at": "2026-01-31T24:00:00Z"}, "expires_at", "'2026-01-31T24:00:00Z'", "0..23"),
        ({"expires_at": "2026-01-31T12:00:00+24:00"}, "expires_at", "'2026-01-31T12:00:00+24:00'", "offset"),
        ({"expires_at": "2026-01-31T12:00:00+12:60"}, "expires_at", "'2026-01-31T12:00:00+12:60'", RFC3339),
        ({"expires_at": "2026-01-31T12:00:60Z"}, "expires_at", "'2026-01-31T12:00:60Z'", "0..59"),
        ({"expires_at": "2016-12-31T23:58:60Z"}, "expires_at", "'2016-12-31T23:58:60Z'", "0..59"),
        ({"expires_at": "2016-12-31T23:59:60+01:00"}, "expires_at", "'2016-12-31T23:59:60+01:00'", "0..59"),
        ({"expires_at": "2016-12-31T23:59:61Z"}, "expires_at", "'2016-12-31T23:59:61Z'", "0..59"),
        ({"expires_at": "2016-02-30T23:59:60Z"}, "expires_at", "'2016-02-30T23:59:60Z'", "out of range"),
        ({"expires_at": "٢٠٢٦-01-31T12:00:00Z"}, "expires_at", "'٢٠٢٦-01-31T12:00:00Z'", ""),
        ({"explain": 1}, "explain", "1", "must be a valid boolean"),
        ({"explain": "true"}, "explain", "'true'", "must be a valid boolean"),
        ({"hints": "x" * (16 * 1_024 - 1)}, "hints", "'xxx", "at most 16384 bytes of JSON, not 16385"),
        ({"hints": ["é" * 8_192]}, "hints", "['ééé", "at most 16384 bytes of JSON, not 16388"),
    ],
)
def test_field_against_its_rule_is_named_with_what_is_allowed(
    fields: Fields, field: str, held: str, allowed: str
) -> None:
    """A bad field is named, with what it holds and what is allowed; no other field is."""
    request_value = value(**fields)
    with pytest.raises(RequestInvalid) as refused:
        asked(request_value)
    (problem,) = refused.value.problems
    assert problem.field == field
    assert problem.value.startswith(held)
    assert len(problem.value) <= 80
    assert allowed in problem.problem
    assert problem.problem
    assert "pydantic" not in problem.problem


def test_field_without_any_query_asks_for_one() -> None:
    """A request that asks nothing is told what it can ask with."""
    request_value = b'{"request_id": "r-1"}'
    assert problems(request_value)["query"].problem == "query or queries must be given"


def test_fields_are_all_named_at_once() -> None:
    """An agent is told of every mistake in the form of its request."""
    fields = {
        "query": " ",
        "queries": ["a", 5],
        "vector": [1.0, True],
        "retrieve_k": 0,
        "return_n": "5",
        "max_chunks_per_document": 1.5,
        "filter": {"a b": 1},
        "tenant": "",
        "budget": {"max_items": 0, "max_total_chars": True},
        "expires_at": "soon",
        "explain": "yes",
        "hints": "x" * 20_000,
    }
    assert problems(value(**fields)).keys() == {
        "query",
        "queries[1]",
        "vector[1]",
        "retrieve_k",
        "return_n",
        "max_chunks_per_document",
        "filter",
        "tenant",
        "budget.max_items",
        "budget.max_total_chars",
        "expires_at",
        "explain",
        "hints",
    }


def test_fields_against_the_rules_are_named_at_once() -> None:
    """A missing tenant, a wrong dimension and a width over its bound are one answer."""
    request_value = value(queries=["a", "b"], vectors=[[1.0], [1.0, 2.0]], retrieve_k=500)
    found = problems(request_value, rules(tenant_field="team", dimension=2))
    assert found.keys() == {"tenant", "vectors[0]", "retrieve_k"}


def test_fields_and_a_missing_query_are_named_at_once() -> None:
    """A request without a query is told so also where another field is wrong."""
    assert problems(b'{"request_id": "r-1", "retrieve_k": 0}').keys() == {"query", "retrieve_k"}


def test_fields_and_rules_are_named_at_once() -> None:
    """A missing tenant is named also where another field is wrong."""
    assert problems(value(query=" "), rules(tenant_field="team")).keys() == {"query", "tenant"}


def test_widths_over_their_bounds_are_named_at_once() -> None:
    """Each width that is too large is named."""
    request_value = value(retrieve_k=201, max_chunks_per_document=201)
    assert problems(request_value).keys() == {"retrieve_k", "max_chunks_per_document"}


def test_problems_are_one_line_as_an_error() -> None:
    """The error's own text names each field, what it holds and what is allowed."""
    with pytest.raises(RequestInvalid) as refused:
        asked(value(query="a\n", retrieve_k=0, return_n=True))
    assert str(refused.value) == (
        "retrieve_k = 0: must be greater than or equal to 1; return_n = True: must be a valid integer"
    )


def test_problems_show_values_of_bounded_length() -> None:
    """What a field holds is shortened, however it is nested."""
    nested: object = "x" * 100
    for _ in range(5):
        nested = [nested] * 4
    assert len(shown(nested)) <= 80


def test_problems_are_bounded_in_number() -> None:
    """A list of any length whose elements are all wrong does not make an answer many times as large."""
    assert len(problems(value(vector=[True] * 5_000))) <= 100


# Limits


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, limits(), id="none"),
        pytest.param({"retrieve_k": 50}, limits(retrieve_k=50), id="wider recall"),
        pytest.param({"retrieve_k": 3}, limits(retrieve_k=3, return_n=3), id="recall below the return"),
        pytest.param({"retrieve_k": 5}, limits(retrieve_k=5, return_n=5), id="recall equal to the return"),
        pytest.param({"return_n": 20}, limits(return_n=20), id="return as wide as the recall"),
        pytest.param({"return_n": 1}, limits(return_n=1), id="narrower return"),
        pytest.param({"retrieve_k": 50, "return_n": 40}, limits(retrieve_k=50, return_n=40), id="both"),
        pytest.param({"max_chunks_per_document": 9}, limits(max_chunks_per_document=9), id="cap"),
    ],
)
def test_limits_of_the_request_override_the_configured(fields: Fields, expected: Limits) -> None:
    """A request's widths hold, and the return is clamped to a recall that is narrower."""
    assert asked(value(**fields)).limits == expected


def test_limits_are_bounded_by_the_configured_ceiling() -> None:
    """The bound is the configuration's, up to and including itself."""
    assert asked(value(retrieve_k=30), rules(max_width=30)).limits.retrieve_k == 30
    problem = problems(value(retrieve_k=31), rules(max_width=30))["retrieve_k"]
    assert problem == FieldProblem(
        field="retrieve_k", value="31", problem="must be at most 30 (rag.max-retrieve-k)"
    )


# Budget


def test_budget_absent_is_the_configured() -> None:
    """A request that names none gets the configured budget."""
    assert asked(value(), rules(allowed=budget(max_items=7))).budget == budget(max_items=7)


def test_budget_of_the_request_narrows_field_by_field() -> None:
    """Of each figure the smaller holds; the least piece stays as configured."""
    request_value = value(budget={"max_items": 3, "max_chars_per_item": 9_999, "min_chars_per_item": 1})
    assert asked(request_value).budget == budget(max_items=3)


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("max_items", "max_chars_per_item", "max_total_chars"),
            st.one_of(st.integers(1, 10_000), st.integers(1, 2**63 - 1)),
        ),
    )
)
def test_budget_of_the_request_never_widens(wanted: dict[str, int]) -> None:
    """Whatever is asked for, no figure is above the configured one or above the one asked for."""
    configured, given_budget = budget(), asked(value(budget=wanted)).budget
    for field in ("max_items", "max_chars_per_item", "max_total_chars"):
        ceiling = getattr(configured, field)
        assert getattr(given_budget, field) == min(ceiling, wanted.get(field, ceiling))


# Queries and vectors


def test_queries_are_the_paths_in_order() -> None:
    """Each query is a path; one query is one path, in either field. Nothing is stripped from the text."""
    assert asked(value(query=" a ")).queries == (" a ",)
    assert asked(value(queries=["b", "a", "b"])).queries == ("b", "a", "b")


def test_vectors_are_one_for_each_query() -> None:
    """Vectors are floats, in the order of the queries; without any there are none."""
    assert asked(value()).vectors is None
    assert asked(value(vector=[1, 0.5])).vectors == ((1.0, 0.5),)
    assert asked(value(queries=["a", "b"], vectors=[[1, 2], [3, 4]])).vectors == ((1.0, 2.0), (3.0, 4.0))


@pytest.mark.parametrize(
    ("fields", "field", "held"),
    [
        ({"vector": [1.0, 2.0]}, "vector", "2 numbers"),
        ({"vectors": [[1.0]]}, "vectors[0]", "1 numbers"),
        ({"queries": ["a", "b"], "vectors": [[1.0] * 3, [1.0] * 4]}, "vectors[1]", "4 numbers"),
    ],
)
def test_vectors_of_another_dimension_are_refused(fields: Fields, field: str, held: str) -> None:
    """The vector that does not fit the collection is named, with its length and the one that is needed."""
    (problem,) = problems(value(**fields), rules(dimension=3)).values()
    assert problem == FieldProblem(
        field=field, value=held, problem="must have 3 numbers, as the collection's vectors have"
    )


def test_vectors_of_the_dimension_are_taken() -> None:
    """Vectors that fit are taken, and so is a request without any; an unknown dimension refuses none."""
    assert asked(value(vector=[1.0] * 3), rules(dimension=3)).vectors == ((1.0, 1.0, 1.0),)
    assert asked(value(), rules(dimension=3)).vectors is None
    assert asked(value(vector=[1.0]), rules(dimension=None)).vectors == ((1.0,),)


# Filter and tenant


def test_filter_is_equality_or_membership() -> None:
    """A scalar is one value and a list is its values; types are kept, and all conditions must hold."""
    conditions = asked(value(filter={"team": "a", "year": [2025, 2026.5], "draft": False})).conditions
    assert conditions == (
        Condition(field="team", any_of=("a",)),
        Condition(field="year", any_of=(2025, 2026.5)),
        Condition(field="draft", any_of=(False,)),
    )
    assert [type(option) for condition in conditions for option in condition.any_of] == [
        str,
        int,
        float,
        bool,
    ]


@pytest.mark.parametrize("fields", [{}, {"filter": None}, {"filter": {}}])
def test_filter_absent_is_no_condition(fields: Fields) -> None:
    """Nothing asked is nothing required."""
    assert asked(value(**fields)).conditions == ()


@pytest.mark.parametrize(
    "text", ["a' or 1 == 1 or '", "%", "*", "", " ", "\\", '"', "\x00", "a\nb", "x" * 10_000]
)
def test_filter_values_are_never_an_expression(text: str) -> None:
    """Whatever a value looks like, it is compared with as it is."""
    assert asked(value(filter={"team": text})).conditions == (Condition(field="team", any_of=(text,)),)


@pytest.mark.parametrize("fields", [{}, {"tenant": None}, {"filter": {"team": "acme"}}])
def test_tenant_missing_is_refused_where_tenants_are_kept_apart(fields: Fields) -> None:
    """Without a tenant nothing is searched; naming one in the filter does not help."""
    (problem,) = problems(value(**fields), rules(tenant_field="team")).values()
    assert problem == FieldProblem(
        field="tenant", value="None", problem="must be given: tenants are kept apart here"
    )


def test_tenant_is_the_first_condition() -> None:
    """The tenant's condition comes first, and holds the tenant untouched."""
    request_value = value(tenant=" Acme ", filter={"kind": "runbook"})
    assert asked(request_value, rules(tenant_field="team")).conditions == (
        Condition(field="team", any_of=(" Acme ",)),
        Condition(field="kind", any_of=("runbook",)),
    )


@pytest.mark.parametrize("wanted", ["other", ["acme", "other"], ["acme"], True])
def test_tenant_is_not_widened_by_a_filter_on_its_field(wanted: object) -> None:
    """A filter on the tenant's field stands beside the tenant's condition and does not take its place."""
    request_value = value(tenant="acme", filter={"team": wanted})
    tenant, *others = asked(request_value, rules(tenant_field="team")).conditions
    assert tenant == Condition(field="team", any_of=("acme",))
    assert [condition.field for condition in others] == ["team"]


def test_tenant_is_ignored_where_tenants_are_not_kept_apart() -> None:
    """Without a tenant field the tenant is no condition."""
    assert asked(value(tenant="acme")).conditions == ()


# Anything at all

LARGE_INTEGERS = st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**400])
SCALARS_OF_JSON = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    LARGE_INTEGERS,
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["\ud800", "2026-01-31T12:00:00Z", "2026-02-30T12:00:00Z", "5", " "]),
)
JSON = st.recursive(
    SCALARS_OF_JSON,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.text(max_size=3), st.sampled_from(["max_items", "team", "\ud800"])),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)
SOUND: dict[str, st.SearchStrategy[Any]] = {
    "queries": st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=8),
    "vectors": st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=3), min_size=1, max_size=3),
    "retrieve_k": st.integers(1, 200),
    "return_n": st.integers(1, 20),
    "max_chunks_per_document": st.integers(1, 200),
    "filter": st.dictionaries(
        st.sampled_from(["team", "kind"]),
        st.one_of(st.text(), st.integers(), st.lists(st.booleans(), min_size=1)),
    ),
    "tenant": st.text(min_size=1, max_size=3),
    "budget": st.dictionaries(st.sampled_from(["max_items", "max_total_chars"]), st.integers(1, 9_000)),
    "expires_at": st.datetimes().map(lambda at: f"{at.isoformat()}Z"),
    "explain": st.booleans(),
    "hints": st.dictionaries(st.text(), st.integers()),
}
"""Values that are taken, most of them."""

ANY_NAME = st.sampled_from([*SOUND, "request_id", "query", "vector", "unknown"])
BODIES = st.builds(
    lambda sound, broken: {"request_id": "r-1", "query": "q"} | sound | broken,
    st.fixed_dictionaries({}, optional=SOUND),
    st.dictionaries(ANY_NAME, st.one_of(st.none(), JSON), max_size=3),
)
ANY_RULES = st.builds(
    rules,
    widths=st.sampled_from([limits(), limits(retrieve_k=1, return_n=1)]),
    max_width=st.sampled_from([20, 200]),
    tenant_field=st.sampled_from([None, "team"]),
    dimension=st.sampled_from([None, 2]),
)


def check_attempt(request_value: bytes, under: RequestRules) -> None:
    """Accept a value as far as it goes; any error but the two that are meant goes on."""
    outcome: Lookup | RequestUnreadable | RequestInvalid
    try:
        outcome = asked(request_value, under)
    except (RequestUnreadable, RequestInvalid) as error:
        outcome = error
    if isinstance(outcome, RequestInvalid):
        assert outcome.request_id
        assert outcome.problems
        assert all(problem.field and problem.problem for problem in outcome.problems)
        texts = [(problem.field, problem.value, problem.problem) for problem in outcome.problems]
        assert json.dumps(texts, ensure_ascii=False).encode()
    elif isinstance(outcome, Lookup):
        assert 1 <= outcome.limits.return_n <= outcome.limits.retrieve_k <= under.max_width
        assert 1 <= len(outcome.queries) <= 8
        assert under.tenant_field is None or outcome.conditions[0].field == under.tenant_field
        assert outcome.vectors is None or len(outcome.vectors) == len(outcome.queries)


@given(st.binary(), ANY_RULES)
@example(b'{"request_id":"\xed\xa0\x80"}', rules())
@example('{"request_id": "r", "query": "q"}'.encode("utf-16"), rules())
@example('{"request_id": "r", "query": "q"}'.encode("utf-32-be"), rules())
def test_any_bytes_are_a_lookup_or_one_of_two_errors(request_value: bytes, under: RequestRules) -> None:
    """Whatever stands on the topic, nothing but the two errors comes of it."""
    check_attempt(request_value, under)


@given(BODIES, ANY_RULES, st.booleans())
def test_any_object_is_a_lookup_or_one_of_two_errors(
    fields: Fields,
    under: RequestRules,
    escaped: bool,  # noqa: FBT001 - given by Hypothesis
) -> None:
    """Whatever an object's fields hold, nothing but the two errors comes of it."""
    check_attempt(json.dumps(fields, ensure_ascii=escaped).encode("utf-8", "surrogatepass"), under)


@given(st.text(), ANY_RULES)
def test_any_text_is_a_lookup_or_one_of_two_errors(text: str, under: RequestRules) -> None:
    """Text that is almost a request is no exception."""
    check_attempt(b'{"request_id": "r-1", "query": "q", ' + text.encode() + b"}", under)


def test_filter_of_too_many_values_is_named() -> None:
    """An engine evaluates every value of a filter, so there is a bound on them."""
    check(decode_request(value(filter={"team": ["a"] * 1_000})), rules())
    found = problems(value(filter={"team": ["a"] * 1_000, "tier": 1}))
    assert found["filter"].problem == "must have at most 1000 values"
