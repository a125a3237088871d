"""The composition root: the one place where settings become parts and parts are put together."""

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import structlog
from aiokafka import AIOKafkaProducer

from pipeline.adapters.coalescing import CoalescingEmbedder, coalescing
from pipeline.adapters.milvus_dense import MilvusCollection, MilvusDenseSearch
from pipeline.adapters.resilient import Resilience, ResilientEmbedder, ResilientSearch, RetryPolicy
from pipeline.circuit import CircuitBreaker
from pipeline.embedders.openai_compatible import OpenAICompatibleEmbedder
from pipeline.embedders.word_llama import WordLlamaEmbedder
from pipeline.errors import ConfigurationError, SearchError
from pipeline.lookup import LookupPipeline
from pipeline.ports import CanBeProbed, EmbeddingPort, KnowledgeSearchPort
from pipeline.probing import Probe
from streams.indexing import IndexReport, MilvusIndex, index_documents, read_source
from streams.indexing.chunks import MAX_CHUNK_CHARACTERS
from streams.kafka.connection import client_arguments
from streams.kafka.publishing import Publisher, key_as_bytes
from streams.kafka.topics import max_record_bytes, worker_topics
from streams.observability.observer import Observer
from streams.replay.live import LiveReplay
from streams.settings.model import EmbeddingSettings, Settings, StageSettings
from streams.stage.answering import Answerer
from streams.stage.recorder import Recorder, recorded_index
from streams.stage.stage import LookupStage, StagePolicy
from streams.wire.request_rules import RequestRules

log = structlog.get_logger(__name__)

MAX_BATCH_BYTES = 262_144
"""A batch that is full holds up every further result for its partition."""

BEFORE_EVERY_EXPIRY = -math.inf
"""The clock of a replay: what was recorded has expired long since, and is to be answered all the same."""

ENGINES = ("embedder", "search")

SearchFactory = Callable[[Settings], KnowledgeSearchPort]


@asynccontextmanager
async def running_stage(settings: Settings, observer: Observer) -> AsyncIterator[LookupStage]:
    """Start everything a stage needs but Faust, and stop it again.

    Args:
        settings: All of them.
        observer: What the stage shows of itself.

    Raises:
        ConfigurationError: One line saying what the stage cannot start without.
    """
    topics = settings.kafka.topics
    circuits = {engine: _circuit(settings, engine) for engine in ENGINES}
    async with AsyncExitStack() as stack:
        embedder = await stack.enter_async_context(running_embedder(settings.embedding))
        search = await stack.enter_async_context(running_search(settings, embedder))
        robust = _Robust(settings, circuits, on_retry=observer.metrics.retried)
        written = [topic for topic in worker_topics(settings) if topic != topics.requests]
        max_bytes = await max_record_bytes(settings.kafka, written)
        producer = _create_producer(settings, max_bytes.values())
        stack.push_async_callback(producer.stop)
        await producer.start()
        yield LookupStage(
            Answerer(
                LookupPipeline(
                    observer.search(robust.search(observer.measured(search), probed=search)),
                    None if embedder is None else observer.embedder(robust.embedder(embedder)),
                ),
                rules=_request_rules(settings, search),
                topics=topics,
                timeout_s=settings.search.timeout,
            ),
            observer.publisher(
                Publisher(producer, timeout_s=settings.stage.publish_timeout, max_bytes=max_bytes)
            ),
            _stage_policy(settings.stage, _recorder(settings, search)),
            circuits=circuits,
            hooks=observer.hooks(),
        )


@asynccontextmanager
async def running_live_replay(settings: Settings) -> AsyncIterator[LiveReplay]:
    """Start what it takes to ask the configured search again, and stop it.

    Raises:
        ConfigurationError: One line saying what cannot start.
    """
    async with AsyncExitStack() as stack:
        embedder = await stack.enter_async_context(running_embedder(settings.embedding))
        search = await stack.enter_async_context(running_search(settings, embedder))
        robust = _Robust(settings, {engine: _circuit(settings, engine) for engine in ENGINES})
        answerer = Answerer(
            LookupPipeline(
                robust.search(search, probed=search),
                None if embedder is None else robust.embedder(embedder),
            ),
            rules=_request_rules(settings, search),
            topics=settings.kafka.topics,
            timeout_s=settings.search.timeout,
            now=lambda: BEFORE_EVERY_EXPIRY,
        )
        index = recorded_index(search, settings)
        recorder = Recorder(topic=settings.kafka.topics.recordings, share=1.0, index=index)
        yield LiveReplay(answerer=answerer, recorder=recorder)


@asynccontextmanager
async def running_embedder(embedding: EmbeddingSettings) -> AsyncIterator[EmbeddingPort | None]:
    """Start the configured embedder; `None` where requests bring vectors.

    Raises:
        ConfigurationError: One line saying why it cannot start.
    """
    embedder = _create_embedder(embedding)
    if embedder is None:
        yield None
        return
    try:
        await embedder.start()
        yield embedder
    finally:
        await embedder.close()


@asynccontextmanager
async def running_search(
    settings: Settings, embedder: EmbeddingPort | None
) -> AsyncIterator[KnowledgeSearchPort]:
    """Start the configured search port.

    Raises:
        ConfigurationError: One line saying why it cannot start.
    """
    search = _create_search(settings, embedder)
    try:
        await search.start()
        await _warn_of_refused_width(settings, search)
        yield search
    finally:
        await search.close()


async def _warn_of_refused_width(settings: Settings, search: KnowledgeSearchPort) -> None:
    """Log if requests may ask for more hits than the engine returns: each that does will be refused."""
    if isinstance(search, MilvusDenseSearch):
        width = settings.rag.max_retrieve_k
        why = await search.refusal_of_width(width, timeout_s=settings.search.attempt_timeout)
        if why is not None:
            log.warning("width_refused", setting="rag.max-retrieve-k", value=width, why=why)


async def index_path(
    settings: Settings,
    path: Path,
    progress: Callable[[int, int], None],
    *,
    chunk_size: int = MAX_CHUNK_CHARACTERS,
) -> IndexReport:
    """Index a folder of Markdown or a JSON Lines file of chunks into the configured collection.

    Args:
        settings: The collection and the embedder.
        path: What to index.
        progress: Called with the number of chunks written and of all chunks.
        chunk_size: Most characters of a chunk of Markdown.

    Raises:
        ConfigurationError: One line saying what is wrong with the path, the embedder or the collection.
    """
    async with running_embedder(settings.embedding) as embedder:
        if embedder is None:
            raise ConfigurationError("embedding.provider = none: indexing needs an embedder")
        dimension = embedder.dimension
        # Read before the collection is created: a bad line leaves nothing behind.
        found = await asyncio.to_thread(read_source, path, chunk_size=chunk_size, dimension=dimension)
        async with MilvusIndex(milvus_collection(settings), dimension=dimension) as index:
            return await index_documents(found, index, embedder, progress)


def milvus_collection(settings: Settings) -> MilvusCollection:
    """Name the collection that the settings name."""
    milvus = settings.milvus
    return MilvusCollection(
        uri=milvus.uri,
        token=None if milvus.token is None else milvus.token.get_secret_value(),
        database=milvus.database,
        collection=milvus.collection,
        id_field=milvus.id_field,
        vector_field=milvus.vector_field,
        content_field=milvus.content_field,
        metadata_layout=milvus.metadata_layout,
        metadata_field=milvus.metadata_field,
        search_params=milvus.search_params,
        ca_file=milvus.ca_file,
    )


def _create_embedder(embedding: EmbeddingSettings) -> EmbeddingPort | None:
    if embedding.provider == "none":
        return None
    if embedding.provider == "wordllama":
        return WordLlamaEmbedder()
    return OpenAICompatibleEmbedder(
        base_url=embedding.base_url,
        model=embedding.model,
        api_key=None if embedding.api_key is None else embedding.api_key.get_secret_value(),
        batch_size=embedding.batch_size,
    )


def _create_search(settings: Settings, embedder: EmbeddingPort | None) -> KnowledgeSearchPort:
    if settings.search.port == "milvus-dense":
        return MilvusDenseSearch(
            milvus_collection(settings),
            expected_dimension=None if embedder is None else embedder.dimension,
            tenant_field=settings.rag.tenant_field,
        )
    return _load_factory(settings.search.port)(settings)


def _create_producer(settings: Settings, max_bytes: Collection[int]) -> AIOKafkaProducer:
    """Make a producer that writes each record once and has every copy confirmed.

    Args:
        settings: Brokers and time.
        max_bytes: The most that each of its topics takes, which holds for a batch as for a record.
    """
    return AIOKafkaProducer(
        **client_arguments(settings.kafka),
        acks="all",
        enable_idempotence=True,
        compression_type=None if settings.kafka.compression == "none" else settings.kafka.compression,
        key_serializer=key_as_bytes,
        max_batch_size=min(MAX_BATCH_BYTES, *max_bytes),
        max_request_size=max(max_bytes),
        request_timeout_ms=int(settings.stage.publish_timeout * 1_000),
    )


def _circuit(settings: Settings, engine: str) -> CircuitBreaker:
    return CircuitBreaker(
        failure_threshold=settings.search.circuit_failures,
        probe_interval_s=settings.search.circuit_probe_interval,
        on_change=lambda state: log.warning("circuit_changed", engine=engine, state=state),
    )


def _retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(attempts=settings.search.attempts, attempt_timeout_s=settings.search.attempt_timeout)


def _recorder(settings: Settings, search: KnowledgeSearchPort) -> Recorder | None:
    share = settings.stage.recorded_share
    if not share:
        return None
    index = recorded_index(search, settings)
    return Recorder(topic=settings.kafka.topics.recordings, share=share, index=index)


def _stage_policy(stage: StageSettings, recorder: Recorder | None) -> StagePolicy:
    return StagePolicy(
        max_in_flight=stage.max_in_flight,
        ordering=stage.ordering,
        waits_for_search=stage.when_search_is_down == "wait",
        max_dead_letters_per_minute=stage.max_dead_letters_per_minute,
        recorder=recorder,
    )


class _Robust:
    """Puts shared calls, retries, circuits and probes around ports."""

    def __init__(
        self,
        settings: Settings,
        circuits: Mapping[str, CircuitBreaker],
        on_retry: Callable[[SearchError], object] = lambda _error: None,
    ) -> None:
        """Store what the ports have in common.

        Args:
            settings: All of them.
            circuits: Those of the embedder and the search, by name.
            on_retry: Told of each error after which an engine is asked again.
        """
        self._settings = settings
        self._circuits = circuits
        self._on_retry = on_retry

    def search(self, search: KnowledgeSearchPort, *, probed: KnowledgeSearchPort) -> KnowledgeSearchPort:
        """Let searches share calls, behind the retries: each lookup has tries of its own.

        Args:
            search: Is asked the requests' queries.
            probed: The port of the same engine that is probed: what stands around it knows no probe.
        """
        probe, settings = self._probe(probed), self._settings.search
        sharing_calls = coalescing(
            search,
            max_batch_size=settings.max_batch_size,
            max_calls=settings.max_concurrent_calls,
            probe=probe,
        )
        return ResilientSearch(sharing_calls, self._resilience("search", probe))

    def embedder(self, embedder: EmbeddingPort) -> EmbeddingPort:
        """Let texts share calls, behind the retries; a model in this process answers before any can wait."""
        if isinstance(embedder, WordLlamaEmbedder):
            return embedder
        probe = self._probe(embedder)
        sharing_calls = CoalescingEmbedder(
            embedder,
            max_batch_size=self._settings.embedding.batch_size,
            max_calls=self._settings.search.max_concurrent_calls,
            probe=probe,
        )
        return ResilientEmbedder(sharing_calls, self._resilience("embedder", probe))

    def _resilience(self, engine: str, probe: Probe | None) -> Resilience:
        return Resilience(
            _retry_policy(self._settings), self._circuits[engine], on_retry=self._on_retry, probe=probe
        )

    def _probe(self, port: object) -> Probe | None:
        if not isinstance(port, CanBeProbed):
            return None
        return Probe(lambda left: port.probe(timeout_s=left), timeout_s=self._settings.search.attempt_timeout)


def _load_factory(name: str) -> SearchFactory:
    module, _, attribute = name.partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"search.port = {name!r}: must be 'milvus-dense' or 'package.module:factory': {error}"
        ) from error
    return cast("SearchFactory", factory)


def _request_rules(settings: Settings, search: KnowledgeSearchPort) -> RequestRules:
    return RequestRules(
        limits=settings.rag.limits,
        max_width=settings.rag.max_retrieve_k,
        budget=settings.projection.budget,
        tenant_field=settings.rag.tenant_field,
        dimension=search.dimension if isinstance(search, MilvusDenseSearch) else None,
    )
