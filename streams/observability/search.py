"""Measuring a search port: how long each call of it takes, and how many queries it asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from pipeline.errors import SearchError, SearchTimeout
from pipeline.model import SearchHit, SearchQuery
from pipeline.ports import KnowledgeSearchPort
from streams.observability.metrics import WorkerMetrics

OK, CANCELLED, INTERNAL = "ok", "cancelled", "internal"


class MeasuredSearch:
    """A search port that measures another."""

    def __init__(self, search: KnowledgeSearchPort, metrics: WorkerMetrics) -> None:
        """Takes the port and where to count."""
        self._search = search
        self._metrics = metrics

    async def start(self) -> None:
        """Starts the port behind."""
        await self._search.start()

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Asks the port behind and counts how it went."""
        began, outcome = time.monotonic(), INTERNAL
        try:
            hits = await self._search.search(query, timeout_s=timeout_s)
            outcome = OK
        except BaseException as error:
            outcome = _outcome(error)
            raise
        else:
            return hits
        finally:
            self._metrics.searched(outcome, time.monotonic() - began, queries=1)

    async def close(self) -> None:
        """Closes the port behind."""
        await self._search.close()


def _outcome(error: BaseException) -> str:
    if isinstance(error, SearchError):
        return error.code
    if isinstance(error, TimeoutError):
        return SearchTimeout.code
    return CANCELLED if isinstance(error, asyncio.CancelledError) else INTERNAL
