"""CloudEvents: a request as an event's data, and attributes that stand in for its id and its expiry."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lookup import LookupPipeline
from pipeline.testing.in_memory import InMemorySearch
from streams.kafka.records import ConsumedRecord, Headers
from streams.recordings.recording import Recording
from streams.recordings.requests import lasting_value, request_fields
from streams.replay.redrive import parse
from streams.settings.model import TopicSettings
from streams.stage.answering import Answerer
from streams.stage.recorder import requested as requested_alone
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
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
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
        ((*EVENT, ("ce_expirytime", b"2016-12-31T12:00:60Z")), "ce_expirytime", "0..59"),
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


# Structured mode

TYPED: Headers = (("content-type", b"application/cloudevents+json"),)


def event(**members: object) -> bytes:
    """Return the value of an event in structured mode whose data is a request without an id of its own."""
    whole = {"specversion": "1.0", "id": "e-1", "source": "/agents/7", "type": "lookup.request"}
    return json.dumps(
        whole | ({} if "data_base64" in members else {"data": {"query": "q"}}) | members
    ).encode()


def encoded(data: bytes) -> str:
    """Return bytes in Base64."""
    return b64encode(data).decode()


@pytest.mark.parametrize(
    "media_type",
    [
        b"application/cloudevents+json",
        b"application/cloudevents+json; charset=UTF-8",
        b"Application/CloudEvents+JSON;charset=utf-8",
        b" application/cloudevents+json ;x=1",
        b"application/cloudevents",
    ],
)
def test_event_in_structured_mode_is_a_request(media_type: bytes) -> None:
    """Its data is the request, and its id and expiry stand in for those that the data does not have."""
    headers = (("content-type", b"text/plain"), ("content-type", media_type))
    request = requested(event(expirytime="2026-01-31T12:00:00Z"), headers)
    assert (request.request_id, request.query) == ("e-1", "q")
    assert request.expires_at == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "members",
    [
        {"data": {"query": "q"}, "datacontenttype": "application/json"},
        {"data": {"query": "q"}, "datacontenttype": "text/plain"},
        {"data": '{"query": "q"}', "datacontenttype": "text/plain"},
        {"data": {"query": "q"}, "data_base64": None},
        {"data_base64": encoded(b'{"query": "q"}')},
        {"data": None, "data_base64": encoded(b'{"query": "q"}'), "datacontenttype": "application/json"},
    ],
    ids=repr,
)
def test_data_is_the_request_however_it_is_carried(members: dict[str, object]) -> None:
    """As an object, as text of a type that is not JSON, or in Base64."""
    assert requested(event(**members), TYPED).query == "q"


def test_own_fields_of_the_data_win() -> None:
    """What the event says beside them is not looked at, whatever it is; nor are the headers."""
    data = {"query": "q", "request_id": "r-1", "expires_at": "2027-01-01T00:00:00Z"}
    for members in ({}, {"id": 5, "expirytime": "soon"}):
        request = requested(event(data=data, **members), (*TYPED, ("ce_id", b"\xff")))
        assert (request.request_id, request.expires_at) == ("r-1", datetime(2027, 1, 1, tzinfo=UTC))


def test_attributes_of_the_event_win_over_headers() -> None:
    """Headers may repeat an event's attributes; where it has none, they stand in as in binary mode."""
    headers = (*TYPED, ("ce_id", b"h-1"), EXPIRY)
    both = requested(event(expirytime="2027-01-01T00:00:00Z"), headers)
    assert (both.request_id, both.expires_at) == ("e-1", datetime(2027, 1, 1, tzinfo=UTC))
    neither = requested(event(id=None), headers)
    assert (neither.request_id, neither.expires_at) == ("h-1", datetime(2026, 1, 31, 12, tzinfo=UTC))


def test_other_members_of_an_event_are_ignored() -> None:
    """Extensions mean as little as their headers in binary mode."""
    assert requested(event(traceparent=5, tenant="t", query="other", time="soon"), TYPED).tenant is None


def test_request_of_the_wrong_media_type_is_read_as_it_is() -> None:
    """An object with nothing of an event in it is a request; one of another media type is no event."""
    assert requested(value(request_id="r-1"), TYPED).request_id == "r-1"
    with pytest.raises(RequestUnreadable, match="request_id"):
        decode_request(event(), (("content-type", b"application/json"),))


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"data": None}, "the event has neither data nor data_base64"),
        ({"data": [1]}, "the event's data is not a JSON object but list"),
        ({"data": '{"query": "q"}'}, "the event's data is not a JSON object but str"),
        ({"data": "q", "datacontenttype": "application/problem+json"}, "not a JSON object but str"),
        ({"data": "q", "datacontenttype": "text/plain"}, "the value is not JSON"),
        ({"data": {}, "data_base64": "e30="}, "the event has both data and data_base64"),
        ({"data_base64": "e30"}, "the event's data_base64 is not Base64"),
        ({"data_base64": "é"}, "the event's data_base64 is not Base64"),
        ({"data_base64": 5}, "the event's data_base64 is not Base64"),
        ({"data_base64": encoded(b"\xff")}, "the value is not JSON"),
        ({"data_base64": encoded(b"[" * 100_000)}, "the value is not JSON"),
    ],
)
def test_event_without_a_request_is_rejected_under_its_id(members: dict[str, object], why: str) -> None:
    """Its sender waits for that id; without one there is nobody to answer."""
    request_id, problems = rejected(event(**members), TYPED)
    assert request_id == "e-1"
    assert problems.keys() == {"request"}
    assert why in problems["request"]
    with pytest.raises(RequestUnreadable) as unreadable:
        decode_request(event(id=None, **members), TYPED)
    assert why in str(unreadable.value)


@pytest.mark.parametrize(
    ("members", "named", "allowed"),
    [
        ({"id": "i" * 201}, "id", "at most 200 characters"),
        ({"expirytime": "soon"}, "expirytime", "RFC 3339"),
        ({"expirytime": 5}, "expirytime", "must be a string"),
        ({"data": {"query": " "}}, "query", "must not be blank"),
        ({"data": {"query": "q", "request_id": 5}}, "request_id", "must be a valid string"),
    ],
)
def test_member_against_its_rule_is_named(members: dict[str, object], named: str, allowed: str) -> None:
    """A rejection names the event's attribute, or the field of its data."""
    request_id, problems = rejected(event(**members), TYPED)
    assert request_id == members.get("id", "e-1")
    assert problems.keys() == {named}
    assert allowed in problems[named]


@pytest.mark.parametrize("wrong", ["", 5, ["e-1"], True, "\ud800"])
def test_id_of_an_event_that_is_no_text_is_nobodys(wrong: object) -> None:
    """As with a header, nobody can be told from it."""
    with pytest.raises(RequestUnreadable, match="id must be"):
        decode_request(event(id=wrong), TYPED)


def test_event_for_lenient_parsers_is_rejected() -> None:
    """Be it the event or the data in it that is no JSON."""
    not_a_number = b'{"query": "q", "x": NaN}'
    for value_of_event in (event(x="$").replace(b'"$"', b"NaN"), event(data_base64=encoded(not_a_number))):
        request_id, problems = rejected(value_of_event, TYPED)
        assert request_id == "e-1"
        assert "must be JSON" in problems["request"]


@pytest.mark.parametrize(
    "media_type",
    [
        "application/cloudevents-batch+json",
        "application/cloudevents+avro",
        "application/cloudevents+protobuf",
    ],
)
@pytest.mark.parametrize("batch", [b"[" + event() + b"]", b"[]", b"\x00\xff", None, event()])
def test_batches_and_other_formats_are_refused_by_name(media_type: str, batch: bytes | None) -> None:
    """One record is one request; whoever can be told from the headers is told what is read."""
    headers = (("content-type", f"{media_type}; charset=UTF-8".encode()),)
    refusal = f"{media_type} is not read: send each event as application/cloudevents+json"
    with pytest.raises(RequestUnreadable, match=re.escape(refusal)):
        decode_request(batch, headers)
    request_id, problems = rejected(batch, (*headers, ("ce_id", b"e-1")))
    assert request_id == "e-1"
    assert refusal in problems["request"]


async def test_dead_letter_of_an_event_is_its_bytes() -> None:
    """Value and headers are untouched, and the id is found in them again."""
    headers = (*TYPED, ("traceparent", b"00-1"))
    record = consumed(event(data={"query": ""}), headers=headers)
    answered = await answerer().answer(record)
    assert answered.result is not None
    assert answered.dead_letter is not None
    assert answered.request_id == "e-1"
    assert answered.dead_letter.value == record.value
    assert answered.dead_letter.headers[:2] == headers
    assert ("traceparent", b"00-1") in answered.result.headers
    assert (
        parse(consumed(answered.dead_letter.value, headers=answered.dead_letter.headers)).request_id == "e-1"
    )


async def test_batch_is_a_dead_letter_without_a_result() -> None:
    """There is nobody to answer, and nothing is lost."""
    headers = (("content-type", b"application/cloudevents-batch+json"),)
    answered = await answerer().answer(consumed(b"[" + event() + b"]", headers=headers))
    assert answered.result is None
    assert answered.dead_letter is not None
    assert answered.dead_letter.value == b"[" + event() + b"]"
    reasons = [
        text for name, text in answered.dead_letter.headers if name == "lookup.errors.exception.message"
    ]
    assert b"application/cloudevents-batch+json is not read" in (reasons[0] or b"")


def answerer() -> Answerer:
    """Return one with an empty index."""
    return Answerer(
        LookupPipeline(InMemorySearch([]), None), rules=RULES, topics=TopicSettings(), timeout_s=5
    )


@given(
    ANYTHING, st.sampled_from(["id", "expirytime", "data", "data_base64", "datacontenttype", "specversion"])
)
def test_any_event_is_read_or_refused(content: object, name: str) -> None:
    """Nothing in an event is worse than a refusal."""
    with suppress(RequestInvalid, RequestUnreadable):
        requested(event(**{name: content}), TYPED)


# Recordings of events


def recorded(event_value: bytes, headers: Headers) -> Recording:
    """Return the recording of a request alone."""
    return requested_alone(consumed(event_value, headers=headers), "e-1")


def test_recorded_event_asks_with_its_data() -> None:
    """What a request asks with is in the event, wherever it stands there."""
    body = {"query": "q", "hints": [1], "explain": True}
    for members in ({"data": body}, {"data_base64": encoded(json.dumps(body).encode())}):
        fields = request_fields(recorded(event(**members), TYPED))
        assert {name: fields[name] for name in body} == body
    assert request_fields(recorded(event(), ()))["id"] == "e-1"
    assert request_fields(recorded(value(), TYPED)) == {"query": "q"}
    assert request_fields(recorded(event(data=[]), TYPED)) == {}


@pytest.mark.parametrize(
    "members",
    [
        {"data": {"query": "q", "expires_at": "2026-01-31T12:00:00Z"}},
        {"data_base64": encoded(b'{"query": "q", "expires_at": "2026-01-31T12:00:00Z"}')},
        {"expirytime": "2026-01-31T12:00:00Z"},
    ],
)
def test_recorded_event_is_sent_again_without_its_expiry(members: dict[str, object]) -> None:
    """Otherwise it would be answered `expired`."""
    again = requested(lasting_value(recorded(event(**members), TYPED)), TYPED)
    assert (again.request_id, again.query, again.expires_at) == ("e-1", "q", None)


def test_other_recorded_requests_are_sent_again_as_they_are() -> None:
    """Where the media type is wrong, or the value is no object, nothing is made an event."""
    assert json.loads(lasting_value(recorded(value(expires_at="soon"), TYPED))) == {"query": "q"}
    assert lasting_value(recorded(b"[]", TYPED)) == b"[]"
