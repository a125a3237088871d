"""What a worker shows of itself, started and stopped together, and put around the parts it is about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

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


class Observer:
    """The metrics of one worker, and its parts as they are: nothing stands around what would be traced.

    Attributes:
        metrics: Where it counts.
        monitor: Looks at the worker every second.
    """

    def __init__(self, settings: Settings, monitor: Monitor) -> None:
        """Observe a worker with these settings, through a monitor."""
        self._settings = settings
        self.monitor = monitor
        self.metrics = WorkerMetrics(lambda: monitor.state)

    def measured(self, search: KnowledgeSearchPort) -> KnowledgeSearchPort:
        """Measure each call of a search engine."""
        return measured(search, self.metrics)

    def search(self, search: KnowledgeSearchPort) -> KnowledgeSearchPort:
        """Return the search of requests, retries included."""
        return search

    def embedder(self, embedder: EmbeddingPort) -> EmbeddingPort:
        """Return the embedder of requests' queries."""
        return embedder

    def publisher(self, publisher: RecordPublisher) -> RecordPublisher:
        """Return the publisher of results."""
        return publisher

    def around(self) -> Around | None:
        """Return what stands around the work on a request, if anything does."""
        return None

    def hooks(self) -> StageHooks:
        """Return the hooks that count answers and stand around the work on requests."""
        return StageHooks(
            on_answered=self._count_and_log if self._settings.stage.log_content else self.metrics.answered,
            around=self.around(),
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


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


@contextmanager
def observing(settings: Settings) -> Iterator[Observer]:
    """Serve a worker's metrics and probes, look at it, and export its spans, while the block runs.

    Raises:
        ConfigurationError: One line saying why their port cannot be had, or why there can be no traces.
    """
    monitor, longest_stall_s = Monitor(), longest_stall(settings)
    probes = {
        path: partial(_judge, why_not, monitor, longest_stall_s)
        for path, why_not in (("/livez", why_not_live), ("/readyz", why_not_ready))
    }
    with (
        _observer(settings, monitor) as observer,
        serving(settings.metrics, registry_of(observer.metrics), probes),
    ):
        looking = asyncio.create_task(monitor.run())
        try:
            yield observer
        finally:
            looking.cancel()


@contextmanager
def _observer(settings: Settings, monitor: Monitor) -> Iterator[Observer]:
    if not settings.tracing.enabled:
        yield Observer(settings, monitor)
        return
    try:
        from streams.observability.exporting import exporting
        from streams.observability.tracing_observer import TracingObserver
    except ImportError as error:
        raise ConfigurationError(
            f"tracing.enabled = True: needs the extra `tracing`, lookup-stage[tracing]: {error}"
        ) from error
    with exporting() as tracer:
        yield TracingObserver(settings, monitor, tracer)


def _judge(why_not: Judge, monitor: Monitor, longest_stall_s: float) -> str | None:
    return why_not(monitor.state, time.monotonic(), longest_stall_s=longest_stall_s)
