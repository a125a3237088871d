"""Dense search in Milvus Lite: the contract for every layout and metric, and what `start` refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pymilvus import DataType, MilvusClient

from pipeline.adapters.milvus_collection import MilvusCollection, read_shape
from pipeline.adapters.milvus_dense import MilvusDenseSearch
from pipeline.errors import ConfigurationError, SearchRejected, SearchUnavailable
from pipeline.testing.in_memory import Row
from pipeline.testing.search_port import (
    DIMENSION,
    TIMEOUT_S,
    ConditionContract,
    asking,
    field_is,
    ids,
    known_rows,
    toward,
)
from tests.adapters.milvus import (
    DECLARED,
    Metadata,
    OverMilvus,
    collection_of,
    collection_with_array,
    connected,
    refusal,
    searching,
    unique_name,
)

FLAT: tuple[Metadata, ...] = ("dynamic", "declared")


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a file of Milvus Lite, open for the whole module."""
    return str(tmp_path_factory.mktemp("lite") / "rows.db")


class TestJsonField(OverMilvus, ConditionContract):
    """Metadata in one JSON field."""


class TestIntegerIds(OverMilvus):
    """Ids of 64 bits."""

    integer_ids = True


class TestJsonText(OverMilvus):
    """Metadata in one field of JSON text."""

    metadata = "text"

    async def test_condition_is_rejected(self, port: MilvusDenseSearch) -> None:
        """Text cannot be filtered, and a filter must never be left out."""
        with pytest.raises(SearchRejected, match="metadata as text"):
            await port.search(asking(field_is("docId", "doc-1")), timeout_s=TIMEOUT_S)


class TestDynamicFields(OverMilvus, ConditionContract):
    """Metadata in dynamic fields of the row."""

    metadata = "dynamic"


class TestInnerProduct(OverMilvus):
    """Metric IP."""

    metric = "IP"


class TestEuclidean(OverMilvus):
    """Metric L2."""

    metric = "L2"


@pytest.mark.parametrize(
    ("metric", "distances", "scores"),
    [
        ("COSINE", [1.0, 0.0, -1.0], [1.0, 0.0, -1.0]),
        ("IP", [2.0, 0.0, -2.0], [2.0, 0.0, -2.0]),
        ("L2", [1.0, 5.0, 9.0], [1 / 2, 1 / 6, 1 / 10]),
    ],
)
async def test_score_is_converted_for_l2_only(
    uri: str, metric: str, distances: list[float], scores: list[float]
) -> None:
    """Distance and metric are the engine's own; the score is the same figure, but for L2."""
    vectors = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (-1.0, 0.0, 0.0, 0.0))
    rows = [
        Row(id=str(index), content="x", metadata={}, vector=vector) for index, vector in enumerate(vectors)
    ]
    with collection_of(uri, rows, metric=metric) as collection:
        async with searching(collection) as port:
            query = asking(vector=(2.0, 0.0, 0.0, 0.0))
            hits = await port.search(query, timeout_s=TIMEOUT_S)
            assert port.metric == metric
            assert port.index.traits["metric"] == metric
            assert port.index.traits["rows"] == len(rows)
    assert [hit.id for hit in hits] == ["0", "1", "2"]
    assert [hit.distance for hit in hits] == pytest.approx(distances)
    assert [hit.score for hit in hits] == pytest.approx(scores)
    assert {hit.metric for hit in hits} == {metric}


async def test_fields_of_the_schema_are_metadata_and_can_be_filtered(uri: str) -> None:
    """With the flat layout declared fields need no dynamic ones, and unknown fields are refused by name."""
    rows = known_rows()
    with collection_of(uri, rows, metadata="declared") as collection:
        async with searching(collection) as port:
            [hit] = await port.search(
                asking(field_is("docId", "doc-1"), field_is("chunkIndex", 0.0)), timeout_s=TIMEOUT_S
            )
            assert hit.metadata == {field: rows[1].metadata[field] for field in DECLARED}
            with pytest.raises(SearchRejected, match="the collection has no field 'team'"):
                await port.search(asking(field_is("team", "blue")), timeout_s=TIMEOUT_S)
            with pytest.raises(
                SearchRejected, match=r"'chunkIndex' has type INT64, .* a number, not a string$"
            ):
                await port.search(asking(field_is("chunkIndex", "0")), timeout_s=TIMEOUT_S)


async def test_id_and_content_can_be_filtered_in_a_flat_row(uri: str) -> None:
    """They are fields of the row like any other, though no metadata; with one JSON field they are not."""
    rows = known_rows()
    for metadata in FLAT:
        with collection_of(uri, rows, metadata=metadata) as collection:
            async with searching(collection) as port:
                key, text = field_is("pk", rows[1].id, rows[2].id), field_is("text", "content 2")
                assert await ids(port, asking(key)) == [rows[1].id, rows[2].id]
                assert await ids(port, asking(key, text)) == [rows[2].id]
                with pytest.raises(SearchRejected, match="'embedding' has type FLOAT_VECTOR, which cannot"):
                    await port.search(asking(field_is("embedding", 1)), timeout_s=TIMEOUT_S)
    with collection_of(uri, rows) as collection:
        async with searching(collection) as port:
            assert await ids(port, asking(field_is("pk", str(rows[1].id)))) == []


async def test_number_that_no_row_can_have_finds_nothing(uri: str) -> None:
    """It is a number like any other, and the alternatives beside it are found."""
    rows = known_rows()
    with collection_of(uri, rows, metadata="declared") as collection:
        async with searching(collection) as port:
            for value in (0.5, 2**63, 1e300):
                assert await ids(port, asking(field_is("chunkIndex", value))) == []
                found = await ids(
                    port, asking(field_is("chunkIndex", value, 0.0), field_is("docId", "doc-1"))
                )
                assert found == [rows[1].id]


async def test_search_parameters_reach_the_engine(uri: str) -> None:
    """The index's own parameters are passed on: here a radius that leaves the nearest only."""
    with collection_of(uri, known_rows()) as collection:
        narrowed = replace(collection, search_params={"radius": 0.9999})
        async with searching(narrowed) as port:
            assert len(await ids(port, asking())) == 1


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"radius": "near"}, "could not convert string to float: 'near'"),
    ],
)
async def test_search_parameters_that_are_refused_stop_the_start(
    uri: str, params: dict[str, object], reason: str
) -> None:
    """Nobody could be answered with them, and the engine says why."""
    with collection_of(uri, known_rows()) as collection:
        line = await refusal(replace(collection, search_params=params))
    assert line == (
        f"collection {collection.collection}: with milvus.search-params = {params}"
        f" the search engine refused the query: {reason}"
    )


async def test_filter_on_an_array_is_rejected(uri: str) -> None:
    """Before the engine is asked, which would refuse it; nobody else's search suffers for it."""
    with collection_with_array(uri) as collection:
        async with searching(collection) as port:
            with pytest.raises(SearchRejected, match="field 'tags' has type ARRAY, which cannot be compared"):
                await port.search(asking(field_is("tags", 3)), timeout_s=TIMEOUT_S)
            assert await ids(port, asking(limit=1)) == ["1"]


async def test_released_collection_is_loaded_at_start(uri: str) -> None:
    """A collection that is there and not in memory is no obstacle."""
    with collection_of(uri, known_rows()) as collection, connected(collection) as client:
        client.release_collection(collection.collection)
        async with searching(collection) as port:
            assert await ids(port, asking(limit=1))


async def test_collection_released_or_dropped_while_running_is_unavailable(uri: str) -> None:
    """The question is sound and may be answered once the collection is back: such failures can be retried."""
    with collection_of(uri, known_rows()) as collection, connected(collection) as client:
        async with searching(collection) as port:
            client.release_collection(collection.collection)
            with pytest.raises(SearchUnavailable, match=r"^the collection is not loaded$"):
                await port.search(asking(), timeout_s=TIMEOUT_S)
            client.load_collection(collection.collection)
            assert await ids(port, asking(limit=1))
            client.drop_collection(collection.collection)
            with pytest.raises(SearchUnavailable, match=r"^the collection does not exist$"):
                await port.search(asking(), timeout_s=TIMEOUT_S)


async def test_ports_in_one_process_share_the_file(uri: str) -> None:
    """Two ports may be open on one file, and closing one leaves the other."""
    with collection_of(uri, known_rows()) as collection:
        async with searching(collection) as one:
            async with searching(collection):
                pass
            assert await ids(one, asking(limit=1))


async def test_start_does_not_block_the_loop(tmp_path: Path) -> None:
    """Starting the embedded engine takes a while, in which the loop goes on."""
    port = MilvusDenseSearch(MilvusCollection(uri=str(tmp_path / "new.db"), collection="none"))
    starting = asyncio.ensure_future(port.start())
    longest = 0.0
    loop = asyncio.get_running_loop()
    while not starting.done():
        before = loop.time()
        await asyncio.sleep(0)
        longest = max(longest, loop.time() - before)
    await port.close()
    assert isinstance(starting.exception(), ConfigurationError)
    assert longest < 0.2


async def test_search_before_start_is_a_mistake() -> None:
    """A port that was not started says so."""
    port = MilvusDenseSearch(MilvusCollection(uri="http://localhost:1", collection="none"))
    with pytest.raises(RuntimeError, match="not been started"):
        await port.search(asking(), timeout_s=TIMEOUT_S)
    await port.close()


class TestStart:
    """What `start` refuses, in one line each."""

    @pytest.fixture(scope="class")
    @classmethod
    def collection(cls, uri: str) -> Iterator[MilvusCollection]:
        """Yield a collection that is as it must be."""
        with collection_of(uri, known_rows()) as collection:
            yield collection

    async def test_missing_collection(self, collection: MilvusCollection) -> None:
        """The line names collection, database and file."""
        line = await refusal(replace(collection, collection="nowhere"))
        assert line == f"Milvus at {collection.uri}: no collection nowhere in database default"

    async def test_missing_database(self, collection: MilvusCollection) -> None:
        """The line names the database."""
        assert "nowhere" in await refusal(replace(collection, database="nowhere"))

    @pytest.mark.parametrize("field", ["id_field", "vector_field", "content_field", "metadata_field"])
    async def test_missing_field(self, collection: MilvusCollection, field: str) -> None:
        """The line names the field and those that there are."""
        line = await refusal(replace(collection, **{field: "nowhere"}))  # type: ignore[arg-type]
        assert line == (
            f"collection {collection.collection}: no field nowhere; it has pk, embedding, text, meta"
        )

    @pytest.mark.parametrize(
        ("field", "name", "message"),
        [
            ("id_field", "meta", "field meta is JSON, must be VARCHAR or INT64"),
            ("id_field", "text", "field text is not the primary key"),
            ("vector_field", "text", "field text is VARCHAR, must be FLOAT_VECTOR"),
            ("content_field", "meta", "field meta is JSON, must be VARCHAR"),
            ("metadata_field", "embedding", "field embedding is FLOAT_VECTOR, must be JSON or VARCHAR"),
        ],
    )
    async def test_field_of_another_type(
        self, collection: MilvusCollection, field: str, name: str, message: str
    ) -> None:
        """The line names the field, its type and the types allowed."""
        line = await refusal(replace(collection, **{field: name}))  # type: ignore[arg-type]
        assert line == f"collection {collection.collection}: {message}"

    async def test_dimension_other_than_the_embedders(self, collection: MilvusCollection) -> None:
        """The line names both dimensions; without an embedder there is nothing to compare."""
        line = await refusal(collection, expected_dimension=256)
        assert line.endswith(f"its vectors have {DIMENSION} dimensions, the embedder's 256")
        async with searching(collection) as port:
            assert port.dimension == DIMENSION

    async def test_field_that_can_hold_the_tenant(self, collection: MilvusCollection, uri: str) -> None:
        """A key of JSON, a dynamic field, or a string of the schema."""
        async with searching(collection, tenant_field="owner"):
            pass
        for metadata in FLAT:
            with collection_of(uri, known_rows(), metadata=metadata) as flat:
                async with searching(flat, tenant_field="docId"):
                    pass

    @pytest.mark.parametrize(
        ("metadata", "field", "message"),
        [
            ("text", "owner", "field meta is VARCHAR, which cannot be filtered, must be JSON"),
            ("declared", "owner", "no field owner; it has pk, embedding, text, docId, chunkIndex"),
            ("declared", "chunkIndex", "field chunkIndex is INT64, must be VARCHAR"),
            ("dynamic", "embedding", "field embedding is FLOAT_VECTOR, must be VARCHAR"),
        ],
    )
    async def test_field_that_cannot_hold_the_tenant(
        self, uri: str, metadata: Metadata, field: str, message: str
    ) -> None:
        """No request could ever be answered, so the line names the setting and the field."""
        with collection_of(uri, known_rows(), metadata=metadata) as collection:
            line = await refusal(collection, tenant_field=field)
            assert line == f"rag.tenant-field = {field}: collection {collection.collection}: {message}"

    async def test_field_without_index(self, uri: str) -> None:
        """Without an index there is no metric, and no fast search."""
        with collection_of(uri, known_rows()) as collection, connected(collection) as client:
            client.release_collection(collection.collection)
            client.drop_index(collection.collection, "embedding")
            assert (await refusal(collection)).endswith("field embedding has no index")

    @pytest.mark.parametrize(
        "uri", ["ftp://host", "localhost:19530", "/no/such/directory/rows.db", "http://host:99999"]
    )
    async def test_address_that_is_none(self, uri: str) -> None:
        """The line says what an address must be."""
        line = await refusal(MilvusCollection(uri=uri, collection="any"))
        assert line.startswith(f"{uri} cannot be opened as Milvus: it must be")

    async def test_password_in_the_address_is_not_shown(self) -> None:
        """Neither the line nor a repr tells a secret."""
        collection = MilvusCollection(uri="ftp://user:secret@host/x", token="secret", collection="any")
        assert "secret" not in await refusal(collection) + repr(collection)

    async def test_file_of_authorities_that_cannot_be_read(self, tmp_path: Path) -> None:
        """The line names the file and the reason."""
        missing = str(tmp_path / "none.pem")
        line = await refusal(MilvusCollection(uri="https://localhost", collection="any", ca_file=missing))
        assert line == f"{missing} cannot be read: No such file or directory"


def test_schema_with_another_vector_is_told_apart(tmp_path: Path) -> None:
    """With the flat layout a second vector is no metadata, so it is never fetched."""
    uri = str(tmp_path / "two.db")
    schema = MilvusClient.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIMENSION)
    schema.add_field("other", DataType.FLOAT_VECTOR, dim=DIMENSION)
    schema.add_field("content", DataType.VARCHAR, max_length=100)
    schema.add_field("docId", DataType.VARCHAR, max_length=100)
    name = unique_name()
    flat = MilvusCollection(uri=uri, collection=name, metadata_layout="flat")
    with connected(flat) as client:
        client.create_collection(name, schema=schema)
        description = client.describe_collection(name)
    assert read_shape(description, flat).declared == ("docId",)


async def test_row_whose_metadata_are_no_object_has_none(uri: str) -> None:
    """What is not an object is no metadata: the hit is there, and no condition holds of it."""
    with collection_of(uri, known_rows()[:1]) as collection, connected(collection) as client:
        odd = {"pk": "odd", "embedding": list(toward(50)), "text": "odd", "meta": [1, 2]}
        client.upsert(collection.collection, [odd])
        async with searching(collection) as port:
            hits = await port.search(asking(vector=toward(50), limit=1), timeout_s=TIMEOUT_S)
            assert [(hit.id, hit.metadata) for hit in hits] == [("odd", None)]
            assert "odd" not in await ids(port, asking(field_is("docId", "doc-0")))
