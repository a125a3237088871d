"""Search ports of other people's, as `search.port: package.module:factory` finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pipeline.model import SearchHit, SearchQuery
from pipeline.testing.in_memory import InMemorySearch, Row
from streams.settings.model import Settings


class InstantSearch:
    """Answers at once with as many hits as are asked for; the text of a query can tell it to misbehave."""

    async def start(self) -> None:
        """Do nothing: nothing is needed."""

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Return hits of four documents; `hang` never returns, `boom` raises, `none` finds nothing."""
        del timeout_s
        if "hang" in query.text:
            await asyncio.Event().wait()
        if "boom" in query.text:
            raise KeyError(query.text)
        if "none" in query.text:
            return []
        return [
            SearchHit(
                id=number,
                content=f"{query.text}, passage {number}",
                metadata={"docId": f"doc{number % 4}", "chunkIndex": number},
                score=1 / (number + 1),
            )
            for number in range(query.limit)
        ]

    async def close(self) -> None:
        """Release nothing: nothing is held."""


def instant(settings: Settings) -> InstantSearch:
    """Make the port; needs no setting."""
    del settings
    return InstantSearch()


def two_rows(settings: Settings) -> InMemorySearch:
    """Make a port over two rows of two dimensions."""
    del settings
    return InMemorySearch(
        [
            Row(id="1", content="north", metadata={"docId": "a", "chunkIndex": 0}, vector=(0.0, 1.0)),
            Row(id="2", content="east", metadata={"docId": "b", "chunkIndex": 0}, vector=(1.0, 0.0)),
        ]
    )
