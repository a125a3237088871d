"""Answers: what is published for a record, with a real pipeline over search ports written for the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SearchError, SearchRejected, SearchTimeout, SearchUnavailable
from pipeline.lookup import LookupPipeline
from pipeline.model import Condition, SearchHit, SearchQuery
from pipeline.ports import EmbeddingPort, KnowledgeSearchPort
from streams.kafka.records import ConsumedRecord, Undecodable
from streams.settings.model import TopicSettings
from streams.stage.answering import Answer, Answerer
from streams.wire.request_rules import RequestRules
from tests.builders import (
    FakeEmbedder,
    FakeSearch,
    Hanging,
    SearchReply,
    answering,
    budget,
    consumed,
    hit,
    limits,
    raising,
)
from tests.support.contract import check_result

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
LONG_S = 60.0
"""No test waits for this long: it is the deadline where none is meant to pass."""

SHORT_S = 0.02
"""Tests wait for this long where a deadline is meant to pass."""

FOUND = answering(hit("docA", 0, score=0.9), hit("docB", 3, score=0.8, content="Look at the lag."))
NOTHING: SearchReply = answering()


@pytest.fixture(autouse=True)
async def _nothing_is_left_running() -> AsyncIterator[None]:
    """Fail a test that leaves a task behind, and keep the log off the terminal."""
    before = asyncio.all_tasks()
    with structlog.testing.capture_logs():
        yield
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()


def request(*queries: str, **fields: object) -> ConsumedRecord:
    """Return a request with an id; without queries of its own it asks `q`."""
    return consumed(json.dumps({"request_id": "r-1", "queries": queries or ("q",)} | fields).encode())


def answerer(
    search: KnowledgeSearchPort | Mapping[str, SearchReply],
    *,
    embedder: EmbeddingPort | None = None,
    timeout_s: float = LONG_S,
    tenant_field: str | None = None,
    now: datetime = NOW,
) -> Answerer:
    """Return an answerer over a port, or over replies by query text, with the product's default rules."""
    port = FakeSearch(search) if isinstance(search, Mapping) else search
    return Answerer(
        LookupPipeline(port, embedder),
        rules=RequestRules(
            limits=limits(), max_width=200, budget=budget(), tenant_field=tenant_field, dimension=None
        ),
        topics=TopicSettings(results="the.results", dead_letters="the.dead"),
        timeout_s=timeout_s,
        now=now.timestamp,
    )


async def answered(asked: ConsumedRecord, by: Answerer) -> Answer:
    """Answer a record, and fail a test in which it never is."""
    async with asyncio.timeout(10):
        return await by.answer(asked)


def result(answer: Answer) -> dict[str, Any]:
    """Return the result as an agent reads it, and check that the answer says the same of itself."""
    assert answer.result is not None
    assert answer.result.value is not None
    check_result(answer.result.value, answer.result.headers)
    body: dict[str, Any] = json.loads(answer.result.value)
    assert answer.result.topic == "the.results"
    assert (answer.request_id, answer.status) == (body["request_id"], body["status"])
    assert dict(answer.result.headers)["lookup-status"] == body["status"].encode()
    assert dict(answer.result.headers)["lookup-request-id"] == body["request_id"].encode()
    return body


def error_headers(answer: Answer) -> dict[str, str]:
    """Return what the dead letter's headers say of the error, by the end of their names."""
    assert answer.dead_letter is not None
    assert answer.dead_letter.topic == "the.dead"
    return {
        name.removeprefix("lookup.errors."): (value or b"").decode()
        for name, value in answer.dead_letter.headers
        if name.startswith("lookup.errors.")
    }


# Statuses without a dead letter


async def test_status_ok_where_every_path_found_evidence() -> None:
    """Evidence of all paths, limits, ledger and reports are in the result; there is no dead letter."""
    answer = await answered(request("a", "b"), answerer({"a": FOUND, "b": NOTHING}))
    body = result(answer)
    assert answer.dead_letter is None
    assert body["status"] == "ok"
    assert [item["document_id"] for item in body["evidence"]] == ["docA#chunk-0", "docB#chunk-3"]
    assert [path["hits"] for path in body["paths"]] == [2, 0]
    assert body["limits"] == {"retrieve_k": 20, "return_n": 5, "max_chunks_per_document": 2}
    assert (body["ledger"]["retrieved"], body["ledger"]["projected"]) == (2, 2)
    assert body["error"] is None


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(NOTHING, id="no hits"),
        pytest.param(answering(hit(content=" "), hit(score=None)), id="only rejected hits"),
    ],
)
async def test_status_empty_where_no_path_found_evidence(reply: SearchReply) -> None:
    """No hits, or none that can be used, is an answer like any other."""
    answer = await answered(request(), answerer({"q": reply}))
    assert (result(answer)["status"], answer.dead_letter) == ("empty", None)
    assert result(answer)["evidence"] == []


@pytest.mark.parametrize("error", [SearchUnavailable("it is down"), RuntimeError("host-17")])
async def test_status_partial_where_some_paths_failed(error: Exception) -> None:
    """The evidence of the other paths is there, the failed path is reported, and there is no dead letter."""
    answer = await answered(request("a", "b"), answerer({"a": raising(error), "b": FOUND}))
    body = result(answer)
    assert (body["status"], body["error"], answer.dead_letter) == ("partial", None, None)
    assert [path["status"] for path in body["paths"]] == ["failed", "ok"]
    assert len(body["evidence"]) == 2


# Statuses with a dead letter


@pytest.mark.parametrize(
    ("error", "code", "message", "retryable"),
    [
        pytest.param(SearchUnavailable("it is down"), "search_unavailable", "it is down", "true"),
        pytest.param(SearchTimeout("too slow"), "search_timeout", "too slow", "true"),
        pytest.param(SearchRejected("bad filter"), "search_rejected", "bad filter", "false"),
        pytest.param(KeyError("host-17"), "internal", "the search failed in an unforeseen way", "false"),
    ],
)
async def test_status_failed_where_every_path_failed(
    error: Exception, code: str, message: str, retryable: str
) -> None:
    """The agent gets the error, and the request is dead-lettered with the stage and whether to try again."""
    asked = request("a", "b")
    answer = await answered(asked, answerer({"a": raising(error), "b": raising(error)}))
    body = result(answer)
    assert (body["status"], body["error"]) == ("failed", {"code": code, "message": message})
    assert (body["evidence"], len(body["paths"])) == ([], 2)
    headers = error_headers(answer)
    assert (headers["stage"], headers["retryable"]) == ("search", retryable)
    assert headers["exception.class.name"] == type(error).__name__
    assert answer.dead_letter is not None
    assert (answer.dead_letter.key, answer.dead_letter.value) == (asked.key, asked.value)


@pytest.mark.parametrize(("first", "last_offset"), [(17, None), (12, "17")])
async def test_what_could_not_be_decoded_is_dead_lettered_with_its_offsets(
    first: int, last_offset: str | None
) -> None:
    """Nobody can be answered; the dead letter has the bytes, the reason, and where they were."""
    reason = "the checksum of the batch is wrong"
    record = replace(
        consumed(b"\x00\xff", key=None), undecodable=Undecodable(first_offset=first, reason=reason)
    )
    with structlog.testing.capture_logs() as logs:
        answer = await answered(record, answerer({}))
    assert (answer.result, answer.failure and answer.failure.reason) == (None, "undecodable")
    assert answer.dead_letter is not None
    assert (answer.dead_letter.key, answer.dead_letter.value) == (None, b"\x00\xff")
    headers = error_headers(answer)
    assert (headers["topic"], headers["partition"]) == (record.topic, str(record.partition))
    assert (headers["offset"], headers.get("last.offset")) == (str(first), last_offset)
    assert (headers["stage"], headers["retryable"]) == ("decode", "false")
    assert headers["exception.class.name"] == "RecordUndecodable"
    assert headers["exception.message"] == reason
    assert [(line["event"], line["first_offset"], line["why"]) for line in logs] == [
        ("record_undecodable", first, reason)
    ]


async def test_status_failed_names_how_often_it_was_tried() -> None:
    """The most attempts that a path took stand in the dead letter."""
    errors: list[SearchError] = [SearchUnavailable("a"), SearchTimeout("b")]
    for error, attempts in zip(errors, (2, 4), strict=True):
        error.attempts = attempts
    answer = await answered(request("a", "b"), answerer({"a": raising(errors[0]), "b": raising(errors[1])}))
    assert error_headers(answer)["attempts"] == "4"


async def test_status_failed_where_the_embedder_failed() -> None:
    """Without vectors nothing is searched, and the embedder's error is the answer."""
    search = FakeSearch({})
    embedder = FakeEmbedder(raising(SearchUnavailable("no embedder")))
    answer = await answered(request(), answerer(search, embedder=embedder))
    assert result(answer)["error"] == {"code": "search_unavailable", "message": "no embedder"}
    assert error_headers(answer)["stage"] == "search"
    assert search.asked == []


@pytest.mark.parametrize(
    "hits",
    [
        pytest.param(answering(cast("SearchHit", object())), id="hits that are none"),
        pytest.param(answering(*[hit()] * 21), id="more hits than were asked for"),
    ],
)
async def test_unforeseen_error_is_failed_as_internal(hits: SearchReply) -> None:
    """Whatever goes wrong on the way, the agent is answered and the request is dead-lettered."""
    answer = await answered(request(), answerer({"q": hits}))
    body = result(answer)
    assert (body["status"], body["error"]["code"]) == ("failed", "internal")
    headers = error_headers(answer)
    assert (headers["stage"], headers["retryable"]) == ("search", "false")


async def test_unforeseen_error_says_nothing_of_itself_to_the_agent() -> None:
    """Hosts and times of an engine's message are in the dead letter, and not in the result."""
    answer = await answered(request(), answerer({"q": raising(RuntimeError("host-17 at 12:03"))}))
    assert "host-17" not in json.dumps(result(answer))
    assert error_headers(answer)["exception.message"] == "host-17 at 12:03"


async def test_unforeseen_cancellation_of_an_adapter_is_failed_as_internal() -> None:
    """An adapter that awaits something cancelled is failing like any other: nobody cancelled the answer."""
    answer = await answered(request(), answerer({"q": raising(asyncio.CancelledError())}))
    assert result(answer)["error"]["code"] == "internal"


async def test_cancelled_answer_stays_cancelled() -> None:
    """Cancelling the answer cancels its search and gives none."""
    hanging = Hanging()
    task = asyncio.create_task(answerer({"q": hanging}).answer(request()))
    async with asyncio.timeout(10):
        await hanging.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert hanging.cancelled


@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        pytest.param({"queries": [" "]}, ["queries[0]"], id="form"),
        pytest.param({"retrieve_k": 0, "explain": "yes"}, ["retrieve_k", "explain"], id="two fields"),
        pytest.param({"retrieve_k": 500}, ["retrieve_k"], id="bound"),
        pytest.param({"query": "a"}, ["queries"], id="query beside queries"),
        pytest.param({"request_id": "r" * 201}, ["request_id"], id="long id"),
    ],
)
async def test_status_rejected_names_each_bad_field(fields: dict[str, object], bad: list[str]) -> None:
    """A request that is not valid is not searched; the agent is told why, and it is dead-lettered."""
    search = FakeSearch({})
    asked = request(**fields)
    answer = await answered(asked, answerer(search))
    body = result(answer)
    assert (body["status"], body["error"]["code"]) == ("rejected", "invalid_request")
    assert [problem["field"] for problem in body["error"]["fields"]] == bad
    assert (body["evidence"], body["paths"], body["limits"]) == ([], [], None)
    headers = error_headers(answer)
    assert (headers["stage"], headers["retryable"]) == ("validate", "false")
    assert headers["exception.message"].startswith(f"{bad[0]} = ")
    assert search.asked == []


@pytest.mark.parametrize("text", ['"hints": NaN', '"filter": {"a": "\\ud800"}', '"hints": 1e999'])
async def test_status_rejected_where_only_lenient_parsers_take_it(text: str) -> None:
    """JSON that is almost some has an agent behind it, who is answered."""
    asked = consumed(f'{{"request_id": "r-1", "query": "q", {text}}}'.encode())
    answer = await answered(asked, answerer({}))
    assert result(answer)["status"] == "rejected"
    assert error_headers(answer)["stage"] == "validate"


@pytest.mark.parametrize("value", [None, b"", b"not json", b"\xff", b"[]", b"{}", b'{"request_id": 5}'])
async def test_status_none_where_no_id_is_readable(value: bytes | None) -> None:
    """Where there is nobody to answer there is a dead letter and no result."""
    asked = consumed(value, key=None, headers=(("a", b"1"),))
    answer = await answered(asked, answerer({}))
    assert (answer.result, answer.request_id, answer.status) == (None, None, None)
    headers = error_headers(answer)
    assert (headers["stage"], headers["retryable"]) == ("decode", "false")
    assert headers["exception.class.name"] == "RequestUnreadable"
    assert answer.dead_letter is not None
    assert (answer.dead_letter.key, answer.dead_letter.value) == (None, value)
    assert answer.dead_letter.headers[0] == ("a", b"1")


@given(
    st.one_of(st.none(), st.binary(), st.binary().map(lambda end: b'{"request_id": "r-1", "query": ' + end))
)
async def test_any_bytes_get_a_result_or_a_dead_letter(value: bytes | None) -> None:
    """Nothing that stands on the topic is an exception, and nothing is passed over."""
    answer = await answered(consumed(value), answerer(FakeSearch({})))
    if answer.result is None:
        assert error_headers(answer)["stage"] == "decode"
    else:
        assert (answer.dead_letter is not None) == (result(answer)["status"] in {"failed", "rejected"})


# Time


@pytest.mark.parametrize(
    "expires_at", ["2026-01-31T11:59:59Z", "2026-01-31T12:00:00Z", "0001-01-01T00:00:00Z"]
)
async def test_status_expired_is_not_searched(expires_at: str) -> None:
    """At its time and after it a request is answered without a search, and without a dead letter."""
    search = FakeSearch({})
    embedder = FakeEmbedder(answering((1.0,)))
    answer = await answered(request(expires_at=expires_at), answerer(search, embedder=embedder))
    body = result(answer)
    assert (body["status"], body["error"], answer.dead_letter) == ("expired", None, None)
    assert (body["evidence"], body["paths"]) == ([], [])
    assert body["limits"] == {"retrieve_k": 20, "return_n": 5, "max_chunks_per_document": 2}
    assert (search.asked, embedder.asked) == ([], [])


async def test_status_rejected_also_past_its_time() -> None:
    """What is not valid is rejected, whether or not it has expired."""
    asked = request(expires_at="2026-01-31T11:00:00Z", retrieve_k=0)
    assert result(await answered(asked, answerer({})))["status"] == "rejected"


@pytest.mark.parametrize(
    ("expires_at", "timeout_s", "given_s"),
    [
        pytest.param("2026-01-31T12:00:05Z", 30.0, 5.0, id="what is left"),
        pytest.param("2026-01-31T13:00:05+01:00", 30.0, 5.0, id="what is left, by another clock"),
        pytest.param("2026-01-31T12:00:45Z", 30.0, 30.0, id="the configured timeout"),
        pytest.param("9999-12-31T23:59:59Z", 30.0, 30.0, id="for ever"),
        pytest.param(None, 30.0, 30.0, id="no expiry"),
    ],
)
async def test_remaining_time_bounds_the_search(
    expires_at: str | None, timeout_s: float, given_s: float
) -> None:
    """A search has what is left until the request expires, and never more than is configured."""
    search = FakeSearch({"q": FOUND})
    embedder = FakeEmbedder(answering((1.0,)))
    by = answerer(search, embedder=embedder, timeout_s=timeout_s)
    assert result(await answered(request(expires_at=expires_at), by))["status"] == "ok"
    for seconds in (*embedder.timeouts_s, *search.timeouts_s):
        assert given_s - 1 < seconds <= given_s


@pytest.mark.parametrize(
    ("timeout_s", "expires_at"),
    [
        pytest.param(SHORT_S, None, id="the configured timeout"),
        pytest.param(LONG_S, f"2026-01-31T12:00:0{SHORT_S}Z", id="what is left"),
    ],
)
async def test_search_that_hangs_is_cut_off(timeout_s: float, expires_at: str | None) -> None:
    """A search that does not answer in time is cancelled; the request fails as one that may be retried."""
    hanging = Hanging()
    by = answerer({"q": hanging}, timeout_s=timeout_s)
    answer = await answered(request(expires_at=expires_at), by)
    body = result(answer)
    assert (body["status"], body["error"]["code"]) == ("failed", "search_timeout")
    assert error_headers(answer)["retryable"] == "true"
    assert hanging.cancelled


# What is asked and what is said


async def test_tenant_and_filter_are_conditions_of_every_search() -> None:
    """Every path is searched under the tenant's condition first and the filter's next."""
    search = FakeSearch({"a": NOTHING, "b": NOTHING})
    asked = request("a", "b", tenant="acme", filter={"team": ["other"]}, retrieve_k=7)
    await answered(asked, answerer(search, tenant_field="team"))
    conditions = (Condition(field="team", any_of=("acme",)), Condition(field="team", any_of=("other",)))
    assert search.asked == [
        SearchQuery(text=text, vector=None, limit=7, conditions=conditions) for text in ("a", "b")
    ]


async def test_tenant_missing_is_rejected_and_not_searched() -> None:
    """Where tenants are kept apart, nothing is searched for nobody."""
    search = FakeSearch({})
    answer = await answered(request(filter={"team": "acme"}), answerer(search, tenant_field="team"))
    assert [problem["field"] for problem in result(answer)["error"]["fields"]] == ["tenant"]
    assert search.asked == []


@pytest.mark.parametrize(("explain", "reasons"), [(True, ["duplicate"]), (False, None)])
async def test_explain_adds_what_was_dropped(
    explain: bool,  # noqa: FBT001 - a parameter of the test
    reasons: list[str] | None,
) -> None:
    """`dropped` is there with `explain` only."""
    by = answerer({"q": answering(hit("docA", 0), hit("docA", 0))})
    body = result(await answered(request(explain=explain), by))
    assert (reasons is None) == ("dropped" not in body)
    assert [drop["reason"] for drop in body.get("dropped", ())] == (reasons or [])


HINTS = {
    "evidence": [{"document_id": "docZ#chunk-0", "content": "Look in docZ.", "score": 9.9}],
    "queries": ["another"],
    "docId": "docZ",
}


@pytest.mark.parametrize(
    ("reply", "fields", "status"),
    [
        pytest.param(FOUND, {}, "ok", id="ok"),
        pytest.param(NOTHING, {}, "empty", id="empty"),
        pytest.param(raising(SearchUnavailable("it is down")), {}, "failed", id="failed"),
        pytest.param(NOTHING, {"expires_at": "2026-01-31T11:00:00Z"}, "expired", id="expired"),
        pytest.param(NOTHING, {"retrieve_k": 0}, "rejected", id="rejected for its form"),
        pytest.param(NOTHING, {"retrieve_k": 5_000}, "rejected", id="rejected by a rule"),
    ],
)
async def test_hints_are_echoed_and_never_evidence(
    reply: SearchReply, fields: dict[str, object], status: str
) -> None:
    """Hints come back as they are; nothing is searched for them and nothing of them is evidence."""
    search = FakeSearch({"q": reply})
    body = result(await answered(request(hints=HINTS, **fields), answerer(search)))
    assert (body["status"], body["hints"]) == (status, HINTS)
    assert "docZ" not in json.dumps(body["evidence"])
    assert {query.text for query in search.asked} <= {"q"}


@pytest.mark.parametrize("hints", [0, "", False, [], {}, 2**64 - 1, -(2**63), 0.1])
async def test_hints_of_any_kind_are_echoed(hints: object) -> None:
    """Also what counts as false is a hint."""
    body = result(await answered(request(hints=hints), answerer({"q": NOTHING})))
    assert (body["hints"], type(body["hints"])) == (hints, type(hints))


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(hints="x" * 20_000), id="too large"),
        pytest.param(consumed(b'{"request_id": "r-1", "query": "q", "hints": [NaN]}'), id="no JSON"),
    ],
)
async def test_hints_that_are_at_fault_are_not_echoed(asked: ConsumedRecord) -> None:
    """A rejection of the hints themselves, or of what only looks like JSON, has none."""
    body = result(await answered(asked, answerer({"q": NOTHING})))
    assert (body["status"], body["hints"]) == ("rejected", None)


async def test_hints_of_integers_are_echoed_up_to_64_bits() -> None:
    """Larger integers come back as the doubles that JSON's readers commonly take them for."""
    body = result(await answered(request(hints=[2**64 - 1, 2**64 + 1]), answerer({"q": NOTHING})))
    assert body["hints"] == [2**64 - 1, float(2**64)]


# The same again


async def answers_to(asked: Sequence[ConsumedRecord], by: Answerer) -> set[bytes | None]:
    """Return the different values of the results."""
    answers = [await answered(one, by) for one in asked]
    return {None if answer.result is None else answer.result.value for answer in answers}


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(FOUND, id="ok"),
        pytest.param(NOTHING, id="empty"),
        pytest.param(raising(SearchUnavailable("it is down")), id="failed"),
        pytest.param(raising(ValueError("at 12:03")), id="internal"),
    ],
)
async def test_equal_requests_give_equal_bytes(reply: SearchReply) -> None:
    """A request that is delivered again, elsewhere and later, has the same result, byte for byte."""
    first = request("a", "b", explain=True, expires_at="2026-01-31T13:00:00Z", hints={"x": 1})
    again = replace(first, partition=0, offset=99, timestamp_ms=0, key=None)
    replies = {"a": reply, "b": reply}
    later = answerer(replies, now=NOW.replace(minute=30))
    assert len(await answers_to([first, again], answerer(replies)) | await answers_to([again], later)) == 1


async def test_equal_requests_give_equal_bytes_whichever_path_answers_first() -> None:
    """The order in which the paths answer does not show."""

    def taking_turns(first: str, second: str) -> FakeSearch:
        found = asyncio.Event()

        async def at_once(_query: object) -> Sequence[SearchHit]:
            found.set()
            return [hit("docA", 0), hit("docB", 0)]

        async def afterwards(_query: object) -> Sequence[SearchHit]:
            await found.wait()
            return [hit("docA", 0), hit("docB", 0)]

        return FakeSearch({first: at_once, second: afterwards})

    asked = [request("a", "b", explain=True)]
    assert await answers_to(asked, answerer(taking_turns("a", "b"))) == await answers_to(
        asked, answerer(taking_turns("b", "a"))
    )


@pytest.mark.parametrize("value", [b'{"request_id": "r-1"}', b'{"request_id": "r-1", "query": NaN}'])
async def test_equal_requests_that_are_rejected_give_equal_bytes(value: bytes) -> None:
    """A rejection is a function of the request, too."""
    assert len(await answers_to([consumed(value), replace(consumed(value), offset=99)], answerer({}))) == 1


async def test_requests_at_once_do_not_touch_each_other() -> None:
    """An answerer holds nothing between requests: each gets its own answer."""
    by = answerer({str(number): answering(hit(f"doc{number}", 0)) for number in range(20)})
    asked = [request(str(number), request_id=f"r-{number}") for number in range(20)]
    bodies = [result(answer) for answer in await asyncio.gather(*(answered(one, by) for one in asked))]
    assert [(body["request_id"], body["evidence"][0]["doc_id"]) for body in bodies] == [
        (f"r-{number}", f"doc{number}") for number in range(20)
    ]


# CloudEvents


EVENT = (("ce_specversion", b"1.0"), ("ce_id", b"e-1"))


async def test_event_is_answered_under_its_id_and_expires() -> None:
    """A request whose id and expiry stand in its headers is answered like any other."""
    asked = consumed(b'{"query": "q"}', headers=EVENT)
    assert result(await answered(asked, answerer({"q": FOUND})))["request_id"] == "e-1"
    late = replace(asked, headers=(*EVENT, ("ce_expirytime", b"2026-01-31T11:59:59Z")))
    assert result(await answered(late, answerer({"q": FOUND})))["status"] == "expired"


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"\xff"])
async def test_event_that_is_no_request_is_rejected_and_dead_lettered(value: bytes | None) -> None:
    """An agent that waits for its event's id does not hang, whatever the value is."""
    asked = consumed(value, key=None, headers=EVENT)
    answer = await answered(asked, answerer({}))
    body = result(answer)
    assert (body["request_id"], body["status"], body["error"]["fields"][0]["field"]) == (
        "e-1",
        "rejected",
        "request",
    )
    assert (error_headers(answer)["stage"], error_headers(answer)["retryable"]) == ("decode", "false")
    assert answer.dead_letter is not None
    assert (answer.dead_letter.value, answer.dead_letter.headers[:2]) == (value, EVENT)


# Records


async def test_record_of_a_result_has_the_requests_key_and_tracing() -> None:
    """A result is addressed by the request's key and carries the headers that belong together."""
    headers = (("traceparent", b"00-1"), ("correlation_id", b"c"), ("x", b"y"))
    answer = await answered(replace(request(), headers=headers), answerer({"q": FOUND}))
    assert answer.result is not None
    assert answer.result.key == b"session-7"
    assert answer.result.headers[3:] == headers[:2]


async def test_record_of_a_result_has_the_id_as_key_where_the_request_has_none() -> None:
    """A request without a key is answered under its id; its dead letter has none either."""
    answer = await answered(replace(request(retrieve_k=0), key=None), answerer({}))
    assert answer.result is not None
    assert answer.dead_letter is not None
    assert (answer.result.key, answer.dead_letter.key) == (b"r-1", None)


# Too large


async def test_too_large_result_is_failed_as_internal() -> None:
    """Instead of a result that the brokers do not take, the agent is told why; it is dead-lettered."""
    by, asked = answerer({"q": FOUND}), request(hints={"x": 1})
    answer = by.too_large(asked, await answered(asked, by), RuntimeError("too many bytes"))
    body = result(answer)
    assert (body["request_id"], body["status"], body["evidence"]) == ("r-1", "failed", [])
    assert body["error"] == {"code": "internal", "message": "too many bytes"}
    headers = error_headers(answer)
    assert (headers["stage"], headers["retryable"]) == ("publish", "false")
    assert headers["exception.message"] == "too many bytes"
    assert answer.dead_letter is not None
    assert answer.dead_letter.value == asked.value


async def test_too_large_result_gives_equal_bytes_again() -> None:
    """What is said instead is a function of the request and the hits as well."""
    by, asked = answerer({"q": FOUND}), request()
    answers = [by.too_large(asked, await answered(asked, by), RuntimeError("x")) for _ in range(2)]
    assert answers[0].result == answers[1].result


# Retries


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        pytest.param([SearchUnavailable("a")], True, id="unavailable"),
        pytest.param([SearchTimeout("a")], True, id="timeout"),
        pytest.param([SearchRejected("a")], False, id="rejected"),
        pytest.param([RuntimeError("a")], False, id="unforeseen"),
        pytest.param([SearchRejected("a"), SearchUnavailable("b")], True, id="one of two"),
        pytest.param([], False, id="no failure"),
    ],
)
async def test_retry_may_help_where_a_failed_path_says_so(
    errors: list[Exception],
    expected: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """An answer can be retried where any of its paths may answer later, whether or not others did."""
    replies = {str(index): raising(error) for index, error in enumerate(errors)}
    answer = await answered(request(*replies, "q"), answerer({**replies, "q": FOUND}))
    assert answer.can_be_retried == expected
    assert answer.search_errors == tuple(errors)


@pytest.mark.parametrize("value", [None, b'{"request_id": "r-1"}'])
async def test_retry_does_not_help_where_the_request_is_bad(value: bytes | None) -> None:
    """What cannot be read or is not valid stays so."""
    assert not (await answered(consumed(value), answerer({}))).can_be_retried


async def test_retry_may_help_says_the_dead_letter_too() -> None:
    """Where one of several failed paths may answer later, sending the request again may help."""
    replies = {"a": raising(SearchRejected("a")), "b": raising(SearchUnavailable("b"))}
    answer = await answered(request("a", "b"), answerer(replies))
    assert answer.can_be_retried
    headers = error_headers(answer)
    assert (headers["retryable"], headers["exception.message"]) == ("true", "a")
