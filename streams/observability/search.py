"""Measuring a search port: how long each call of it takes, and how many queries it asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from pipeline.adapters.around import AroundSearch
from pipeline.errors import SearchError, SearchTimeout
from pipeline.model import SearchHit, SearchQuery
from pipeline.ports import KnowledgeSearchPort, SearchesManyAtOnce
from streams.observability.metrics import WorkerMetrics

T = TypeVar("T")

OK, CANCELLED, INTERNAL = "ok", "cancelled", "internal"


class MeasuredSearch(AroundSearch):
    """A search port that measures another."""

    def __init__(self, search: KnowledgeSearchPort, metrics: WorkerMetrics) -> None:
        """Initialize with the port and where to count."""
        super().__init__(search)
        self._metrics = metrics

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Ask the port behind and count how it went."""
        return await self._measured(self._search.search(query, timeout_s=timeout_s), queries=1)

    async def _measured(self, call: Awaitable[T], *, queries: int) -> T:
        began, outcome = time.monotonic(), INTERNAL
        try:
            answer = await call
            outcome = OK
        except BaseException as error:
            outcome = _outcome(error)
            raise
        else:
            return answer
        finally:
            self._metrics.searched(outcome, time.monotonic() - began, queries=queries)


class MeasuredSearchOfMany(MeasuredSearch):
    """The same for a port that answers many queries in one call."""

    def __init__(self, search: SearchesManyAtOnce, metrics: WorkerMetrics) -> None:
        """Initialize with the port and where to count."""
        super().__init__(search, metrics)
        self._search_of_many = search

    async def search_many(
        self, queries: Sequence[SearchQuery], *, timeout_s: float
    ) -> Sequence[Sequence[SearchHit]]:
        """Ask the port behind and count how it went."""
        call = self._search_of_many.search_many(queries, timeout_s=timeout_s)
        return await self._measured(call, queries=len(queries))


def measured(search: KnowledgeSearchPort, metrics: WorkerMetrics) -> MeasuredSearch:
    """Return a port that measures another, and answers many queries in one call if that one does."""
    if isinstance(search, SearchesManyAtOnce):
        return MeasuredSearchOfMany(search, metrics)
    return MeasuredSearch(search, metrics)


def _outcome(error: BaseException) -> str:
    if isinstance(error, SearchError):
        return error.code
    if isinstance(error, TimeoutError):
        return SearchTimeout.code
    return CANCELLED if isinstance(error, asyncio.CancelledError) else INTERNAL
