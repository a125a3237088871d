"""Search ports for the benchmarks, as `search.port: package.module:factory` finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache

from pipeline.model import SearchHit, SearchQuery
from streams.recordings import recording
from streams.settings.model import Settings
from tests.benchmarks.hits import made_hits

SLOW_S = 0.02


class InstantSearch:
    """Answers at once, each width with the same hits, so that everything but the search is measured."""

    async def start(self) -> None:
        """Do nothing: there is nothing to connect to."""

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:  # noqa: ARG002
        """Return as many hits as asked for."""
        return hits_of(query.limit)

    async def close(self) -> None:
        """Do nothing: nothing is held."""


class SlowSearch(InstantSearch):
    """Takes 20 ms, so that the processor is not the limit."""

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Wait, then answer."""
        await asyncio.sleep(SLOW_S)
        return await super().search(query, timeout_s=timeout_s)


@cache
def hits_of(limit: int) -> tuple[SearchHit, ...]:
    """Return the hits of a width."""
    [path] = made_hits(1, limit)
    return recording.hits_of(path["hits"])


def instant(settings: Settings) -> InstantSearch:
    """Make the port; needs no setting."""
    del settings
    return InstantSearch()


def slow(settings: Settings) -> SlowSearch:
    """Make the port; needs no setting."""
    del settings
    return SlowSearch()
