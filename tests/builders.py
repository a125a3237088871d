"""Values and ports for tests, each made in one line that shows only what matters to the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pipeline.identity import evidence_of, identify, reason_of
from pipeline.lookup import LookupPipeline
from pipeline.model import (
    Budget,
    Condition,
    Dropped,
    Evidence,
    Limits,
    Lookup,
    PathHits,
    Problem,
    SearchHit,
    SearchQuery,
    Vector,
)
from pipeline.outcome import PathAnswer, conclude
from pipeline.ports import KnowledgeSearchPort
from streams.kafka.records import ConsumedRecord, Headers
from streams.recordings.recording import Captured, RecordedIndex, RecordedPath, Recording
from streams.settings.model import TopicSettings
from streams.stage.answering import Answerer
from streams.wire.request_rules import RequestRules
from streams.wire.results import LookupResult
from streams.wire.results import encode_result as result_json

T = TypeVar("T")

UNAVAILABLE = Problem(code="search_unavailable", message="the engine cannot be reached")


def hit(
    doc: str | None = None,
    chunk: int | None = None,
    *,
    score: float | None = 0.5,
    content: str | None = "Restart the consumer.",
    row_id: str | int | None = None,
    **metadata: object,
) -> SearchHit:
    """Return a hit; `doc` and `chunk` go into its metadata as `docId` and `chunkIndex`."""
    named = {"docId": doc, "chunkIndex": chunk}
    known: dict[str, object] = {field: value for field, value in named.items() if value is not None}
    return SearchHit(id=row_id, content=content, metadata=known | metadata, score=score)


def hit_with(**values: Any) -> SearchHit:
    """Return a hit field by field, also with values that its types forbid."""
    return SearchHit(**{"content": "Restart the consumer.", "score": 0.5, **values})


def path(*hits: SearchHit, query: int = 0) -> PathHits:
    """Return the hits of one query."""
    return PathHits(query=query, hits=hits)


def answer(*hits: SearchHit, query: int = 0) -> PathAnswer:
    """Return the answer of a path that succeeded."""
    return PathAnswer(query=query, hits=path(*hits, query=query))


def failure(query: int = 0, problem: Problem = UNAVAILABLE) -> PathAnswer:
    """Return the answer of a path that failed."""
    return PathAnswer(query=query, hits=path(query=query), error=problem)


def block(found: SearchHit, *, query: int = 0, rank: int = 1) -> Evidence:
    """Return the block of a hit that is not rejected and has no duplicates; its place is the first."""
    candidate = identify(found, query, rank)
    assert not isinstance(candidate, Dropped)
    return evidence_of(candidate, [reason_of(candidate)], rank=1)


def limits(*, retrieve_k: int = 20, return_n: int = 5, max_chunks_per_document: int = 2) -> Limits:
    """Return widths; the defaults are the product's."""
    return Limits(retrieve_k=retrieve_k, return_n=return_n, max_chunks_per_document=max_chunks_per_document)


def budget(
    *,
    max_items: int = 20,
    max_chars_per_item: int = 2_000,
    max_total_chars: int = 8_000,
    min_chars_per_item: int = 200,
) -> Budget:
    """Return a budget; the defaults are the product's."""
    return Budget(
        max_items=max_items,
        max_chars_per_item=max_chars_per_item,
        max_total_chars=max_total_chars,
        min_chars_per_item=min_chars_per_item,
    )


def lookup(
    *queries: str,
    vectors: tuple[Vector, ...] | None = None,
    conditions: tuple[Condition, ...] = (),
    widths: Limits | None = None,
) -> Lookup:
    """Return a lookup under the product's default limits and budget."""
    return Lookup(
        queries=queries,
        vectors=vectors,
        limits=widths or limits(),
        budget=budget(),
        conditions=conditions,
    )


SearchReply: TypeAlias = Callable[[SearchQuery], Awaitable[Sequence[SearchHit]]]
EmbeddingReply: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[Vector]]]


def answering(*items: T) -> Callable[[object], Awaitable[Sequence[T]]]:
    """Return a reply that comes at once."""

    async def reply(_asked: object) -> Sequence[T]:
        return items

    return reply


def raising(error: BaseException) -> Callable[[object], Awaitable[tuple[()]]]:
    """Return a reply that is an error."""

    async def reply(_asked: object) -> tuple[()]:
        raise error

    return reply


class Hanging:
    """A reply that never comes.

    Attributes:
        waiting: Set once somebody waits for the reply.
        cancelled: Whether the waiting was called off.
    """

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.cancelled = False

    async def __call__(self, _asked: object) -> tuple[()]:
        """Wait until it is cancelled."""
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return ()


class FakeSearch:
    """A search port that has a reply for each query text.

    Attributes:
        asked: Every query it was asked, in order.
        timeouts_s: The seconds it was given for each.
    """

    def __init__(self, replies: Mapping[str, SearchReply]) -> None:
        """Initialize with the replies by query text."""
        self._replies = replies
        self.asked: list[SearchQuery] = []
        self.timeouts_s: list[float] = []

    async def start(self) -> None:
        """Do nothing: there is nothing to connect to."""

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Return the reply to the query's text."""
        self.asked.append(query)
        self.timeouts_s.append(timeout_s)
        return await self._replies[query.text](query)

    async def close(self) -> None:
        """Do nothing: nothing is held."""


class FakeEmbedder:
    """An embedder with one reply.

    Attributes:
        dimension: Length that its vectors are said to have.
        asked: The texts of every call, in order.
        timeouts_s: The seconds it was given for each.
    """

    def __init__(self, reply: EmbeddingReply) -> None:
        """Initialize with the reply to every call."""
        self._reply = reply
        self.dimension = 2
        self.asked: list[tuple[str, ...]] = []
        self.timeouts_s: list[float] = []

    async def start(self) -> None:
        """Have nothing to load."""

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Vector]:
        """Return the reply."""
        self.asked.append(tuple(texts))
        self.timeouts_s.append(timeout_s)
        return await self._reply(texts)

    async def close(self) -> None:
        """Do nothing: nothing is held."""


def lookup_answerer(
    search: KnowledgeSearchPort, *, widths: Limits | None = None, room: Budget | None = None
) -> Answerer:
    """Return what answers requests over a port, without an embedder, by the product's rules or others."""
    return Answerer(
        LookupPipeline(search, None),
        rules=RequestRules(
            limits=widths or limits(),
            max_width=200,
            budget=room or budget(),
            tenant_field=None,
            dimension=None,
        ),
        topics=TopicSettings(),
        timeout_s=60,
    )


def consumed(
    value: bytes | None, *, key: bytes | None = b"session-7", headers: Headers = ()
) -> ConsumedRecord:
    """Return a request as it was read."""
    return ConsumedRecord(
        topic="lookup.requests",
        partition=3,
        offset=17,
        timestamp_ms=1_800_000_000_123,
        key=key,
        value=value,
        headers=headers,
    )


def recording(
    *answers: PathAnswer,
    widths: Limits | None = None,
    room: Budget | None = None,
    **request: object,
) -> Recording:
    """Return the recording of a lookup that was answered from these answers, by the rules as they are now."""
    fields = {"request_id": "r-1", "queries": [f"query {each.query}" for each in answers]} | request
    widths, room = widths or limits(), room or budget()
    outcome = conclude(answers, limits=widths, budget=room)
    result = LookupResult(
        request_id=str(fields["request_id"]),
        status=outcome.status,
        evidence=outcome.evidence,
        paths=outcome.paths,
        ledger=outcome.ledger,
        limits=widths,
        error=outcome.error,
        hints=fields.get("hints"),
        dropped=outcome.dropped if fields.get("explain") else None,
    )
    return Recording(
        request_id=str(fields["request_id"]),
        request=fields,
        key=b"session-7",
        headers=(("traceparent", b"00-ab-cd-01"), ("note", None)),
        captured=Captured(topic="lookup.requests", partition=3, offset=17, timestamp_ms=1_800_000_000_123),
        index=RecordedIndex(collection="knowledge", fingerprint="0123456789abcdef"),
        paths=tuple(RecordedPath(text=f"query {each.query}", answer=each) for each in answers),
        limits=widths,
        budget=room,
        result=json.loads(result_json(result)),
    )
