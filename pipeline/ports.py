"""What the pipeline needs from outside: a search and, unless requests bring vectors, an embedder.

An adapter is anything with these methods; it inherits nothing. `pipeline.testing` holds the suites that every
adapter passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pipeline.model import SearchHit, SearchQuery, Vector


class KnowledgeSearchPort(Protocol):
    """Searches a knowledge base. Many searches run at once on one event loop."""

    async def start(self) -> None:
        """Connect and check that searches can work, once, inside the running loop.

        Raises:
            ConfigurationError: One line saying what is missing or does not fit.
        """

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Find what is nearest to a query.

        Args:
            query: Text, embedding, width and conditions.
            timeout_s: Seconds in which to answer; the caller cancels the search when they are over.

        Returns:
            0 to `query.limit` hits, best first, each with a score of which higher is better. Every condition
            holds of every hit: a row without the field is not a hit.

        Raises:
            SearchUnavailable: The engine cannot be reached or is failing.
            SearchFailed: The same, or the engine refuses this question; see `CanBeProbed`.
            SearchTimeout: The engine gave up in time.
            SearchRejected: The engine refuses this question and will refuse it again.
        """

    async def close(self) -> None:
        """Release what `start` took. Called once, also after a `start` that failed."""


@runtime_checkable
class SearchesManyAtOnce(KnowledgeSearchPort, Protocol):
    """A search port that answers many queries in one call: concurrent searches then share calls."""

    async def search_many(
        self, queries: Sequence[SearchQuery], *, timeout_s: float
    ) -> Sequence[Sequence[SearchHit]]:
        """Answer each query as `search` would.

        Args:
            queries: At least one, all of one `limit` and the same conditions.
            timeout_s: Seconds in which to answer; the caller cancels the call when they are over.

        Returns:
            The hits of each query, in order.

        Raises:
            SearchUnavailable: The engine cannot be reached or is failing.
            SearchTimeout: The engine gave up in time.
            SearchRejected: The engine refuses one of the questions; the caller finds out which.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDescription:
    """What a search port searches.

    Attributes:
        collection: Its name.
        traits: Whatever tells it from another, or from what it was: schema, metric, number of rows.
    """

    collection: str
    traits: Mapping[str, object]


@runtime_checkable
class DescribesIndex(Protocol):
    """What a search port may have beside its methods: recordings then tell what was searched."""

    @property
    def index(self) -> IndexDescription:
        """What is searched, as it was when the port started."""


@runtime_checkable
class CanBeProbed(Protocol):
    """What a search port or an embedder may have beside its methods: failures are then tested.

    A port without it is taken at its word: what it raises as `SearchUnavailable` or `SearchTimeout` counts.
    """

    async def probe(self, *, timeout_s: float) -> None:
        """Ask a cheap question that is known to be good.

        Args:
            timeout_s: Seconds in which to answer.

        Raises:
            SearchError: It was not answered.
        """


class EmbeddingPort(Protocol):
    """Turns texts into vectors. Many calls run at once on one event loop."""

    @property
    def dimension(self) -> int:
        """Length of the vectors; known once started."""

    async def start(self) -> None:
        """Load or connect, once, inside the running loop.

        Raises:
            ConfigurationError: One line saying what is missing or does not fit.
        """

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Vector]:
        """Embed texts.

        Args:
            texts: 1 or more, none of them blank.
            timeout_s: Seconds in which to answer.

        Returns:
            One vector a text, in order, all of one dimension.

        Raises:
            SearchUnavailable: The embedder cannot be reached or is failing.
            SearchTimeout: The embedder gave up in time.
            SearchRejected: The embedder refuses these texts and will refuse them again.
        """

    async def close(self) -> None:
        """Release what `start` took. Called once, also after a `start` that failed."""
