"""Traces with OpenTelemetry: a request's spans continue its producer's trace, and its result carries it on.

Imported only where tracing is on. Names follow the semantic conventions for messaging and databases, 1.45. Of
requests the spans have ids, keys, sizes and outcomes, never query text, evidence or exceptions' messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TypeAlias

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pipeline.adapters.around import AroundEmbedder, AroundSearch
from pipeline.errors import SearchError
from pipeline.model import SearchHit, SearchQuery, Vector
from pipeline.ports import EmbeddingPort, KnowledgeSearchPort
from streams.kafka.publishing import RecordPublisher
from streams.kafka.records import ConsumedRecord, Headers, ProducedRecord
from streams.stage.answering import Answer
from streams.wire.results import HEADER_REQUEST_ID
from streams.wire.trace_context import HEADER_TRACEPARENT, HEADER_TRACESTATE, joined_tracestate

SCHEMA_URL = "https://opentelemetry.io/schemas/1.45.0"
CONTEXT_HEADERS = (HEADER_TRACEPARENT, HEADER_TRACESTATE)

ADDED_CONTEXT: Headers = ((HEADER_TRACEPARENT, b"-" * 55),)
"""What a trace's context adds to a record that had none; `tracestate` only ever comes from the request."""

Attributes: TypeAlias = Mapping[str, str | int | bool]

_propagator = TraceContextTextMapPropagator()


class TracedProcessing:
    """A span around the work on each request, continuing the trace in its headers."""

    def __init__(self, tracer: Tracer, *, group: str) -> None:
        """Initialize with where spans come from, and the consumer group."""
        self._tracer = tracer
        self._group = group

    async def __call__(
        self, record: ConsumedRecord, work: Callable[[ConsumedRecord], Awaitable[Answer]]
    ) -> Answer:
        """Do the work on a record within a span."""
        parent = _propagator.extract(_carrier(record.headers), context=Context())
        attributes = _consumed(record, self._group)
        name = f"process {record.topic}"
        with _within(self._tracer.start_span(name, parent, SpanKind.CONSUMER, attributes)) as span:
            answer = await work(record)
            _conclude(span, answer)
            return answer


class TracedSearch(AroundSearch):
    """A search port with a span around each search of another."""

    def __init__(self, search: KnowledgeSearchPort, tracer: Tracer, *, attributes: Attributes) -> None:
        """Initialize with the port, where spans come from, and what names its engine."""
        super().__init__(search)
        self._tracer = tracer
        self._attributes = {**attributes, "db.operation.name": "search"}

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Ask the port behind within a span."""
        span = self._tracer.start_span("search", kind=SpanKind.CLIENT, attributes=self._attributes)
        with _within(span):
            hits = await self._search.search(query, timeout_s=timeout_s)
            span.set_attribute("db.response.returned_rows", len(hits))
            return hits


class TracedEmbedder(AroundEmbedder):
    """An embedder with a span around each call of another."""

    def __init__(self, embedder: EmbeddingPort, tracer: Tracer) -> None:
        """Initialize with the embedder and where spans come from."""
        super().__init__(embedder)
        self._tracer = tracer

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Vector]:
        """Ask the embedder behind within a span."""
        attributes: Attributes = {"gen_ai.operation.name": "embeddings", "lookup.texts": len(texts)}
        with _within(self._tracer.start_span("embed", kind=SpanKind.CLIENT, attributes=attributes)):
            return await self._embedder.embed(texts, timeout_s=timeout_s)


class TracedPublisher:
    """A publisher with a span for each record; a result carries its span's context to whoever reads it.

    A dead letter keeps the request's headers as they were.
    """

    def __init__(self, publisher: RecordPublisher, tracer: Tracer, *, results: str) -> None:
        """Initialize with the publisher, where spans come from, and the topic of the results."""
        self._publisher = publisher
        self._tracer = tracer
        self._results = results

    def check_size(self, record: ProducedRecord) -> None:
        """Check that the brokers will take a record with its trace.

        Raises:
            RecordTooLarge: They will not.
        """
        if record.topic == self._results:
            record = replace(record, headers=record.headers + ADDED_CONTEXT)
        self._publisher.check_size(record)

    async def publish(self, records: Sequence[ProducedRecord]) -> None:
        """Publish records within spans that end when all are confirmed."""
        spans = [self._start(record) for record in records]
        traced = [
            _with_context_of(span, record) if record.topic == self._results else record
            for span, record in zip(spans, records, strict=True)
        ]
        with ExitStack() as publishing:
            for span in spans:
                publishing.enter_context(_within(span))
            await self._publisher.publish(traced)

    def _start(self, record: ProducedRecord) -> Span:
        attributes = _produced(record, is_result=record.topic == self._results)
        return self._tracer.start_span(f"send {record.topic}", kind=SpanKind.PRODUCER, attributes=attributes)


@contextmanager
def _within(span: Span) -> Iterator[Span]:
    """End a span with the block; of an exception it keeps the kind, for the message may quote a query."""
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except BaseException as error:
            _fail(span, error.code if isinstance(error, SearchError) else type(error).__qualname__)
            raise


def _fail(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def _consumed(record: ConsumedRecord, group: str) -> Attributes:
    attributes: dict[str, str | int | bool] = {
        "messaging.system.name": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": record.topic,
        "messaging.destination.partition.id": str(record.partition),
        "messaging.consumer.group.name": group,
        "messaging.message.body.size": len(record.value or b""),
        "kafka.offset": record.offset,
    }
    if record.value is None:
        attributes["kafka.message.tombstone"] = True
    correlation = _first(record.headers, "correlation_id")
    if correlation is not None:
        attributes["messaging.message.conversation_id"] = correlation
    return attributes | _key(record.key)


def _produced(record: ProducedRecord, *, is_result: bool) -> Attributes:
    attributes: dict[str, str | int | bool] = {
        "messaging.system.name": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": record.topic,
        "messaging.message.body.size": len(record.value or b""),
    }
    if record.value is None:
        attributes["kafka.message.tombstone"] = True
    request_id = _first(record.headers, HEADER_REQUEST_ID)
    if is_result and request_id is not None:
        attributes["messaging.message.id"] = request_id
    return attributes | _key(record.key)


def _conclude(span: Span, answer: Answer) -> None:
    if answer.request_id is not None:
        span.set_attribute("messaging.message.id", answer.request_id)
    span.set_attribute("lookup.status", answer.status or "unreadable")
    if answer.failure is not None:
        _fail(span, answer.failure.reason)


def _key(key: bytes | None) -> dict[str, str]:
    """Return a key that is text; the convention leaves out what has no one form as text."""
    try:
        return {} if key is None else {"kafka.message.key": key.decode()}
    except UnicodeDecodeError:
        return {}


def _carrier(headers: Headers) -> dict[str, str]:
    headers = joined_tracestate(headers)
    found = {name: _first(headers, name) for name in CONTEXT_HEADERS}
    return {name: value for name, value in found.items() if value is not None}


def _first(headers: Headers, name: str) -> str | None:
    return next((value.decode("utf-8", "replace") for each, value in headers if each == name and value), None)


def _with_context_of(span: Span, record: ProducedRecord) -> ProducedRecord:
    """Let a record continue the trace from a span, instead of where its headers would."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, context=set_span_in_context(span, Context()))
    others = (header for header in record.headers if header[0] not in CONTEXT_HEADERS)
    return replace(record, headers=(*others, *((name, value.encode()) for name, value in carrier.items())))
