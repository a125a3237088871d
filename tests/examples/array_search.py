"""A search port over a numpy array: a complete example of `search.port: package.module:factory`.

`SEARCH_PORT=tests.examples.array_search:create` makes a worker search the chunks of the file that
`ARRAY_FILE` names: JSON Lines with `docId`, `chunkIndex`, `content`, `vector` and any further metadata.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import orjson

from pipeline.adapters.conditions import predicate
from pipeline.errors import ConfigurationError, SearchRejected
from pipeline.model import SearchHit, SearchQuery, Vector
from streams.settings.model import Settings

Floats: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One line of the file."""

    id: str | int
    content: str
    metadata: Mapping[str, object]
    vector: Vector


class ArraySearch:
    """Compares a query with every chunk by cosine."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        """Search these chunks; among equals the earlier is better."""
        self._chunks = chunks
        self._unit: Floats = np.zeros((0, 0))

    async def start(self) -> None:
        """Build the matrix, one row a chunk, each of length 1.

        Raises:
            ConfigurationError: The vectors are not of one dimension, or one of them is zero.
        """
        dimensions = {len(chunk.vector) for chunk in self._chunks}
        if len(dimensions) != 1:
            raise ConfigurationError(f"vectors must be of one dimension, not of {sorted(dimensions)}")
        vectors = np.array([chunk.vector for chunk in self._chunks], dtype=np.float64)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not lengths.all():
            raise ConfigurationError(f"line {int(np.argmin(lengths)) + 1} has a vector of length 0")
        self._unit = vectors / lengths

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Return the nearest chunks for which every condition holds, best first, at most `query.limit`."""
        [hits] = await self.search_many([query], timeout_s=timeout_s)
        return hits

    async def search_many(
        self,
        queries: Sequence[SearchQuery],
        *,
        timeout_s: float,  # noqa: ARG002 - nothing here waits
    ) -> Sequence[Sequence[SearchHit]]:
        """Return the hits of each query, in order. A port that has this method shares calls among requests.

        Raises:
            SearchRejected: A query has no vector, or one of another dimension.
        """
        # Each query by itself: a product of two matrices rounds differently for different numbers of queries,
        # and the same question must have the same answer.
        return [self._hits(query, self._unit @ self._direction(query)) for query in queries]

    async def close(self) -> None:
        """Release nothing: the array goes with the port."""

    def _direction(self, query: SearchQuery) -> Floats:
        if query.vector is None:
            raise SearchRejected("the query has no vector")
        dimension = self._unit.shape[1]
        if len(query.vector) != dimension:
            raise SearchRejected(f"the query has {len(query.vector)} dimensions, the array has {dimension}")
        vector = np.array(query.vector, dtype=np.float64)
        return vector / (np.linalg.norm(vector) or 1.0)

    def _hits(self, query: SearchQuery, scores: Floats) -> list[SearchHit]:
        best_first = np.argsort(-scores, kind="stable").tolist()
        meets = predicate(query.conditions)
        hits = (
            SearchHit(
                id=chunk.id,
                content=chunk.content,
                metadata=chunk.metadata,
                score=float(scores[index]),
                distance=float(scores[index]),
                metric="COSINE",
            )
            for index in best_first
            if meets((chunk := self._chunks[index]).metadata)
        )
        return list(islice(hits, query.limit))


def create(settings: Settings) -> ArraySearch:
    """Return the port over the chunks in the file that `ARRAY_FILE` names; no setting is needed."""
    del settings
    lines = Path(os.environ["ARRAY_FILE"]).read_bytes().splitlines()
    return ArraySearch([_chunk(number, orjson.loads(line)) for number, line in enumerate(lines, start=1)])


def _chunk(number: int, fields: dict[str, object]) -> Chunk:
    content, vector = fields.pop("content"), fields.pop("vector")
    if not isinstance(content, str) or not isinstance(vector, list):
        raise ConfigurationError(f"line {number}: content must be a string, and vector a list of numbers")
    return Chunk(id=number, content=content, metadata=fields, vector=tuple(map(float, vector)))
