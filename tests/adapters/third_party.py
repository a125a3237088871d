"""A search port as other people would write one: it borrows nothing but the values it takes and gives.

`search.port: tests.adapters.third_party:create` makes the stage use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import SearchRejected
from pipeline.model import Condition, SearchHit, SearchQuery
from pipeline.testing.search_port import known_rows
from streams.settings.model import Settings


class ShelfSearch:
    """Searches a shelf of known rows by scalar product of normed vectors."""

    def __init__(self, *, integer_ids: bool) -> None:
        """Fill the shelf."""
        self._rows = known_rows(integer_ids=integer_ids)
        self._norms = [sum(x * x for x in row.vector) ** 0.5 for row in self._rows]

    async def start(self) -> None:
        """Do nothing: there is nothing to connect to."""

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Return the nearest rows that meet every condition."""
        del timeout_s
        if query.vector is None:
            raise SearchRejected("the query has no vector")
        asked, shelved = len(query.vector), len(self._rows[0].vector)
        if asked != shelved:
            raise SearchRejected(f"the query has {asked} dimensions, the shelf has {shelved}")
        norm = sum(x * x for x in query.vector) ** 0.5
        hits = [
            SearchHit(
                id=row.id,
                content=row.content,
                metadata=row.metadata,
                score=sum(a * b for a, b in zip(row.vector, query.vector, strict=True)) / (norm * length),
            )
            for row, length in zip(self._rows, self._norms, strict=True)
            if all(_meets(row.metadata.get(one.field), one) for one in query.conditions)
        ]
        return sorted(hits, key=lambda hit: -(hit.score or 0.0))[: query.limit]

    async def close(self) -> None:
        """Release nothing: nothing is held."""


def create(settings: Settings) -> ShelfSearch:
    """Make the port; the collection's name says which kind of ids its rows have."""
    return ShelfSearch(integer_ids=settings.milvus.collection == "integers")


def _meets(found: object, condition: Condition) -> bool:
    return any(
        found == wanted and isinstance(found, bool) == isinstance(wanted, bool) for wanted in condition.any_of
    )
