"""What the tests of both kinds of Milvus share: collections to search, and the contract over one."""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeAlias

import pytest
from pymilvus import DataType, MilvusClient

from pipeline.adapters.coalescing import coalescing
from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.adapters.milvus_dense import MilvusDenseSearch
from pipeline.adapters.milvus_errors import quiet_client_logs
from pipeline.errors import ConfigurationError, SearchRejected
from pipeline.model import SearchHit, SearchQuery
from pipeline.testing.in_memory import Row
from pipeline.testing.search_port import DIMENSION, TIMEOUT_S, SearchPortContract, asking, known_rows

Metadata: TypeAlias = Literal["json", "text", "dynamic", "declared"]
"""One JSON field; one field of JSON text; dynamic fields; or fields of the schema: docId and chunkIndex."""

DECLARED = {"docId": DataType.VARCHAR, "chunkIndex": DataType.INT64}
_TIMEOUT_S = 30.0


@contextmanager
def connected(collection: MilvusCollection) -> Iterator[Any]:
    """Yield a client to prepare things with."""
    quiet_client_logs()
    client = MilvusClient(**collection.client_options(timeout_s=_TIMEOUT_S))
    try:
        yield client
    finally:
        client.close()


def unique_name() -> str:
    """Return a name that no other test has."""
    return f"test_{uuid.uuid4().hex}"


@contextmanager
def collection_of(
    uri: str,
    rows: Sequence[Row],
    *,
    metric: str = "COSINE",
    metadata: Metadata = "json",
    **access: str,
) -> Iterator[MilvusCollection]:
    """Yield a collection that holds the rows, and drop it; `access`: `token`, `ca_file` and `database`."""
    layout: Literal["field", "flat"] = "field" if metadata in ("json", "text") else "flat"
    collection = MilvusCollection(
        uri=uri,
        collection=unique_name(),
        id_field="pk",
        vector_field="embedding",
        content_field="text",
        metadata_layout=layout,
        metadata_field="meta",
        token=access.get("token"),
        ca_file=access.get("ca_file"),
        database=access.get("database", "default"),
    )
    with connected(collection) as client:
        _create(client, collection, rows, metric=metric, metadata=metadata)
        try:
            yield collection
        finally:
            client.drop_collection(collection.collection, timeout=_TIMEOUT_S)


@contextmanager
def collection_with_array(uri: str) -> Iterator[MilvusCollection]:
    """Yield a flat collection of one row with an ARRAY field `tags`, and drop it afterwards."""
    schema = MilvusClient.create_schema(auto_id=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=512)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIMENSION)
    schema.add_field("content", DataType.VARCHAR, max_length=512)
    schema.add_field("tags", DataType.ARRAY, element_type=DataType.INT64, max_capacity=8)
    index = MilvusClient.prepare_index_params()
    index.add_index("vector", index_type="FLAT", metric_type="COSINE")
    collection = MilvusCollection(uri=uri, collection=unique_name(), metadata_layout="flat")
    with connected(collection) as client:
        name = collection.collection
        client.create_collection(name, schema=schema, index_params=index, timeout=_TIMEOUT_S)
        row = {"id": "1", "vector": [1.0] * DIMENSION, "content": "one", "tags": [1, 2]}
        client.upsert(name, [row], timeout=_TIMEOUT_S)
        client.query(name, filter="", output_fields=["count(*)"], consistency_level="Strong")
        try:
            yield collection
        finally:
            client.drop_collection(name, timeout=_TIMEOUT_S)


@asynccontextmanager
async def searching(
    collection: MilvusCollection, *, tenant_field: str | None = None
) -> AsyncIterator[MilvusDenseSearch]:
    """Yield a started port."""
    port = MilvusDenseSearch(collection, tenant_field=tenant_field)
    try:
        await port.start()
        yield port
    finally:
        await port.close()


async def refusal(
    collection: MilvusCollection, *, expected_dimension: int | None = None, tenant_field: str | None = None
) -> str:
    """Return the line with which a port refuses to start."""
    port = MilvusDenseSearch(collection, expected_dimension=expected_dimension, tenant_field=tenant_field)
    with pytest.raises(ConfigurationError) as caught:
        await port.start()
    await port.close()
    line = str(caught.value)
    assert "\n" not in line
    return line


class OverMilvus(SearchPortContract):
    """The contract over a collection of its own, at the address that the fixture `uri` gives."""

    metadata: ClassVar[Metadata] = "json"
    metric: ClassVar[str] = "COSINE"
    integer_ids: ClassVar[bool] = False

    @pytest.fixture(scope="class")
    @classmethod
    def rows(cls) -> Sequence[Row]:
        """Return the rows that are searched."""
        return known_rows(integer_ids=cls.integer_ids)

    @pytest.fixture(scope="class")
    @classmethod
    def collection(cls, uri: str, rows: Sequence[Row]) -> Iterator[MilvusCollection]:
        """Yield a collection with these rows."""
        with collection_of(uri, rows, metric=cls.metric, metadata=cls.metadata) as collection:
            yield collection

    @pytest.fixture
    async def port(self, collection: MilvusCollection) -> AsyncIterator[MilvusDenseSearch]:
        """Yield the started port."""
        async with searching(collection) as port:
            yield port

    async def test_probe_is_answered(self, port: MilvusDenseSearch) -> None:
        """It raises nothing while the collection can be searched."""
        await port.probe(timeout_s=TIMEOUT_S)

    async def test_searches_that_share_a_call_find_what_each_finds_alone(
        self, port: MilvusDenseSearch
    ) -> None:
        """A vector that is refused fails alone. Milvus Lite's scores may differ in the seventh digit."""
        queries = tilted_queries()
        alone = [await port.search(query, timeout_s=TIMEOUT_S) for query in queries]
        sharing = coalescing(port, max_batch_size=8, max_calls=4)
        *together, refused = await asyncio.gather(
            *(sharing.search(query, timeout_s=TIMEOUT_S) for query in queries),
            sharing.search(asking(vector=(1.0,), limit=5), timeout_s=TIMEOUT_S),
            return_exceptions=True,
        )
        assert isinstance(refused, SearchRejected)
        for one, other in zip(alone, together, strict=True):
            assert not isinstance(other, BaseException)
            assert [_without_score(hit) for hit in other] == [_without_score(hit) for hit in one]
            assert [hit.score for hit in other] == pytest.approx([hit.score for hit in one], abs=1e-6)


def tilted_queries() -> list[SearchQuery]:
    """Return queries that are equally near to no two rows."""
    angles = [(7 * number + 0.3) * math.pi / 100 for number in range(12)]
    return [asking(vector=(math.cos(angle), math.sin(angle), 0.0, 0.0), limit=5) for angle in angles]


def _without_score(hit: SearchHit) -> SearchHit:
    return replace(hit, score=None, distance=None)


def _create(
    client: Any, collection: MilvusCollection, rows: Sequence[Row], *, metric: str, metadata: Metadata
) -> None:
    name = collection.collection
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=metadata == "dynamic")
    if isinstance(rows[0].id, int):
        schema.add_field("pk", DataType.INT64, is_primary=True)
    else:
        schema.add_field("pk", DataType.VARCHAR, is_primary=True, max_length=512)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=DIMENSION)
    schema.add_field("text", DataType.VARCHAR, max_length=65_535)
    if metadata == "json":
        schema.add_field("meta", DataType.JSON)
    elif metadata == "text":
        schema.add_field("meta", DataType.VARCHAR, max_length=65_535)
    elif metadata == "declared":
        for field, kind in DECLARED.items():
            schema.add_field(field, kind, max_length=512)
    index = MilvusClient.prepare_index_params()
    index.add_index(
        "embedding", index_type="HNSW", metric_type=metric, params={"M": 16, "efConstruction": 200}
    )
    client.create_collection(name, schema=schema, index_params=index, timeout=_TIMEOUT_S)
    client.upsert(name, [_stored(row, metadata) for row in rows], timeout=_TIMEOUT_S)
    # Nothing is searched before every row is there.
    client.query(name, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=_TIMEOUT_S)


def _stored(row: Row, metadata: Metadata) -> Mapping[str, object]:
    stored: dict[str, object] = {"pk": row.id, "embedding": list(row.vector), "text": row.content}
    if metadata == "json":
        return {**stored, "meta": dict(row.metadata)}
    if metadata == "text":
        return {**stored, "meta": json.dumps(row.metadata)}
    if metadata == "declared":
        return {**stored, **{field: row.metadata[field] for field in DECLARED}}
    return {**stored, **row.metadata}
