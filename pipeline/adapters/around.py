"""Ports around other ports: what every decorator passes on unchanged."""

from __future__ import annotations

from pipeline.ports import EmbeddingPort, KnowledgeSearchPort


class AroundSearch:
    """Starts and closes with the search port behind it."""

    def __init__(self, search: KnowledgeSearchPort) -> None:
        """Initialize with the port behind."""
        self._search = search

    async def start(self) -> None:
        """Start the port behind."""
        await self._search.start()

    async def close(self) -> None:
        """Close the port behind."""
        await self._search.close()


class AroundEmbedder:
    """Starts and closes with the embedder behind it, and has its dimension."""

    def __init__(self, embedder: EmbeddingPort) -> None:
        """Initialize with the embedder behind."""
        self._embedder = embedder

    @property
    def dimension(self) -> int:
        """Length of the vectors; known once started."""
        return self._embedder.dimension

    async def start(self) -> None:
        """Start the embedder behind."""
        await self._embedder.start()

    async def close(self) -> None:
        """Close the embedder behind."""
        await self._embedder.close()
