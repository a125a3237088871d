"""Dense vector search in Milvus or Milvus Lite."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.adapters.conditions import satisfies
from pipeline.adapters.milvus_client import AsyncMilvusClient, LoadState, exceptions
from pipeline.adapters.milvus_collection import CollectionShape, MilvusCollection, check_dimension, read_shape
from pipeline.adapters.milvus_errors import (
    ENGINE_ERRORS,
    explain,
    is_missing,
    quiet_client_logs,
    search_error,
)
from pipeline.adapters.milvus_filter import filter_expression
from pipeline.adapters.milvus_rows import hits_of
from pipeline.errors import ConfigurationError, SearchRejected, SearchTimeout
from pipeline.model import Condition, SearchHit, SearchQuery, Vector
from pipeline.ports import IndexDescription

__all__ = ["MilvusCollection", "MilvusDenseSearch"]

START_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0

METRICS = ("COSINE", "IP", "L2")

# Retries have one owner, and it is not the client: with a `timeout` it would go on for all of it, and without
# one 75 times. So it is given none, and the time is kept here.
_ONCE: Mapping[str, Any] = {"retry_times": 0, "retry_on_rate_limit": False}


class MilvusDenseSearch:
    """A search port over one collection. Searches are one call of the engine, and no call is repeated."""

    def __init__(self, collection: MilvusCollection, *, expected_dimension: int | None = None) -> None:
        """Initialize with the collection; nothing is opened.

        Args:
            collection: Where it is and what its fields are called.
            expected_dimension: Dimension of the embedder's vectors, which `start` compares with the
                collection's; `None` where there is no embedder.
        """
        self._collection = collection
        self._expected_dimension = expected_dimension
        self._client: Any = None
        self._shape: CollectionShape | None = None
        self._metric = ""
        self._rows: int | None = None

    @property
    def dimension(self) -> int:
        """Length of the collection's vectors, once started."""
        return self._started().dimension

    @property
    def metric(self) -> str:
        """Metric of the collection's index, once started: `COSINE`, `IP` or `L2`."""
        self._started()
        return self._metric

    @property
    def index(self) -> IndexDescription:
        """The collection as it was at the start, with the number of its rows where the engine told it."""
        shape = asdict(self._started())
        traits = {**shape, "metric": self._metric, "rows": self._rows}
        return IndexDescription(collection=self._collection.collection, traits=traits)

    async def start(self) -> None:
        """Connect and check that the collection can be searched; loads it if it is not loaded.

        Raises:
            ConfigurationError: One line saying what is missing or does not fit; after 10 s at the latest.
        """
        quiet_client_logs()
        address = self._collection.address
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._open()
                self._shape = await self._read_shape()
                self._metric = await self._read_metric()
                await self._load()
                self._rows = await self._count_rows()
        except TimeoutError as error:
            raise ConfigurationError(
                f"Milvus at {address}: not ready to search within {START_TIMEOUT_S:g} s"
            ) from error
        except ENGINE_ERRORS as error:
            raise ConfigurationError(f"Milvus at {address}: {explain(error)}") from error

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Find the rows whose vectors are nearest to the query's.

        Args:
            query: Its text is not used.
            timeout_s: Seconds in which to answer.

        Returns:
            0 to `query.limit` hits, best first. With COSINE and IP the score is the engine's figure, with L2
            it is `1 / (1 + distance)`. Where rows hold numbers and booleans in one field, a condition on it
            may leave fewer hits than there are rows: Milvus Lite takes one for the other, and what it found
            in error is taken out.

        Raises:
            SearchUnavailable: The engine cannot be reached, is failing, or does not serve the collection now.
            SearchTimeout: No answer within `timeout_s`.
            SearchRejected: The query has no vector or one of another dimension, or the filter cannot be
                answered.
        """
        [hits] = await self.search_many([query], timeout_s=timeout_s)
        return hits

    async def search_many(
        self, queries: Sequence[SearchQuery], *, timeout_s: float
    ) -> Sequence[Sequence[SearchHit]]:
        """Answer queries of one `limit` and the same conditions in one call of the engine.

        Args:
            queries: At least one.
            timeout_s: Seconds in which to answer.

        Returns:
            The hits of each query, in order, as `search` gives them.

        Raises:
            SearchUnavailable: As with `search`.
            SearchTimeout: As with `search`.
            SearchRejected: One of the queries, or the filter they share, cannot be answered.
        """
        shape = self._started()
        vectors = [_checked_vector(query.vector, shape.dimension) for query in queries]
        conditions = queries[0].conditions
        expression = self._expression(conditions, shape)
        try:
            async with asyncio.timeout(timeout_s):
                found = await self._client.search(
                    self._collection.collection,
                    data=[list(vector) for vector in vectors],
                    anns_field=self._collection.vector_field,
                    filter=expression,
                    limit=queries[0].limit,
                    output_fields=self._output_fields(shape),
                    search_params={
                        "metric_type": self._metric,
                        "params": dict(self._collection.search_params),
                    },
                    **_ONCE,
                )
        except TimeoutError as error:
            raise SearchTimeout("the search did not answer in time") from error
        except ENGINE_ERRORS as error:
            raise search_error(error) from error
        # Where nothing at all is found, the engine answers with nothing.
        answers = [hits_of(rows, self._collection, self._metric) for rows in found] or [[] for _ in queries]
        if not conditions:
            return answers
        return [[hit for hit in hits if _holds(hit, conditions)] for hits in answers]

    async def close(self) -> None:
        """Close the connection. The embedded engine of Milvus Lite runs until the process ends."""
        if self._client is not None:
            await self._client.close()

    def _started(self) -> CollectionShape:
        if self._shape is None:
            raise RuntimeError("the search has not been started")
        return self._shape

    async def _open(self) -> None:
        if self._collection.ca_file is not None:
            await _check_readable(Path(self._collection.ca_file))
        options = self._collection.client_options(timeout_s=CONNECT_TIMEOUT_S)
        try:
            # The client connects on its first call, in this loop; but for Milvus Lite its constructor starts
            # the engine, which takes a second.
            self._client = await asyncio.to_thread(AsyncMilvusClient, **options)
        except (exceptions.ConnectionConfigException, ValueError) as error:
            raise ConfigurationError(self._collection.cannot_open) from error

    async def _read_shape(self) -> CollectionShape:
        wanted = self._collection
        try:
            description = await self._client.describe_collection(wanted.collection, **_ONCE)
        except ENGINE_ERRORS as error:
            if not is_missing(error):
                raise
            raise ConfigurationError(
                f"Milvus at {wanted.address}: no collection {wanted.collection} in database {wanted.database}"
            ) from error
        shape = read_shape(description, wanted)
        if self._expected_dimension is not None:
            check_dimension(shape, wanted, self._expected_dimension)
        return shape

    async def _read_metric(self) -> str:
        collection, field = self._collection.collection, self._collection.vector_field
        names = await self._client.list_indexes(collection, field_name=field, **_ONCE)
        if not names:
            raise ConfigurationError(f"collection {collection}: field {field} has no index")
        index = await self._client.describe_index(collection, names[0], **_ONCE)
        metric = str(index.get("metric_type")).upper()
        if metric not in METRICS:
            raise ConfigurationError(
                f"collection {collection}: the index of field {field} has metric {metric},"
                f" must be one of {', '.join(METRICS)}"
            )
        return metric

    async def _load(self) -> None:
        collection = self._collection.collection
        state = await self._client.get_load_state(collection, **_ONCE)
        if state["state"] != LoadState.Loaded:
            await self._client.load_collection(collection, **_ONCE)

    async def _count_rows(self) -> int | None:
        try:
            stats = await self._client.get_collection_stats(self._collection.collection, **_ONCE)
        except ENGINE_ERRORS:  # only recordings want to know
            return None
        return int(stats["row_count"])

    def _expression(self, conditions: Sequence[Condition], shape: CollectionShape) -> str:
        if not conditions:
            return ""
        if not shape.filterable:
            raise SearchRejected("the collection keeps its metadata as text, which cannot be filtered")
        if self._collection.metadata_layout == "flat" and not shape.dynamic:
            for condition in conditions:
                if condition.field not in shape.declared:
                    raise SearchRejected(f"the collection has no field {condition.field!r}")
        return filter_expression(
            conditions,
            layout=self._collection.metadata_layout,
            metadata_field=self._collection.metadata_field,
            declared=shape.declared,
        )

    def _output_fields(self, shape: CollectionShape) -> list[str]:
        """Name the fields to return, never the vector: `*` would, and Milvus 2.3 then loses 64-bit ids."""
        if self._collection.metadata_layout == "field":
            return [self._collection.content_field, self._collection.metadata_field]
        dynamic = ("$meta",) if shape.dynamic else ()
        return [self._collection.content_field, *shape.declared, *dynamic]


def _checked_vector(vector: Vector | None, dimension: int) -> Vector:
    if vector is None:
        raise SearchRejected(
            "the query has no vector: the request brings none and embedding.provider is none"
        )
    if len(vector) != dimension:
        raise SearchRejected(
            f"the query's vector has {len(vector)} dimensions, the collection's have {dimension}"
        )
    return vector


def _holds(hit: SearchHit, conditions: Sequence[Condition]) -> bool:
    return isinstance(hit.metadata, Mapping) and satisfies(hit.metadata, conditions)


async def _check_readable(file: Path) -> None:
    try:
        await asyncio.to_thread(file.read_bytes)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
