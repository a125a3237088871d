"""CloudEvents in binary mode: headers that stand in for a request's id and its expiry."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.records import ConsumedRecord, Headers
from streams.replay.redrive import parse
from streams.wire.cloud_events import attribute
from streams.wire.decoding import DecodedRequest, RequestUnreadable, decode_request
from streams.wire.request_rules import RequestRules, check
from streams.wire.requests import LookupRequest, RequestInvalid
from tests.builders import budget, consumed, limits

EVENT: Headers = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"e-1"),
    ("ce_source", b"/agents/7"),
    ("ce_type", b"lookup.request"),
    ("content-type", b"application/json"),
)
EXPIRY = ("ce_expirytime", b"2026-01-31T12:00:00Z")
RULES = RequestRules(limits=limits(), max_width=200, budget=budget(), tenant_field=None, dimension=None)


def value(**fields: object) -> bytes:
    """Return the bytes of a request without an id of its own."""
    return json.dumps({"query": "q"} | fields).encode()


def requested(request_value: bytes | None, headers: Headers) -> LookupRequest:
    """Read and check a request."""
    return check(decode_request(request_value, headers), RULES)[0]


def rejected(request_value: bytes | None, headers: Headers) -> tuple[str, dict[str, str]]:
    """Return whom a rejection is for, and what it says of each field."""
    with pytest.raises(RequestInvalid) as refused:
        requested(request_value, headers)
    found = {problem.field: problem.problem for problem in refused.value.problems}
    assert len(found) == len(refused.value.problems)
    return refused.value.request_id, found


def test_id_and_expiry_of_the_event_stand_in_for_those_of_the_request() -> None:
    """A body without an id or an expiry has those of its event; null is absent."""
    for body in (value(), value(request_id=None, expires_at=None)):
        request = requested(body, (*EVENT, EXPIRY))
        assert request.request_id == "e-1"
        assert request.expires_at == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_id_and_expiry_of_the_request_win() -> None:
    """What the body says holds, and the headers beside it are not looked at, whatever they are."""
    body = value(request_id="r-1", expires_at="2027-01-01T00:00:00Z")
    wrong: Headers = (("ce_id", b"\xff"), ("ce_id", None), ("ce_expirytime", b"soon"))
    for headers in (EVENT, (*EVENT, EXPIRY), wrong):
        request = requested(body, headers)
        assert (request.request_id, request.expires_at) == ("r-1", datetime(2027, 1, 1, tzinfo=UTC))


def test_other_attributes_and_headers_are_ignored() -> None:
    """Whatever else an event says, and however often, it means nothing here."""
    others: Headers = (("ce_specversion", b"9"), ("ce_time", b"\xff"), ("ce_time", None), ("CE_ID", b"x"))
    assert requested(value(), (*others, ("ce_id", b"e-1"))).request_id == "e-1"
    assert requested(value(request_id="r-1"), others).request_id == "r-1"


def test_decoded_request_says_what_came_from_headers() -> None:
    """The body is whole, and what was not its own is named with the header."""
    assert decode_request(value(), (*EVENT, EXPIRY)) == DecodedRequest(
        request_id="e-1",
        body={"query": "q", "request_id": "e-1", "expires_at": "2026-01-31T12:00:00Z"},
        flaw=None,
        origins={"request_id": "ce_id", "expires_at": "ce_expirytime"},
    )


@pytest.mark.parametrize(
    ("request_value", "why"),
    [
        pytest.param(None, "the value is null", id="tombstone"),
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"\xff", "not JSON", id="not UTF-8"),
        pytest.param(b'{"query": "q"', "not JSON", id="cut off"),
        pytest.param(b"[]", "not a JSON object but list", id="array"),
        pytest.param(b"[" * 100_000, "not JSON", id="brackets only"),
    ],
)
def test_value_that_is_no_object_is_rejected_where_the_event_has_an_id(
    request_value: bytes | None, why: str
) -> None:
    """There is somebody who waits for that id."""
    request_id, problems = rejected(request_value, EVENT)
    assert request_id == "e-1"
    assert problems.keys() == {"request"}
    assert why in problems["request"]


@pytest.mark.parametrize("own", [5, "", True, ["r-1"]])
def test_id_of_the_request_that_is_none_is_rejected_under_the_events(own: object) -> None:
    """The event's id does not hide the mistake; it lets the agent know of it."""
    request_id, problems = rejected(value(request_id=own), EVENT)
    assert request_id == "e-1"
    assert problems.keys() == {"request_id"}


def test_value_for_lenient_parsers_is_rejected_under_the_events_id() -> None:
    """What only lenient parsers take is named as it is for any request."""
    request_id, problems = rejected(b'{"query": "q", "vector": [NaN]}', EVENT)
    assert request_id == "e-1"
    assert problems.keys() == {"vector[0]"}


@pytest.mark.parametrize(
    ("headers", "named", "allowed"),
    [
        ((("ce_id", b"a" * 201),), "ce_id", "at most 200 characters"),
        ((("ce_id", b"a"), ("ce_id", b"e-1")), "ce_id", "must be given once"),
        ((("ce_id", b"\xff"), ("ce_id", b"e-1")), "ce_id", "must be given once"),
        ((("ce_id", b"x" * 201),) * 2, "ce_id", "must be given once"),
        ((*EVENT, EXPIRY, EXPIRY), "ce_expirytime", "must be given once"),
        ((*EVENT, ("ce_expirytime", b"soon")), "ce_expirytime", "RFC 3339"),
        ((*EVENT, ("ce_expirytime", b"2026-02-30T12:00:00Z")), "ce_expirytime", "out of range"),
        ((*EVENT, ("ce_expirytime", b"")), "ce_expirytime", "RFC 3339"),
        ((*EVENT, ("ce_expirytime", b"\xff")), "ce_expirytime", "must be UTF-8 text"),
        ((*EVENT, ("ce_expirytime", None)), "ce_expirytime", "must be UTF-8 text"),
    ],
)
def test_header_against_its_rule_is_named_with_what_is_allowed(
    headers: Headers, named: str, allowed: str
) -> None:
    """A rejection names the header, not the field it stands in for; of repeated ids the last is answered."""
    request_id, problems = rejected(value(), headers)
    assert request_id.encode() == [text for name, text in headers if name == "ce_id"][-1]
    assert problems.keys() == {named}
    assert allowed in problems[named]


@pytest.mark.parametrize("header", [b"", b"\xff", None])
@pytest.mark.parametrize("request_value", [value(), value(request_id=5), b"{", None])
def test_id_that_is_no_text_is_nobodys(header: bytes | None, request_value: bytes | None) -> None:
    """Where neither body nor header gives an id there is nobody to answer."""
    with pytest.raises(RequestUnreadable):
        decode_request(request_value, (("ce_id", header),))


def test_dead_letters_of_events_have_their_id() -> None:
    """A dead letter is found by the id that its result has, also where its value is no JSON."""
    headers = (*EVENT, ("lookup.errors.stage", b"decode"))
    for body in (value(), b"{", None):
        assert parse(consumed(body, headers=headers)).request_id == "e-1"
    assert parse(consumed(b"{")).request_id is None


HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["ce_id", "ce_expirytime", "ce_type", "x"]),
        st.one_of(st.none(), st.just(b"e-1"), st.binary(max_size=3)),
    ),
    max_size=5,
).map(tuple)
OWN_ID = st.one_of(st.just("r-1"), st.none(), st.just(5), st.just(""))


@given(st.one_of(OWN_ID.map(lambda own: value(request_id=own)), st.just(b"{"), st.none()), HEADERS)
def test_request_with_an_id_anywhere_is_answered(request_value: bytes | None, headers: Headers) -> None:
    """Whoever can be told from the body, else from the last `ce_id`, gets an answer; nobody else does."""
    own = json.loads(request_value).get("request_id") if request_value not in (None, b"{") else None
    given_ids = [text for name, text in headers if name == "ce_id"]
    waiting = own if own == "r-1" else _decoded(given_ids[-1]) if given_ids else None
    try:
        answered: str | None = decode_request(request_value, headers).request_id
    except RequestInvalid as error:
        answered = error.request_id
    except RequestUnreadable:
        answered = None
    assert answered == waiting


def test_attribute_is_found_among_others() -> None:
    """Names are compared as they are."""
    record: ConsumedRecord = consumed(b"", headers=EVENT)
    found = attribute(record.headers, "ce_id")
    assert found is not None
    assert (found.text, found.problem) == ("e-1", None)
    assert attribute(record.headers, "ce_") is None
    assert attribute((), "ce_id") is None


def _decoded(text: bytes | None) -> str | None:
    try:
        return (text or b"").decode() or None
    except UnicodeDecodeError:
        return None
