"""Writing chunks into a collection of Milvus or Milvus Lite."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from pipeline.adapters.milvus_client import DataType, LoadState, MilvusClient, exceptions
from pipeline.adapters.milvus_collection import MilvusCollection, check_dimension, read_shape
from pipeline.adapters.milvus_errors import ENGINE_ERRORS, explain, is_missing, quiet_client_logs
from pipeline.adapters.milvus_filter import filter_expression, string_literal
from pipeline.errors import ConfigurationError
from pipeline.model import Condition, Vector
from streams.indexing.chunks import Chunk
from streams.indexing.documents import MAX_BYTES

CONNECT_TIMEOUT_S = 10.0
CALL_TIMEOUT_S = 60.0

_DOCUMENTS_A_QUERY = 100
_KEYS_A_DELETE = 1_000

T = TypeVar("T")


class MilvusIndex:
    """A collection that chunks are written into; `async with` opens and closes it.

    Its rows have the evidence key as primary key, so writing a chunk again changes nothing. It uses the
    client that blocks, in threads: the other cannot create a collection with an index in Milvus Lite.
    """

    def __init__(self, collection: MilvusCollection, *, dimension: int) -> None:
        """Initialize with the collection; nothing is opened.

        Args:
            collection: Where it is and what its fields are called.
            dimension: Length of the vectors that will be written.
        """
        self._collection = collection
        self._client: Any = None
        self.dimension = dimension

    async def __aenter__(self) -> Self:
        """Connect, and create the collection if it is missing.

        Raises:
            ConfigurationError: Milvus cannot be used, or the collection has another dimension or other fields
                than this index writes.
        """
        if self._collection.metadata_layout != "field":
            raise ConfigurationError(
                f"milvus.metadata-layout = {self._collection.metadata_layout}: must be field, indexing writes"
                " one JSON field"
            )
        quiet_client_logs()
        self._client = await asyncio.to_thread(self._connect)
        try:
            await self._prepare()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self._close()

    async def write(self, chunks: Sequence[Chunk], vectors: Sequence[Vector]) -> None:
        """Write chunks with their vectors, over those that have the same keys.

        Args:
            chunks: At most some hundreds.
            vectors: One a chunk, in their order.

        Raises:
            ConfigurationError: Milvus refuses or fails.
        """
        rows = [self._row(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]
        name = self._collection.collection
        await self._call(self._client.upsert, name, rows, timeout=CALL_TIMEOUT_S)

    async def delete_stale(self, documents: Sequence[str], keys: Collection[str]) -> int:
        """Delete the rows of documents that are not among those just written.

        Args:
            documents: Ids of the documents that were written in full.
            keys: Primary keys of their chunks.

        Returns:
            How many rows are gone.

        Raises:
            ConfigurationError: Milvus refuses or fails.
        """
        stale = [
            key
            for group in _groups(documents, _DOCUMENTS_A_QUERY)
            for key in await self._call(self._keys_of, group)
            if key not in keys
        ]
        for group in _groups(stale, _KEYS_A_DELETE):
            await self._call(self._delete, group)
        return len(stale)

    async def settle(self) -> int:
        """Wait until searches see what was written.

        Returns:
            How many rows the collection has.

        Raises:
            ConfigurationError: Milvus refuses or fails.
        """
        return await self._call(self._count)

    async def _prepare(self) -> None:
        description = await self._call(self._description)
        if description is None:
            await self._call(self._create)
        else:
            self._check(description)
            await self._call(self._load)

    async def _close(self) -> None:
        await asyncio.to_thread(self._client.close)

    async def _call(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        try:
            return await asyncio.to_thread(function, *arguments, **options)
        except ENGINE_ERRORS as error:
            raise ConfigurationError(f"Milvus at {self._collection.address}: {explain(error)}") from error

    def _connect(self) -> Any:
        wanted = self._collection
        try:
            return MilvusClient(**wanted.client_options(timeout_s=CONNECT_TIMEOUT_S))
        except (exceptions.ConnectionConfigException, ValueError) as error:
            raise ConfigurationError(wanted.cannot_open) from error
        except OSError as error:
            raise ConfigurationError(f"{wanted.ca_file} cannot be read: {error.strerror}") from error
        except ENGINE_ERRORS as error:
            raise ConfigurationError(f"Milvus at {wanted.address}: {explain(error)}") from error

    def _description(self) -> dict[str, Any] | None:
        try:
            return dict(self._client.describe_collection(self._collection.collection, timeout=CALL_TIMEOUT_S))
        except ENGINE_ERRORS as error:
            if is_missing(error):
                return None
            raise

    def _create(self) -> None:
        names = self._collection
        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(names.id_field, DataType.VARCHAR, is_primary=True, max_length=MAX_BYTES)
        schema.add_field(names.vector_field, DataType.FLOAT_VECTOR, dim=self.dimension)
        schema.add_field(names.content_field, DataType.VARCHAR, max_length=MAX_BYTES)
        schema.add_field(names.metadata_field, DataType.JSON)
        index = MilvusClient.prepare_index_params()
        index.add_index(
            names.vector_field,
            index_type="HNSW",
            metric_type="COSINE",
            params={"M": 16, "efConstruction": 200},
        )
        self._client.create_collection(
            names.collection, schema=schema, index_params=index, timeout=CALL_TIMEOUT_S
        )

    def _check(self, description: dict[str, Any]) -> None:
        names = self._collection
        check_dimension(read_shape(description, names), names, self.dimension)
        types = {each["name"]: each["type"] for each in description["fields"]}
        written = {
            names.id_field: DataType.VARCHAR,
            names.vector_field: DataType.FLOAT_VECTOR,
            names.content_field: DataType.VARCHAR,
            names.metadata_field: DataType.JSON,
        }
        if types != written:
            wanted = ", ".join(f"{name} {kind.name}" for name, kind in written.items())
            found = ", ".join(f"{name} {DataType(kind).name}" for name, kind in types.items())
            raise ConfigurationError(
                f"collection {names.collection}: the index writes {wanted}; it has {found}"
            )

    def _load(self) -> None:
        name = self._collection.collection
        if self._client.get_load_state(name, timeout=CALL_TIMEOUT_S)["state"] != LoadState.Loaded:
            self._client.load_collection(name, timeout=CALL_TIMEOUT_S)

    def _row(self, chunk: Chunk, vector: Vector) -> dict[str, object]:
        names = self._collection
        return {
            names.id_field: chunk.key,
            names.vector_field: list(vector),
            names.content_field: chunk.content,
            names.metadata_field: chunk.metadata,
        }

    def _keys_of(self, documents: Sequence[str]) -> list[str]:
        names = self._collection
        expression = filter_expression(
            [Condition(field="docId", any_of=tuple(documents))],
            layout="field",
            metadata_field=names.metadata_field,
        )
        rows = self._client.query(
            names.collection,
            filter=expression,
            output_fields=[names.id_field],
            consistency_level="Strong",
            timeout=CALL_TIMEOUT_S,
        )
        return [row[names.id_field] for row in rows]

    def _delete(self, keys: Sequence[str]) -> None:
        names = self._collection
        # The client's own `ids` puts keys between quotes as they are.
        listed = ", ".join(map(string_literal, keys))
        self._client.delete(
            names.collection, filter=f"{names.id_field} in [{listed}]", timeout=CALL_TIMEOUT_S
        )

    def _count(self) -> int:
        # With this consistency Milvus answers once it has taken in every write before, and what a node has
        # taken in, its later searches see, whatever their consistency.
        rows = self._client.query(
            self._collection.collection,
            filter="",
            output_fields=["count(*)"],
            consistency_level="Strong",
            timeout=CALL_TIMEOUT_S,
        )
        return int(rows[0]["count(*)"])


def _groups(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
