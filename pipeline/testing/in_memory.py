"""Exact search over rows held in memory: for tests, and for trying the stage out without an engine."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.adapters.conditions import predicate
from pipeline.errors import ConfigurationError, SearchRejected
from pipeline.model import SearchHit, SearchQuery, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One chunk that can be found.

    Attributes:
        id: Its id.
        content: Its text.
        metadata: What conditions look at; handed out as it is.
        vector: Its embedding, as long as every other row's.
    """

    id: str | int
    content: str
    metadata: Mapping[str, object]
    vector: Vector


class InMemorySearch:
    """A search port that compares a query with every row by cosine.

    It does so in the event loop: good for thousands of rows, not for more.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        """Initialize with the rows; among equals the earlier is the better."""
        self._rows = tuple(rows)

    async def start(self) -> None:
        """Check that all vectors have one dimension.

        Raises:
            ConfigurationError: They have not.
        """
        dimensions = {len(row.vector) for row in self._rows}
        if len(dimensions) > 1:
            raise ConfigurationError(f"rows have vectors of different dimensions: {sorted(dimensions)}")

    async def search(
        self,
        query: SearchQuery,
        *,
        timeout_s: float,  # noqa: ARG002 - the port's signature; nothing here waits
    ) -> Sequence[SearchHit]:
        """Find the rows whose vectors point most nearly where the query's does.

        Args:
            query: Its text is not used.
            timeout_s: Not needed.

        Returns:
            0 to `query.limit` hits, best first, each with its cosine, -1 to 1, as the score.

        Raises:
            SearchRejected: The query has no vector, or one of another dimension.
        """
        if query.vector is None:
            raise SearchRejected("the query has no vector")
        holds = predicate(query.conditions)
        hits = [_hit(row, _cosine(query.vector, row.vector)) for row in self._rows if holds(row.metadata)]
        return sorted(hits, key=lambda hit: hit.score or 0.0, reverse=True)[: query.limit]

    async def search_many(
        self, queries: Sequence[SearchQuery], *, timeout_s: float
    ) -> Sequence[Sequence[SearchHit]]:
        """Answer each query as `search` does, one after the other.

        Raises:
            SearchRejected: A query has no vector, or one of another dimension.
        """
        return [await self.search(query, timeout_s=timeout_s) for query in queries]

    async def close(self) -> None:
        """Do nothing: nothing is held."""


def _hit(row: Row, cosine: float) -> SearchHit:
    return SearchHit(
        id=row.id,
        content=row.content,
        metadata=row.metadata,
        score=cosine,
        distance=cosine,
        metric="COSINE",
    )


def _cosine(left: Vector, right: Vector) -> float:
    if len(left) != len(right):
        raise SearchRejected(
            f"the query's vector has {len(left)} dimensions, the collection's have {len(right)}"
        )
    lengths = math.hypot(*left) * math.hypot(*right)
    return sum(map(operator.mul, left, right)) / lengths if lengths else 0.0
