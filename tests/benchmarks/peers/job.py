"""The lookup that every peer does: the stage's own search, rules and bytes, without the stage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from pipeline.model import Lookup, PathHits, SearchHit, SearchQuery, Vector
from pipeline.outcome import PathAnswer, conclude
from pipeline.ports import EmbeddingPort, KnowledgeSearchPort
from streams.settings.model import Settings
from streams.wire.results import LookupResult, encode_result
from streams.worker.bootstrap import running_embedder, running_search


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a lookup needs."""

    settings: Settings
    search: KnowledgeSearchPort
    embedder: EmbeddingPort | None

    async def look_up(self, value: bytes) -> bytes:
        """Answer one request with one call of the embedder and one of the search."""
        request, lookup = understood(value, self.settings)
        vectors: Sequence[Vector | None] = [None]
        if self.embedder is not None:
            vectors = await self.embedder.embed(lookup.queries, timeout_s=self.settings.search.timeout)
        query = SearchQuery(text=lookup.queries[0], vector=vectors[0], limit=lookup.limits.retrieve_k)
        hits = await self.search.search(query, timeout_s=self.settings.search.timeout)
        return answered(request, lookup, hits)


@asynccontextmanager
async def running_job() -> AsyncIterator[Job]:
    """Start embedder and search, and stop them again."""
    settings = Settings()
    async with (
        running_embedder(settings.embedding) as embedder,
        running_search(settings, embedder) as search,
    ):
        yield Job(settings=settings, search=search, embedder=embedder)


def understood(value: bytes, settings: Settings) -> tuple[dict[str, Any], Lookup]:
    """Read a request, and fill in the defaults."""
    request = orjson.loads(value)
    configured = settings.rag.limits
    lookup = Lookup(
        queries=(request["query"],),
        vectors=None,
        limits=type(configured)(
            retrieve_k=request["retrieve_k"],
            return_n=request["return_n"],
            max_chunks_per_document=configured.max_chunks_per_document,
        ),
        budget=settings.projection.budget,
    )
    return request, lookup


def answered(request: dict[str, Any], lookup: Lookup, hits: Sequence[SearchHit]) -> bytes:
    """Turn hits into the bytes of the result."""
    answer = PathAnswer(query=0, hits=PathHits(query=0, hits=tuple(hits)))
    outcome = conclude([answer], limits=lookup.limits, budget=lookup.budget, explain=False)
    return encode_result(
        LookupResult(
            request_id=request["request_id"],
            status=outcome.status,
            evidence=outcome.evidence,
            paths=outcome.paths,
            ledger=outcome.ledger,
            limits=lookup.limits,
        )
    )
