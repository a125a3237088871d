"""Unknown fields of a request that are nearly known ones."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from streams.wire.decoding import RequestUnreadable, decode_request
from streams.wire.near_misses import near_misses, suggestion
from streams.wire.request_rules import RequestRules, check
from streams.wire.requests import LookupRequest, RequestInvalid
from tests.builders import budget, limits


@pytest.mark.parametrize(
    ("request_fields", "found"),
    [
        ({"qeury": "q"}, {"qeury": "query"}),
        ({"queryies": ["q"]}, {"queryies": "queries"}),
        ({"query": "q", "retreive_k": 5, "filters": {}}, {"retreive_k": "retrieve_k", "filters": "filter"}),
        ({"requestId": "r", "returnN": 5}, {"requestId": "request_id", "returnN": "return_n"}),
        ({"query": None, "Query": "q"}, {"Query": "query"}),
        ({"query": "q", "budget": {"max_item": 5}}, {"budget.max_item": "budget.max_items"}),
    ],
)
def test_misspelt_field_is_found(request_fields: dict[str, Any], found: dict[str, str]) -> None:
    """What is not set may be meant by what is not known, also inside the budget."""
    assert near_misses(request_fields) == found


@pytest.mark.parametrize(
    "request_fields",
    [
        dict.fromkeys(LookupRequest.model_fields, 1),
        {"query": "q", "session": "s", "trace_id": "t", "user": "u", "": 1, "日本": 2},
        {"query": "q", "query_id": 5, "querys": "q"},
        {"vector": [1], "vector_s": 1},
        {"retrieve_k": 5, "retreive_k": 5},
        {"hints": {"qeury": 1}, "filter": {"tenent": 1}},
        {"budget": 5},
        {"quer\ny": 1, "quer\ud800y": 1, "qüery": 1},
    ],
)
def test_other_unknown_fields_are_left_alone(request_fields: dict[str, Any]) -> None:
    """Names of somebody's own, names of what is set already, and names inside what may have any."""
    assert near_misses(request_fields) == {}


def test_many_or_long_unknown_names_take_no_time() -> None:
    """A stranger's request must not hold up the others."""
    many = {f"querx{number}": 1 for number in range(200_000)}
    long = {"query" * 100_000: 1}
    began = time.process_time()
    assert len(near_misses(many)) <= 100
    assert near_misses(long) == {}
    assert time.process_time() - began < 1


def rejection(**fields: Any) -> dict[str, str]:
    """Return what a rejection says of each field."""
    rules = RequestRules(limits=limits(), max_width=200, budget=budget(), tenant_field="team", dimension=None)
    with pytest.raises(RequestInvalid) as refused:
        check(decode_request(json.dumps({"request_id": "r", **fields}).encode()), rules)
    return {problem.field: problem.problem for problem in refused.value.problems}


def test_rejection_for_want_of_a_field_names_its_misspelling() -> None:
    """Whoever misspelt the only field that is needed is told so."""
    assert rejection(qeury="q", tenent="t") == {
        "query": "query or queries must be given (unknown field qeury: did you mean query?)",
        "tenant": "must be given: tenants are kept apart here (unknown field tenent: did you mean tenant?)",
    }


def test_other_rejections_are_as_they_were() -> None:
    """Neither a field of somebody's own nor the misspelling of another one is mentioned."""
    without = {
        "query": "query or queries must be given",
        "tenant": "must be given: tenants are kept apart here",
    }
    assert rejection() == without
    assert rejection(text="q", retreive_k=5, filters={}) == without
    assert rejection(query=" ", tenant="t", qeury="q") == {"query": "must not be blank"}


def test_request_without_an_id_names_its_misspelling() -> None:
    """Its dead letter says so, for it has no result."""
    with pytest.raises(RequestUnreadable) as unreadable:
        decode_request(b'{"requestId": "r", "query": "q"}')
    assert str(unreadable.value) == (
        "request_id must be a string that is not empty, not None"
        " (unknown field requestId: did you mean request_id?)"
    )
    with pytest.raises(RequestUnreadable) as unreadable:
        decode_request(b'{"query": "q", "id": "r"}')
    assert str(unreadable.value) == "request_id must be a string that is not empty, not None"


def test_several_misspellings_are_all_named() -> None:
    """In the order in which they were sent."""
    assert suggestion({"qeury": 1, "querie": 2}, "query", "queries") == (
        " (unknown field qeury: did you mean query?, querie: did you mean queries?)"
    )
