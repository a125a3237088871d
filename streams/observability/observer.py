"""What a worker shows of itself, started and stopped together, and put around the parts it is about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import structlog

from pipeline.errors import ConfigurationError
from pipeline.ports import EmbeddingPort, KnowledgeSearchPort
from streams.kafka.publishing import RecordPublisher
from streams.kafka.records import ConsumedRecord
from streams.observability.health import Judge, longest_stall, why_not_live, why_not_ready
from streams.observability.metrics import WorkerMetrics, registry_of
from streams.observability.monitor import Monitor
from streams.observability.search import measured
from streams.observability.server import serving
from streams.settings.model import Settings
from streams.stage.answering import Answer
from streams.stage.stage import Around, StageHooks

log = structlog.get_logger(__name__)

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class Observer:
    """The metrics and traces of one worker.

    Without tracing, nothing stands around the parts that would be traced.

    Attributes:
        metrics: Where it counts.
        monitor: Looks at it every second.
    """

    def __init__(self, settings: Settings, monitor: Monitor, tracer: Tracer | None) -> None:
        """Takes the worker's settings, what looks at it, and what makes spans, if they are wanted."""
        self._settings = settings
        self._tracer = tracer
        self.monitor = monitor
        self.metrics = WorkerMetrics(lambda: monitor.state)

    def measured(self, search: KnowledgeSearchPort) -> KnowledgeSearchPort:
        """Measures each call of a search engine."""
        return measured(search, self.metrics)

    def search(self, search: KnowledgeSearchPort) -> KnowledgeSearchPort:
        """Traces the searches of requests, tries and all."""
        if self._tracer is None:
            return search
        from streams.observability.tracing import TracedSearch

        return TracedSearch(search, self._tracer, attributes=self._engine())

    def embedder(self, embedder: EmbeddingPort) -> EmbeddingPort:
        """Traces the embedding of requests' queries."""
        if self._tracer is None:
            return embedder
        from streams.observability.tracing import TracedEmbedder

        return TracedEmbedder(embedder, self._tracer)

    def publisher(self, publisher: RecordPublisher) -> RecordPublisher:
        """Traces what is published, and lets results carry their traces on."""
        if self._tracer is None:
            return publisher
        from streams.observability.tracing import TracedPublisher

        return TracedPublisher(publisher, self._tracer, results=self._settings.kafka.topics.results)

    def hooks(self) -> StageHooks:
        """Counts the answers of requests, and traces the work on them."""
        return StageHooks(
            on_answered=self._count_and_log if self._settings.stage.log_content else self.metrics.answered,
            around=self._around(),
        )

    def _count_and_log(self, record: ConsumedRecord, answer: Answer, seconds: float) -> None:
        self.metrics.answered(record, answer, seconds)
        log.info(
            "request_answered",
            status=answer.status,
            seconds=round(seconds, 6),
            request=_text(record.value),
            result=None if answer.result is None else _text(answer.result.value),
        )

    def _around(self) -> Around | None:
        if self._tracer is None:
            return None
        from streams.observability.tracing import TracedProcessing

        return TracedProcessing(self._tracer, group=self._settings.kafka.group_id)

    def _engine(self) -> dict[str, str]:
        port = self._settings.search.port
        if port != "milvus-dense":
            return {"db.system.name": port}
        milvus = self._settings.milvus
        return {
            "db.system.name": "milvus",
            "db.namespace": milvus.database,
            "db.collection.name": milvus.collection,
        }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


@contextmanager
def observing(settings: Settings) -> Iterator[Observer]:
    """Serves a worker's metrics and probes, looks at it, and exports its spans, while the block runs.

    Raises:
        ConfigurationError: One line saying why their port cannot be had, or why there can be no traces.
    """
    monitor, longest_stall_s = Monitor(), longest_stall(settings)
    probes = {
        path: partial(_judge, why_not, monitor, longest_stall_s)
        for path, why_not in (("/livez", why_not_live), ("/readyz", why_not_ready))
    }
    with _tracing(enabled=settings.tracing.enabled) as tracer:
        observer = Observer(settings, monitor, tracer)
        with serving(settings.metrics, registry_of(observer.metrics), probes):
            looking = asyncio.create_task(monitor.run())
            try:
                yield observer
            finally:
                looking.cancel()


@contextmanager
def _tracing(*, enabled: bool) -> Iterator[Tracer | None]:
    if not enabled:
        yield None
        return
    try:
        from streams.observability.exporting import exporting
    except ImportError as error:
        raise ConfigurationError(
            f"tracing.enabled = True: needs the extra `tracing`, lookup-stage[tracing]: {error}"
        ) from error
    with exporting() as tracer:
        yield tracer


def _judge(why_not: Judge, monitor: Monitor, longest_stall_s: float) -> str | None:
    return why_not(monitor.state, time.monotonic(), longest_stall_s=longest_stall_s)
