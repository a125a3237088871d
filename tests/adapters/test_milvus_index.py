"""Indexing into both kinds of Milvus: what is there afterwards, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pymilvus import DataType, MilvusClient

from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.embedders.word_llama import WordLlamaEmbedder
from pipeline.errors import ConfigurationError
from pipeline.identity import EVIDENCE_KEY, identify
from pipeline.model import Dropped, SearchHit
from pipeline.testing.search_port import TIMEOUT_S, asking, field_is
from streams.indexing import IndexReport, MilvusIndex, index_documents, read_source
from streams.indexing.statistics import PieceStatistics
from streams.settings.model import MilvusSettings, Settings
from streams.worker.bootstrap import index_path
from tests.adapters.milvus import connected, searching, unique_name
from tests.support.ports import free_port

SECTIONS = [f'## Section {number}\n\nText {number}, with "quotes" and \\.\n' for number in range(5)]


class _Progress:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int) -> None:
        self.calls.append((done, total))


@pytest.fixture(scope="module")
def lite_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a file of Milvus Lite, open for the whole module."""
    return str(tmp_path_factory.mktemp("lite") / "index.db")


@pytest.fixture(params=["lite", pytest.param("standalone", marks=pytest.mark.milvus)])
def collection(request: pytest.FixtureRequest) -> Iterator[MilvusCollection]:
    """Yield a name of the test's own, in each kind of Milvus; dropped afterwards."""
    uri = request.getfixturevalue("lite_uri" if request.param == "lite" else "milvus_uri")
    collection = MilvusCollection(uri=uri, collection=unique_name())
    yield collection
    with connected(collection) as client:
        client.drop_collection(collection.collection)


IN_LITE = pytest.mark.parametrize("collection", ["lite"], indirect=True)
"""For what is the same in both kinds."""


@pytest.fixture
async def embedder() -> AsyncIterator[WordLlamaEmbedder]:
    """Yield the started embedder."""
    embedder = WordLlamaEmbedder()
    await embedder.start()
    yield embedder
    await embedder.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Documents: one of five sections, and others with names that are hard to quote."""
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "long.md").write_text("# Long\n\n" + "\n".join(SECTIONS))
    for name in ('say "hi".md', "it's.md", "back\\slash.md", "é 日本 😀.md", "long#chunk-1.md"):
        (folder / name).write_text(f"# Title\n\nThe text of {name}.\n")
    return folder


async def index(collection: MilvusCollection, source: Path, embedder: WordLlamaEmbedder) -> IndexReport:
    """Index a source as the command does."""
    async with MilvusIndex(collection, dimension=embedder.dimension) as opened:
        return await index_documents(read_source(source), opened, embedder, lambda _done, _total: None)


async def everything(
    collection: MilvusCollection, embedder: WordLlamaEmbedder, text: str = "text"
) -> list[SearchHit]:
    """Return all rows, as a search with the default consistency finds them."""
    [vector] = await embedder.embed([text], timeout_s=TIMEOUT_S)
    async with searching(collection) as port:
        return list(await port.search(asking(vector=vector, limit=1_000), timeout_s=TIMEOUT_S))


def rows_by_id(hits: list[SearchHit]) -> dict[Any, tuple[Any, Any]]:
    """Return content and metadata by id."""
    return {hit.id: (hit.content, hit.metadata) for hit in hits}


async def test_indexed_chunks_are_found_at_once(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """When indexing returns, a search sees every row, with the identity that it was written under."""
    report = await index(collection, folder, embedder)
    assert (report.documents, report.chunks, report.written, report.deleted) == (6, 10, 10, 0)
    assert report.pieces.longest == max(
        len(hit.content or "") for hit in await everything(collection, embedder)
    )
    hits = await everything(collection, embedder)
    assert len(hits) == 10
    for hit in hits:
        candidate = identify(hit, 0, 1)
        assert not isinstance(candidate, Dropped)
        assert candidate[EVIDENCE_KEY] == hit.id
        assert hit.metric == "COSINE"


async def test_nearest_chunk_is_the_one_about_it(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """Headings are part of what is embedded: the document is found by a title that its text does not have."""
    (folder / "kafka.md").write_text("# Kafka consumer lag\n\nLook at the group first.\n")
    await index(collection, folder, embedder)
    assert (await everything(collection, embedder, "kafka consumer lag"))[0].id == "kafka#chunk-0"


async def test_indexing_again_changes_nothing(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """Rows are written over themselves."""
    first = await index(collection, folder, embedder)
    before = await everything(collection, embedder)
    assert await index(collection, folder, embedder) == first
    assert sorted(map(repr, await everything(collection, embedder))) == sorted(map(repr, before))


async def test_changed_document_is_found_as_it_is_now(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """The old text is gone."""
    await index(collection, folder, embedder)
    (folder / "it's.md").write_text("# Title\n\nAnother text.\n")
    await index(collection, folder, embedder)
    rows = rows_by_id(await everything(collection, embedder))
    assert len(rows) == 10
    assert rows["it's#chunk-0"][0] == "Another text."


async def test_shortened_document_leaves_no_stale_chunks(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """Chunks beyond the new end are deleted, those of other documents are not, however alike their names."""
    await index(collection, folder, embedder)
    before = rows_by_id(await everything(collection, embedder))
    (folder / "long.md").write_text("# Long\n\n" + "\n".join(SECTIONS[:2]))
    report = await index(collection, folder, embedder)
    assert (report.written, report.deleted) == (7, 3)
    after = rows_by_id(await everything(collection, embedder))
    assert set(before) - set(after) == {f"long#chunk-{number}" for number in (2, 3, 4)}
    assert set(after) <= set(before)


async def test_document_that_has_become_blank_is_gone(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """All of its chunks are stale."""
    await index(collection, folder, embedder)
    (folder / 'say "hi".md').write_text("")
    assert (await index(collection, folder, embedder)).deleted == 1
    assert 'say "hi"#chunk-0' not in rows_by_id(await everything(collection, embedder))


async def test_document_that_has_vanished_is_left_alone(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """Another source may have brought it."""
    await index(collection, folder, embedder)
    (folder / "it's.md").unlink()
    assert (await index(collection, folder, embedder)).deleted == 0
    assert "it's#chunk-0" in rows_by_id(await everything(collection, embedder))


async def test_file_of_chunks_brings_metadata_and_vectors(
    collection: MilvusCollection, tmp_path: Path, embedder: WordLlamaEmbedder
) -> None:
    """A chunk's own vector is taken as it is, the others are embedded; further metadata can be asked for."""
    own = [1.0] + [0.0] * (embedder.dimension - 1)
    lines = [
        {"docId": 42, "chunkIndex": 0, "content": "own", "vector": own, "team": "blue", "big": 2**53 + 1},
        {"docId": 42, "chunkIndex": 1, "content": "embedded", "team": "red", "source": "x"},
    ]
    file = tmp_path / "chunks.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert (await index(collection, file, embedder)).written == 2
    async with searching(collection) as port:
        query = asking(field_is("team", "blue"), vector=tuple(own))
        [hit] = await port.search(query, timeout_s=TIMEOUT_S)
    assert hit.score == pytest.approx(1.0)
    assert (hit.id, hit.metadata) == (
        "42#chunk-0",
        {"docId": "42", "chunkIndex": 0, "team": "blue", "big": 2**53 + 1},
    )
    lines.pop()
    file.write_text("\n".join(map(json.dumps, lines)))
    assert (await index(collection, file, embedder)).deleted == 1


@IN_LITE
async def test_progress_is_told_by_batch(
    collection: MilvusCollection, tmp_path: Path, embedder: WordLlamaEmbedder
) -> None:
    """From nothing to everything, whatever the number of chunks."""
    file = tmp_path / "chunks.jsonl"
    vector = [1.0] * embedder.dimension
    lines = (
        {"docId": f"d{number % 150}", "chunkIndex": number, "content": "x", "vector": vector}
        for number in range(600)
    )
    file.write_text("\n".join(map(json.dumps, lines)))
    progress = _Progress()
    async with MilvusIndex(collection, dimension=embedder.dimension) as opened:
        await index_documents(read_source(file), opened, embedder, progress)
        assert await opened.settle() == 600
    assert progress.calls == [(0, 600), (256, 600), (512, 600), (600, 600)]


async def test_loop_goes_on_while_indexing(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """The client that blocks does so in threads."""
    indexing = asyncio.ensure_future(index(collection, folder, embedder))
    loop = asyncio.get_running_loop()
    longest = 0.0
    while not indexing.done():
        before = loop.time()
        await asyncio.sleep(0)
        longest = max(longest, loop.time() - before)
    assert (await indexing).written == 10
    assert longest < 0.5


@asynccontextmanager
async def made(collection: MilvusCollection, *fields: tuple[str, DataType]) -> AsyncIterator[None]:
    """Make a collection with other fields than an index would."""
    schema = MilvusClient.create_schema(auto_id=False)
    for name, kind in fields:
        options = {"dim": 256} if kind is DataType.FLOAT_VECTOR else {"max_length": 1_000}
        schema.add_field(name, kind, is_primary=name == "id", **options)
    parameters = MilvusClient.prepare_index_params()
    parameters.add_index("vector", index_type="FLAT", metric_type="COSINE")
    with connected(collection) as client:
        client.create_collection(collection.collection, schema=schema, index_params=parameters)
        yield


VARCHAR, VECTOR, JSON = DataType.VARCHAR, DataType.FLOAT_VECTOR, DataType.JSON


@IN_LITE
@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            [("id", VARCHAR), ("vector", VECTOR), ("content", VARCHAR)],
            "no field metadata; it has id, vector, content",
        ),
        (
            [("id", DataType.INT64), ("vector", VECTOR), ("content", VARCHAR), ("metadata", JSON)],
            "it has id INT64,",
        ),
        (
            [("id", VARCHAR), ("vector", VECTOR), ("content", VARCHAR), ("metadata", VARCHAR)],
            "metadata VARCHAR",
        ),
        (
            [
                ("id", VARCHAR),
                ("vector", VECTOR),
                ("content", VARCHAR),
                ("metadata", JSON),
                ("more", VARCHAR),
            ],
            "more VARCHAR",
        ),
    ],
)
async def test_collection_with_other_fields_is_refused(
    collection: MilvusCollection, fields: list[tuple[str, DataType]], complaint: str
) -> None:
    """The line names the fields that there are; nothing is written."""
    async with made(collection, *fields):
        line = await refusal(collection, dimension=256)
    assert line.startswith(f"collection {collection.collection}: ")
    assert complaint in line


async def refusal(collection: MilvusCollection, *, dimension: int) -> str:
    """Return the line with which an index refuses to open."""
    with pytest.raises(ConfigurationError) as caught:
        async with MilvusIndex(collection, dimension=dimension):
            raise AssertionError
    line = str(caught.value)
    assert "\n" not in line
    return line


@IN_LITE
async def test_collection_of_another_dimension_is_refused(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """The line names both dimensions."""
    await index(collection, folder, embedder)
    line = await refusal(collection, dimension=3)
    assert line.endswith("its vectors have 256 dimensions, the embedder's 3")


async def test_released_collection_is_loaded(
    collection: MilvusCollection, folder: Path, embedder: WordLlamaEmbedder
) -> None:
    """A collection that is there and not in memory is no obstacle."""
    await index(collection, folder, embedder)
    with connected(collection) as client:
        client.release_collection(collection.collection)
    assert (await index(collection, folder, embedder)).written == 10


@IN_LITE
async def test_vectors_of_another_dimension_are_refused_before_anything_is_written(
    collection: MilvusCollection, tmp_path: Path
) -> None:
    """The line names the file and both dimensions; not even an empty collection is left."""
    file = tmp_path / "chunks.jsonl"
    file.write_text(json.dumps({"docId": "d", "chunkIndex": 0, "content": "x", "vector": [1, 2]}))
    settings = Settings(milvus=MilvusSettings(uri=collection.uri, collection=collection.collection))
    with pytest.raises(ConfigurationError, match=r"line 1: vector = .* must have 256 numbers, as in the"):
        await index_path(settings, file, lambda _done, _total: None)
    with connected(collection) as client:
        assert not client.has_collection(collection.collection)


@IN_LITE
async def test_blank_documents_are_no_chunks(
    collection: MilvusCollection, tmp_path: Path, embedder: WordLlamaEmbedder
) -> None:
    """Nothing is embedded and nothing written."""
    folder = tmp_path / "blank"
    folder.mkdir()
    (folder / "a.md").write_text("\n")
    report = await index(collection, folder, embedder)
    assert (report.documents, report.chunks, report.written, report.deleted) == (1, 0, 0, 0)
    assert report.pieces == PieceStatistics(shortest=0, median=0, longest=0, mostly_markup=0)


class TestOpen:
    """What cannot be opened."""

    async def test_flat_layout(self, lite_uri: str) -> None:
        """Indexing writes one JSON field."""
        collection = MilvusCollection(uri=lite_uri, collection="any", metadata_layout="flat")
        assert (await refusal(collection, dimension=3)).startswith("milvus.metadata-layout = flat: ")

    async def test_unreachable_server(self) -> None:
        """The line names the address."""
        uri = f"http://127.0.0.1:{free_port()}"
        line = await refusal(MilvusCollection(uri=uri, collection="any"), dimension=3)
        assert line == f"Milvus at {uri}: the search engine cannot be reached"

    @pytest.mark.parametrize(
        "uri", ["ftp://user:secret@host", "/no/such/directory/rows.db", "http://h:99999"]
    )
    async def test_address_that_is_none(self, uri: str) -> None:
        """The line says what an address must be, and shows no password."""
        line = await refusal(MilvusCollection(uri=uri, collection="any"), dimension=3)
        assert "cannot be opened as Milvus: it must be" in line
        assert "secret" not in line

    async def test_file_of_authorities_that_cannot_be_read(self, tmp_path: Path) -> None:
        """The line names the file and the reason."""
        missing = str(tmp_path / "none.pem")
        collection = MilvusCollection(uri="https://localhost", collection="any", ca_file=missing)
        assert (
            await refusal(collection, dimension=3) == f"{missing} cannot be read: No such file or directory"
        )

    async def test_database_that_is_missing(self, lite_uri: str) -> None:
        """The line has the engine's own words."""
        collection = MilvusCollection(uri=lite_uri, collection="any", database="nowhere")
        line = await refusal(collection, dimension=3)
        assert line.startswith(f"Milvus at {lite_uri}: ")
        assert line.endswith("database 'nowhere' does not exist")
