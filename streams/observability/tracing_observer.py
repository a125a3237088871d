"""An observer that traces requests as well."""

from __future__ import annotations

from opentelemetry.trace import Tracer

from pipeline.ports import EmbeddingPort, KnowledgeSearchPort
from streams.kafka.publishing import RecordPublisher
from streams.observability.monitor import Monitor
from streams.observability.observer import Observer
from streams.observability.tracing import TracedEmbedder, TracedProcessing, TracedPublisher, TracedSearch
from streams.settings.model import Settings
from streams.stage.stage import Around


class TracingObserver(Observer):
    """The metrics and the traces of one worker."""

    def __init__(self, settings: Settings, monitor: Monitor, tracer: Tracer) -> None:
        """Observe a worker with these settings; `tracer` makes the spans."""
        super().__init__(settings, monitor)
        self._tracer = tracer

    def search(self, search: KnowledgeSearchPort) -> KnowledgeSearchPort:
        """Trace the searches of requests, retries included."""
        return TracedSearch(search, self._tracer, attributes=_engine(self._settings))

    def embedder(self, embedder: EmbeddingPort) -> EmbeddingPort:
        """Trace the embedding of requests' queries."""
        return TracedEmbedder(embedder, self._tracer)

    def publisher(self, publisher: RecordPublisher) -> RecordPublisher:
        """Trace what is published, and continue the requests' traces in their results."""
        return TracedPublisher(publisher, self._tracer, results=self._settings.kafka.topics.results)

    def around(self) -> Around:
        """Trace the work on each request."""
        return TracedProcessing(self._tracer, group=self._settings.kafka.group_id)


def _engine(settings: Settings) -> dict[str, str]:
    port = settings.search.port
    if port != "milvus-dense":
        return {"db.system.name": port}
    milvus = settings.milvus
    return {
        "db.system.name": "milvus",
        "db.namespace": milvus.database,
        "db.collection.name": milvus.collection,
    }
