"""Dense vector search in Milvus or Milvus Lite."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipeline.adapters.milvus_client import AsyncMilvusClient, LoadState, check_pymilvus, exceptions
from pipeline.adapters.milvus_collection import (
    CollectionShape,
    MilvusCollection,
    check_dimension,
    check_tenant_field,
    read_shape,
)
from pipeline.adapters.milvus_conditions import row_filter
from pipeline.adapters.milvus_errors import (
    ENGINE_ERRORS,
    explain,
    is_missing,
    quiet_client_logs,
    search_error,
)
from pipeline.adapters.milvus_rows import hits_of
from pipeline.adapters.milvus_widths import widened
from pipeline.errors import ConfigurationError, SearchError, SearchFailed, SearchRejected, SearchTimeout
from pipeline.model import SearchHit, SearchQuery, Vector
from pipeline.ports import IndexDescription

__all__ = ["MilvusCollection", "MilvusDenseSearch"]

START_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0
FIRST_SEARCH_TIMEOUT_S = 2.0

METRICS = ("COSINE", "IP", "L2")

PROBE_LIMIT = 10
"""Width of the search that is known to be good."""

# Retries have one owner, and it is not the client: with a `timeout` it would go on for all of it, and without
# one 75 times. So it is given none, and the time is kept here.
_ONCE: Mapping[str, Any] = {"retry_times": 0, "retry_on_rate_limit": False}


class MilvusDenseSearch:
    """A search port over one collection. Searches are one call of the engine, and no call is repeated."""

    def __init__(
        self,
        collection: MilvusCollection,
        *,
        expected_dimension: int | None = None,
        tenant_field: str | None = None,
    ) -> None:
        """Initialize with the collection; nothing is opened.

        Args:
            collection: Where it is and what its fields are called.
            expected_dimension: Dimension of the embedder's vectors, which `start` compares with the
                collection's; `None` where there is no embedder.
            tenant_field: The metadata field that keeps tenants apart, which `start` checks; `None` where
                nothing does.
        """
        self._collection = collection
        self._expected_dimension = expected_dimension
        self._tenant_field = tenant_field
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
        del shape["types"]  # recordings tell indexes apart by the rest
        traits = {**shape, "metric": self._metric, "rows": self._rows}
        return IndexDescription(collection=self._collection.collection, traits=traits)

    async def start(self) -> None:
        """Connect and check that the collection can be searched; loads it if it is not loaded.

        An engine that cannot search at the moment for reasons of its own does not stop the start.

        Raises:
            ConfigurationError: One line saying what is missing, does not fit or is refused; after 10 s at
                the latest.
        """
        check_pymilvus()
        quiet_client_logs()
        address = self._collection.address
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._open()
                self._shape = await self._read_shape()
                self._metric = await self._read_metric()
                await self._load()
                self._rows = await self._count_rows()
                await self._check_search_params()
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
            SearchUnavailable: The engine cannot be reached, or does not serve the collection now.
            SearchFailed: The engine failed, or refuses the query in words that are not known.
            SearchTimeout: No answer within `timeout_s`.
            SearchRejected: The query has no vector or one of another dimension, or the engine refuses its
                filter, its width or the search parameters.
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
            SearchFailed: As with `search`.
            SearchTimeout: As with `search`.
            SearchRejected: One of the queries, or the filter they share, cannot be answered.
        """
        shape = self._started()
        vectors = [_checked_vector(query.vector, shape.dimension) for query in queries]
        wanted = row_filter(queries[0].conditions, self._collection, shape)
        if not wanted.satisfiable:
            return [[] for _ in queries]
        found = await self._ask(
            [list(vector) for vector in vectors],
            limit=queries[0].limit,
            expression=wanted.expression,
            search_params=self._collection.search_params,
            timeout_s=timeout_s,
        )
        # Where nothing at all is found, the engine answers with nothing.
        answers = [hits_of(rows, self._collection, self._metric) for rows in found] or [[] for _ in queries]
        return [wanted.matching(hits) for hits in answers]

    async def probe(self, *, timeout_s: float) -> None:
        """Search for a few rows without a filter: refused only if nothing can be searched.

        Args:
            timeout_s: Seconds in which to answer.

        Raises:
            SearchError: There was no answer.
        """
        await self._ask_for(PROBE_LIMIT, self._collection.search_params, timeout_s=timeout_s)

    async def refusal_of_width(self, limit: int, *, timeout_s: float) -> str | None:
        """Return why the engine refuses searches of a width, or `None` if it does not say that it does.

        Args:
            limit: Most hits to ask for.
            timeout_s: Seconds in which to answer.
        """
        try:
            await self._ask_for(limit, self._collection.search_params, timeout_s=timeout_s)
        except SearchRejected as error:
            return str(error)
        except SearchError:
            return None
        return None

    async def close(self) -> None:
        """Close the connection. The embedded engine of Milvus Lite runs until the process ends."""
        if self._client is not None:
            await self._client.close()

    async def _ask(
        self,
        vectors: Sequence[Sequence[float]],
        *,
        limit: int,
        expression: str,
        search_params: Mapping[str, object],
        timeout_s: float,
    ) -> Any:
        collection = self._collection
        try:
            async with asyncio.timeout(timeout_s):
                return await self._client.search(
                    collection.collection,
                    data=vectors,
                    anns_field=collection.vector_field,
                    filter=expression,
                    limit=limit,
                    output_fields=self._output_fields(self._started()),
                    search_params={"metric_type": self._metric, "params": widened(search_params, limit)},
                    **_ONCE,
                )
        except TimeoutError as error:
            raise SearchTimeout("the search did not answer in time") from error
        except ENGINE_ERRORS as error:
            raise search_error(error, secrets=collection.secrets) from error

    async def _ask_for(self, limit: int, search_params: Mapping[str, object], *, timeout_s: float) -> None:
        """Search for rows near a vector that every collection takes."""
        vector = [1.0, *[0.0] * (self._started().dimension - 1)]
        await self._ask(
            [vector], limit=limit, expression="", search_params=search_params, timeout_s=timeout_s
        )

    async def _check_search_params(self) -> None:
        """Search once.

        Raises:
            ConfigurationError: The engine refuses the search parameters, whatever the question.
        """
        try:
            await self.probe(timeout_s=FIRST_SEARCH_TIMEOUT_S)
        except SearchRejected as error:
            raise self._refused(str(error)) from error
        except SearchFailed as error:
            if await self._answers_without_search_params():
                raise self._refused(error.refusal or str(error)) from error
        except SearchError:
            return

    async def _answers_without_search_params(self) -> bool:
        try:
            await self._ask_for(PROBE_LIMIT, {}, timeout_s=FIRST_SEARCH_TIMEOUT_S)
        except SearchError:
            return False
        return True

    def _refused(self, why: str) -> ConfigurationError:
        wanted = self._collection
        params = dict(wanted.search_params)
        return ConfigurationError(
            f"collection {wanted.collection}: with milvus.search-params = {params} {why}"
        )

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
        if self._tenant_field is not None:
            check_tenant_field(shape, wanted, self._tenant_field)
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


async def _check_readable(file: Path) -> None:
    try:
        await asyncio.to_thread(file.read_bytes)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
