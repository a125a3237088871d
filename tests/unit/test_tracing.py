"""One trace, from the producer of a request to the reader of its result."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pipeline.errors import ConfigurationError, SearchUnavailable
from pipeline.lookup import LookupPipeline
from pipeline.model import Vector
from streams.kafka.publishing import RecordTooLarge
from streams.kafka.records import ConsumedRecord, Headers, ProducedRecord
from streams.observability.exporting import exporting
from streams.observability.monitor import Monitor
from streams.observability.observer import observing
from streams.observability.tracing_observer import TracingObserver
from streams.settings import loading
from streams.settings.model import Settings
from streams.stage.answering import Answerer
from streams.stage.stage import LookupStage, StagePolicy
from streams.wire.request_rules import RequestRules
from tests.builders import FakeEmbedder, FakeSearch, SearchReply, answering, budget, hit, limits, raising
from tests.support.loops import quiet

PRIVATE = "zanzibar"
FOUND: SearchReply = answering(hit("docA", 0, content=PRIVATE))


async def one_each(texts: Sequence[str]) -> Sequence[Vector]:
    """Embed everything alike."""
    return [(1.0, 0.0)] * len(texts)


class MemoryPublisher:
    """Keeps what is published.

    Attributes:
        published: All of it.
        error: What publishing raises instead, if anything.
        max_bytes: Largest sum of header values.
    """

    def __init__(self) -> None:
        self.published: list[ProducedRecord] = []
        self.error: Exception | None = None
        self.max_bytes = 10_000

    def check_size(self, record: ProducedRecord) -> None:
        """Refuse a record with too many bytes of headers."""
        if sum(len(value or b"") for _name, value in record.headers) > self.max_bytes:
            raise RecordTooLarge("too large", excess_bytes=1)

    async def publish(self, records: Sequence[ProducedRecord]) -> None:
        """Confirm at once."""
        if self.error is not None:
            raise self.error
        self.published += records

    def headers(self, topic: str = "lookup.results") -> dict[str, bytes | None]:
        """Return the headers of the one record on a topic."""
        (record,) = (record for record in self.published if record.topic == topic)
        return dict(record.headers)


class Traced:
    """A stage whose spans are kept in memory.

    Attributes:
        publisher: Where it publishes.
        stage: The stage.
    """

    def __init__(self, replies: Mapping[str, SearchReply] | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._tracer = provider.get_tracer("test")
        observer = TracingObserver(new_settings(), Monitor(), self._tracer)
        self.publisher = MemoryPublisher()
        self.stage = LookupStage(
            Answerer(
                LookupPipeline(
                    observer.search(FakeSearch(replies or {"q": FOUND, PRIVATE: FOUND})),
                    observer.embedder(FakeEmbedder(one_each)),
                ),
                rules=RequestRules(
                    limits=limits(), max_width=200, budget=budget(), tenant_field=None, dimension=None
                ),
                topics=new_settings().kafka.topics,
                timeout_s=60,
            ),
            observer.publisher(self.publisher),
            StagePolicy(max_in_flight=10),
            hooks=observer.hooks(),
        )

    async def take(self, value: bytes | None, headers: Headers = (), *, key: bytes | None = b"k") -> None:
        """Let the stage answer a record."""
        record = ConsumedRecord(
            topic="lookup.requests",
            partition=3,
            offset=17,
            timestamp_ms=0,
            key=key,
            value=value,
            headers=headers,
        )
        await self.stage.take(record, lambda: None)
        await quiet()

    async def ask(self, *queries: str, headers: Headers = ()) -> None:
        """Let the stage answer a request."""
        texts = ", ".join(f'"{text}"' for text in queries)
        await self.take(f'{{"request_id": "r-1", "queries": [{texts}]}}'.encode(), headers)

    def produced(self) -> tuple[ReadableSpan, Headers]:
        """Return a producer's span, and the headers that carry it."""
        carrier: dict[str, str] = {}
        with self._tracer.start_as_current_span("send lookup.requests", kind=SpanKind.PRODUCER):
            TraceContextTextMapPropagator().inject(carrier)
        return self.spans("send lookup.requests")[0], tuple(
            (name, value.encode()) for name, value in carrier.items()
        )

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the spans of one name that have ended."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        """Return the one span of a name."""
        (span,) = self.spans(name)
        return span

    @property
    def text(self) -> str:
        """Everything that was exported."""
        return "".join(span.to_json() for span in self._exporter.get_finished_spans())


def new_settings(**overrides: Any) -> Settings:
    """Return settings as they are by default."""
    return loading.load(overrides=overrides)


def ids(span: ReadableSpan) -> tuple[int, int]:
    """Return trace and span."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent_ids(span: ReadableSpan) -> tuple[int, int] | None:
    """Return trace and span of the parent."""
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def carried(headers: Mapping[str, bytes | None]) -> tuple[int, int]:
    """Return trace and span that headers carry."""
    _version, trace, span, _flags = (headers["traceparent"] or b"").decode().split("-")
    return int(trace, 16), int(span, 16)


async def test_one_trace_leads_from_the_producer_to_the_result() -> None:
    """The work on a request stands under the producer's span, the result under that of its sending."""
    traced = Traced()
    producer, headers = traced.produced()
    await traced.ask("q", headers=headers)
    process, send = traced.span("process lookup.requests"), traced.span("send lookup.results")
    assert parent_ids(process) == ids(producer)
    for name in ("embed", "search", "send lookup.results"):
        assert parent_ids(traced.span(name)) == ids(process)
    assert carried(traced.publisher.headers()) == ids(send)


async def test_spans_have_the_names_of_the_conventions() -> None:
    """Semantic conventions for messaging, 1.45: kinds, and attributes of both ends."""
    traced = Traced()
    await traced.ask("q", headers=(("correlation_id", b"c-1"),))
    process, send = traced.span("process lookup.requests"), traced.span("send lookup.results")
    assert (process.kind, send.kind) == (SpanKind.CONSUMER, SpanKind.PRODUCER)
    assert {traced.span(name).kind for name in ("embed", "search")} == {SpanKind.CLIENT}
    assert process.attributes == {
        "messaging.system.name": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "lookup.requests",
        "messaging.destination.partition.id": "3",
        "messaging.consumer.group.name": "lookup-stage",
        "messaging.message.id": "r-1",
        "messaging.message.conversation_id": "c-1",
        "messaging.message.body.size": 39,
        "kafka.offset": 17,
        "kafka.message.key": "k",
        "lookup.status": "ok",
    }
    assert send.attributes == {
        "messaging.system.name": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "lookup.results",
        "messaging.message.id": "r-1",
        "messaging.message.body.size": len(traced.publisher.published[0].value or b""),
        "kafka.message.key": "k",
    }
    assert traced.span("search").attributes == {
        "db.system.name": "milvus",
        "db.namespace": "default",
        "db.collection.name": "knowledge",
        "db.operation.name": "search",
        "db.response.returned_rows": 1,
    }
    assert traced.span("embed").attributes == {"gen_ai.operation.name": "embeddings", "lookup.texts": 1}
    assert {span.status.status_code for span in (process, send)} == {StatusCode.UNSET}


async def test_every_query_has_a_search_of_its_own() -> None:
    """All under one request, though they run at once."""
    traced = Traced()
    await traced.ask("q", PRIVATE)
    assert [parent_ids(span) for span in traced.spans("search")] == [
        ids(traced.span("process lookup.requests"))
    ] * 2


async def test_request_without_a_trace_begins_one() -> None:
    """Its result carries it, so that its reader can go on."""
    traced = Traced()
    await traced.ask("q")
    assert traced.span("process lookup.requests").parent is None
    assert carried(traced.publisher.headers()) == ids(traced.span("send lookup.results"))


async def test_tracestate_is_kept() -> None:
    """It belongs to other tracing systems, and goes with a trace wherever that goes."""
    traced = Traced()
    _producer, ((_name, traceparent),) = traced.produced()
    await traced.ask("q", headers=(("tracestate", b"vendor=1"), ("traceparent", traceparent)))
    assert traced.publisher.headers()["tracestate"] == b"vendor=1"
    names = [name for name, _value in traced.publisher.published[0].headers]
    assert sorted(names) == sorted({*names})


async def test_tracestate_in_several_headers_is_one_list() -> None:
    """It may come in pieces, which go on together and in order."""
    traced = Traced()
    _producer, ((_name, traceparent),) = traced.produced()
    pieces = (("tracestate", b"a=1,b=2"), ("tracestate", b""), ("tracestate", b"c=3"))
    await traced.ask("q", headers=(*pieces, ("traceparent", traceparent)))
    (record,) = traced.publisher.published
    assert [value for name, value in record.headers if name == "tracestate"] == [b"a=1,b=2,c=3"]


async def test_trace_that_cannot_be_read_is_replaced() -> None:
    """A result carries one trace, with no state of another."""
    traced = Traced()
    await traced.ask("q", headers=(("traceparent", b"\xff"), ("tracestate", b"vendor=1")))
    assert carried(traced.publisher.headers()) == ids(traced.span("send lookup.results"))
    assert "tracestate" not in traced.publisher.headers()


HEADER = st.tuples(
    st.sampled_from(["traceparent", "tracestate", "correlation_id"]),
    st.none()
    | st.binary(max_size=80)
    | st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace"))
    | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True).map(str.encode)
    | st.lists(st.from_regex(r"[a-z]{1,5}=[!-~]{1,5}", fullmatch=True), max_size=40).map(
        lambda members: ",".join(members).encode()
    ),
)


@given(st.lists(HEADER, max_size=4).map(tuple))
async def test_no_header_costs_an_answer(headers: Headers) -> None:
    """Whatever stands where a trace should: the request is answered, and its result carries one trace."""
    traced = Traced()
    await traced.ask("q", headers=headers)
    (record,) = traced.publisher.published
    assert not traced.stage.failed.done()
    assert [name for name, _value in record.headers].count("traceparent") == 1
    carries = carried(dict(record.headers))
    assert all(carries == ids(span) for span in traced.spans("send lookup.results"))  # none if not sampled


async def test_trace_that_its_producer_does_not_sample_is_carried_on_unsampled() -> None:
    """Whoever begins a trace decides; the result's reader still learns which it is."""
    traced = Traced()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    await traced.ask("q", headers=(("traceparent", f"00-{trace}-00f067aa0ba902b7-00".encode()),))
    header = (traced.publisher.headers()["traceparent"] or b"").decode()
    assert (header[3:35], header[-3:]) == (trace, "-00")
    assert traced.text == ""


async def test_dead_letter_keeps_the_requests_headers() -> None:
    """Its own span stands in the trace; its headers are the request's, and so is the value."""
    traced = Traced({"q": raising(SearchUnavailable("it is down"))})
    _producer, headers = traced.produced()
    await traced.ask("q", headers=(*headers, ("lookup-request-id", b"mine")))
    process = traced.span("process lookup.requests")
    dead = traced.publisher.headers("lookup.dead-letters")
    assert (dead["traceparent"], dead["lookup-request-id"]) == (headers[0][1], b"mine")
    assert parent_ids(traced.span("send lookup.dead-letters")) == ids(process)
    assert parent_ids(traced.span("send lookup.results")) == ids(process)
    for name in ("process lookup.requests", "search"):
        span = traced.span(name)
        assert (span.attributes or {})["error.type"] == "search_unavailable"
        assert span.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(
    ("value", "status", "kind"),
    [(b'{"request_id": "r-1"}', "rejected", "invalid_request"), (None, "unreadable", "unreadable")],
)
async def test_request_that_is_none_is_an_error(value: bytes | None, status: str, kind: str) -> None:
    """Its span says what became of it."""
    traced = Traced()
    await traced.take(value, key=b"\xff")
    attributes = traced.span("process lookup.requests").attributes or {}
    assert (attributes["lookup.status"], attributes["error.type"]) == (status, kind)
    assert "kafka.message.key" not in attributes
    assert ("kafka.message.tombstone" in attributes) == (value is None)


async def test_answer_that_is_not_confirmed_is_an_error() -> None:
    """The spans end with the exception, which goes on its way."""
    traced = Traced()
    traced.publisher.error = TimeoutError("the brokers did not confirm it")
    await traced.ask("q")
    assert traced.stage.failed.result() is traced.publisher.error
    for name in ("send lookup.results", "process lookup.requests"):
        assert (traced.span(name).attributes or {})["error.type"] == "TimeoutError"


async def test_spans_quote_neither_queries_nor_evidence() -> None:
    """Nor what a port says when it fails."""
    traced = Traced({PRIVATE: FOUND, f"{PRIVATE} boom": raising(KeyError(PRIVATE))})
    await traced.ask(PRIVATE, f"{PRIVATE} boom")
    assert traced.publisher.published[0].value is not None
    assert PRIVATE.encode() in traced.publisher.published[0].value
    assert (traced.spans("search")[1].attributes or {})["error.type"] == "KeyError"
    assert PRIVATE not in traced.text


async def test_size_is_checked_with_the_trace_in_it() -> None:
    """A result that is only just small enough would be too large with the trace's header."""
    traced = Traced()
    await traced.ask("q")
    size = sum(len(value or b"") for value in traced.publisher.headers().values())
    for room, fits in ((0, True), (-1, False)):
        another = Traced()
        another.publisher.max_bytes = size + room
        await another.ask("q")
        statuses = [dict(record.headers).get("lookup-status") for record in another.publisher.published]
        assert (b"ok" in statuses) == fits


# Where spans go


class HangingExporter(SpanExporter):
    """Takes spans only when it is told to.

    Attributes:
        answers: Set to let it take them.
        exported: Whether it took any.
    """

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.exported = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Accept them, late."""
        del spans
        self.answers.wait(60)
        self.exported = True
        return SpanExportResult.SUCCESS


def test_nothing_is_imported_while_tracing_is_off() -> None:
    """Not by the worker, not by what it puts together."""
    program = (
        "import asyncio, sys\n"
        "from streams.settings import loading\n"
        "from streams.worker import run\n"
        "from streams.observability.observer import observing\n"
        "async def main():\n"
        "    with observing(loading.load(overrides={'metrics.port': 0})) as observer:\n"
        "        assert observer.search(search := object()) is search\n"
        "        assert observer.embedder(embedder := object()) is embedder\n"
        "        assert observer.publisher(publisher := object()) is publisher\n"
        "        assert observer.hooks().around is None\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert printed.stdout == "[]\n"


async def test_tracing_without_its_extra_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that names the setting and what to install."""
    monkeypatch.delitem(sys.modules, "streams.observability.exporting")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    settings = new_settings(**{"tracing.enabled": True, "metrics.port": 0})
    with pytest.raises(ConfigurationError, match=r"^tracing\.enabled = True: needs the extra `tracing`"):
        observing(settings).__enter__()


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkins", "must be one of console, none, otlp"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "must be grpc or http/protobuf"),
    ],
)
def test_variable_with_a_value_that_is_none_is_named(
    variable: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a setting would be."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError) as refused:
        exporting().__enter__()
    assert str(refused.value).startswith(f"{variable} = {value!r}: {allowed}")


def test_end_does_not_wait_for_a_collector_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is told to stop stops; its last spans are lost."""
    collector = HangingExporter()
    monkeypatch.setattr("streams.observability.exporting.FLUSH_TIMEOUT_S", 0.01)
    monkeypatch.setattr("streams.observability.exporting._exporter", lambda _name: collector)
    with exporting() as tracer:
        tracer.start_span("lost").end()
    assert not collector.exported
    collector.answers.set()
