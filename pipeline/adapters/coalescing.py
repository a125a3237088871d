"""Ports that join what many lookups ask at once into few calls of another, whichever that is."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pipeline.adapters.around import AroundEmbedder, AroundSearch
from pipeline.coalescer import Coalescer
from pipeline.model import SearchHit, SearchQuery, Vector
from pipeline.ports import EmbeddingPort, KnowledgeSearchPort, SearchesManyAtOnce
from pipeline.probing import Probe

MAX_HITS = 4_096
"""Most hits that one call may bring: wide searches go in smaller calls."""


class CoalescingSearch(AroundSearch):
    """A search port that asks another many questions in one call."""

    def __init__(
        self, search: SearchesManyAtOnce, *, max_batch_size: int, max_calls: int, probe: Probe | None = None
    ) -> None:
        """Initialize with the port.

        Args:
            search: Answers many questions in one call.
            max_batch_size: Most of them in one call.
            max_calls: Most calls out at once; at most two of them ask under the same conditions.
            probe: Tells whether the engine answers; `None` if it cannot be probed.
        """
        super().__init__(search)
        self._max_batch_size = max_batch_size
        self._coalescer = Coalescer[SearchQuery, Sequence[SearchHit]](
            lambda queries, left: search.search_many(queries, timeout_s=left),
            max_calls=max_calls,
            probe=probe,
        )

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Ask the port behind, together with whoever asks now for as many hits under the same conditions."""
        [hits] = await self._coalescer.ask(
            [query],
            group=_group(query),
            batch_size=max(1, min(self._max_batch_size, MAX_HITS // query.limit)),
            timeout_s=timeout_s,
        )
        return hits


class CoalescingEmbedder(AroundEmbedder):
    """An embedder that gives another the texts of many callers in one call."""

    def __init__(
        self, embedder: EmbeddingPort, *, max_batch_size: int, max_calls: int, probe: Probe | None = None
    ) -> None:
        """Initialize with the embedder.

        Args:
            embedder: Embeds.
            max_batch_size: Most texts in one call.
            max_calls: Most calls out at once, of which two are used.
            probe: Tells whether the embedder answers; `None` if it cannot be probed.
        """
        super().__init__(embedder)
        self._max_batch_size = max_batch_size
        self._coalescer = Coalescer[str, Vector](
            lambda texts, left: embedder.embed(texts, timeout_s=left), max_calls=max_calls, probe=probe
        )

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Vector]:
        """Ask the embedder behind, together with whoever asks now."""
        return await self._coalescer.ask(
            texts, group=None, batch_size=self._max_batch_size, timeout_s=timeout_s
        )


def coalescing(
    search: KnowledgeSearchPort, *, max_batch_size: int, max_calls: int, probe: Probe | None = None
) -> KnowledgeSearchPort:
    """Return a port that joins concurrent searches, or the port itself where it takes one at a time."""
    if not isinstance(search, SearchesManyAtOnce):
        return search
    return CoalescingSearch(search, max_batch_size=max_batch_size, max_calls=max_calls, probe=probe)


def _group(query: SearchQuery) -> Hashable:
    """Return what queries of one call share. Types count: `True` is `1` to Python, and not to a filter."""
    return query.limit, *(
        (condition.field, *((type(value), value) for value in condition.any_of))
        for condition in query.conditions
    )
