"""Dense search in a Milvus server: the contract, and what only a server does."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.adapters.milvus_dense import MilvusDenseSearch
from pipeline.errors import SearchRejected, SearchTimeout, SearchUnavailable
from pipeline.testing.in_memory import Row
from pipeline.testing.search_port import (
    TIMEOUT_S,
    ConditionContract,
    asking,
    field_is,
    ids,
    known_rows,
)
from tests.adapters.milvus import (
    OverMilvus,
    collection_of,
    collection_with_array,
    connected,
    refusal,
    searching,
    tilted_queries,
    unique_name,
)
from tests.support.certificates import CertificateAuthority
from tests.support.milvus_server import MilvusServer
from tests.support.ports import free_port

pytestmark = pytest.mark.milvus


@pytest.fixture(scope="session")
def uri(milvus_uri: str) -> str:
    """Return the address of the server."""
    return milvus_uri


class TestJsonField(OverMilvus, ConditionContract):
    """Metadata in one JSON field."""

    async def test_hits_of_a_shared_call_are_the_same_to_the_last_digit(
        self, port: MilvusDenseSearch
    ) -> None:
        """What else is searched at the time does not change a result's bytes."""
        queries = tilted_queries()
        alone = [await port.search(query, timeout_s=TIMEOUT_S) for query in queries]
        assert list(await port.search_many(queries, timeout_s=TIMEOUT_S)) == alone


class TestIntegerIds(OverMilvus):
    """Ids of 64 bits."""

    integer_ids = True


class TestDynamicFields(OverMilvus, ConditionContract):
    """Metadata in dynamic fields of the row, with ids of 64 bits."""

    metadata = "dynamic"
    integer_ids = True


class TestJsonText(OverMilvus):
    """Metadata in one field of JSON text."""

    metadata = "text"


class TestInnerProduct(OverMilvus):
    """Metric IP."""

    metric = "IP"


class TestEuclidean(OverMilvus):
    """Metric L2."""

    metric = "L2"


async def test_fields_of_the_schema_can_be_filtered(uri: str) -> None:
    """A whole float is an integer to a declared field; a value of another type is refused."""
    with collection_of(uri, known_rows(), metadata="declared") as collection:
        async with searching(collection) as port:
            hits = await port.search(
                asking(field_is("docId", "doc-1"), field_is("chunkIndex", 0.0)), timeout_s=TIMEOUT_S
            )
            assert [hit.metadata for hit in hits] == [{"docId": "doc-1", "chunkIndex": 0}]
            with pytest.raises(
                SearchRejected, match=r"'chunkIndex' has type INT64, .* a number, not a string$"
            ):
                await port.search(asking(field_is("chunkIndex", "0")), timeout_s=TIMEOUT_S)


async def test_limit_beyond_the_engines_is_rejected(uri: str) -> None:
    """No retry makes the engine return more than it ever does."""
    with collection_of(uri, known_rows()) as collection:
        async with searching(collection) as port:
            with pytest.raises(SearchRejected, match="refused the query: invalid parameters"):
                await port.search(asking(limit=16_385), timeout_s=TIMEOUT_S)


async def test_filter_on_an_array_is_rejected(uri: str) -> None:
    """Before the engine is asked, which would refuse it; nobody else's search suffers for it."""
    with collection_with_array(uri) as collection:
        async with searching(collection) as port:
            with pytest.raises(SearchRejected, match="field 'tags' has type ARRAY, which cannot be compared"):
                await port.search(asking(field_is("tags", 3)), timeout_s=TIMEOUT_S)
            assert await ids(port, asking(limit=1)) == ["1"]


@pytest.fixture(scope="module")
def sealed(uri: str) -> Iterator[MilvusCollection]:
    """Yield a collection whose index is in use: rows that are not sealed are searched without it."""
    with collection_of(uri, many_rows()) as collection, connected(collection) as client:
        name = collection.collection
        client.flush(name)
        while client.describe_index(name, "embedding")["pending_index_rows"]:
            time.sleep(0.2)
        client.release_collection(name)
        client.load_collection(name)
        yield collection


def many_rows() -> list[Row]:
    """Return as many rows as the engine builds an index for."""
    chance = random.Random(1)
    return [
        Row(
            id=str(number),
            content="x",
            metadata={},
            vector=(chance.random(), chance.random(), chance.random(), chance.random()),
        )
        for number in range(2_000)
    ]


async def test_width_above_ef_is_answered(sealed: MilvusCollection) -> None:
    """The engine wants as many candidates as hits; a narrower search finds the same as before."""
    async with searching(replace(sealed, search_params={"ef": 16})) as port:
        for limit in (15, 16, 17, 150):
            assert len(await ids(port, asking(limit=limit))) == limit


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"ef": 0}, "out of range in json: param ef out of range [ 1,… ]"),
        ({"ef": "many"}, "invalid value in json: stoi"),
        (
            {"radius": 0.5, "range_filter": 0.2},
            "range_filter must be greater than radius for IP/COSINE",
        ),
    ],
)
async def test_search_parameters_that_are_refused_stop_the_start(
    sealed: MilvusCollection, params: dict[str, object], reason: str
) -> None:
    """Nobody could be answered with them, and the engine says why."""
    line = await refusal(replace(sealed, search_params=params))
    assert line == (
        f"collection {sealed.collection}: with milvus.search-params = {params}"
        f" the search engine refused the query: invalid parameters: {reason}"
    )


async def test_width_that_the_engine_never_returns_is_told(sealed: MilvusCollection) -> None:
    """Whoever configures it can be warned before a request asks for it."""
    async with searching(sealed) as port:
        assert await port.refusal_of_width(200, timeout_s=TIMEOUT_S) is None
        why = await port.refusal_of_width(16_385, timeout_s=TIMEOUT_S)
        assert why is not None
        assert why.endswith("top k should be in range [1, 16384], but got 16385")


async def test_no_time_left_is_a_timeout(uri: str) -> None:
    """A search without time does not start, and the port stays usable."""
    with collection_of(uri, known_rows()) as collection:
        async with searching(collection) as port:
            with pytest.raises(SearchTimeout, match=r"^the search did not answer in time$"):
                await port.search(asking(), timeout_s=0.0)
            assert await ids(port, asking(limit=1))


async def test_server_that_cannot_be_reached_stops_the_start_at_once() -> None:
    """A refused connection is not retried."""
    uri = f"http://127.0.0.1:{free_port()}"
    before = time.monotonic()
    line = await refusal(MilvusCollection(uri=uri, collection="any"))
    assert line == f"Milvus at {uri}: the search engine cannot be reached"
    assert time.monotonic() - before < 5.0


async def test_server_that_says_nothing_stops_the_start_in_time() -> None:
    """A peer that takes the connection and keeps silent is given up on."""
    taken: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: taken.append(writer), "127.0.0.1", 0)
    uri = "http://{}:{}".format(*silent.sockets[0].getsockname())
    before = time.monotonic()
    line = await refusal(MilvusCollection(uri=uri, collection="any"))
    assert line == f"Milvus at {uri}: the search engine cannot be reached"
    assert time.monotonic() - before < 10.0
    for writer in taken:
        writer.close()
    silent.close()


class TestOutage:
    """A server of the test's own, which may be killed."""

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
        """Yield a server that asks for a token."""
        with MilvusServer(tmp_path_factory.mktemp("milvus"), authorization=True) as server:
            yield server

    @pytest.mark.parametrize("token", [None, "root:wrong", "nonsense"])
    async def test_refused_token_stops_the_start(self, server: MilvusServer, token: str | None) -> None:
        """The line says that it is the token, and does not show it."""
        line = await refusal(MilvusCollection(uri=server.uri, token=token, collection="any"))
        why = "the search engine refuses the token, or its rights: see milvus.token"
        assert line == f"Milvus at {server.uri}: {why}"

    async def test_search_fails_while_the_server_is_down_and_works_again_after(
        self, server: MilvusServer
    ) -> None:
        """An outage is unavailability, seen at once, and the same port finds the server again."""
        with collection_of(server.uri, known_rows(), token=server.token) as collection:
            async with searching(collection) as port:
                expected = await ids(port, asking())
                await asyncio.to_thread(server.kill)
                before = time.monotonic()
                failures = await asyncio.gather(
                    *(port.search(asking(), timeout_s=TIMEOUT_S) for _ in range(20)), return_exceptions=True
                )
                assert time.monotonic() - before < 10.0
                assert {str(failure) for failure in failures} == {"the search engine cannot be reached"}
                assert {type(failure) for failure in failures} == {SearchUnavailable}
                await asyncio.to_thread(server.start)
                assert await ids(port, asking()) == expected


class TestTls:
    """A server that speaks TLS."""

    @pytest.fixture(scope="class")
    @classmethod
    def authority(cls, tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
        """Whoever signed the server's certificate."""
        return CertificateAuthority(tmp_path_factory.mktemp("authority"))

    @pytest.fixture(scope="class")
    @classmethod
    def server(
        cls, tmp_path_factory: pytest.TempPathFactory, authority: CertificateAuthority
    ) -> Iterator[MilvusServer]:
        """Yield the server."""
        directory = tmp_path_factory.mktemp("milvus")
        with MilvusServer(directory, certificate=authority.issue()) as server:
            yield server

    async def test_search_trusts_the_configured_authority(
        self, server: MilvusServer, authority: CertificateAuthority
    ) -> None:
        """With the right file of authorities TLS works like anything else."""
        rows = known_rows()
        ca_file = str(authority.certificate)
        with collection_of(server.uri, rows, ca_file=ca_file) as collection:
            async with searching(collection) as port:
                assert await ids(port, asking(limit=1)) == [rows[0].id]

    async def test_another_authority_is_not_trusted(self, server: MilvusServer, tmp_path: Path) -> None:
        """A certificate that somebody else signed is refused."""
        stranger = CertificateAuthority(tmp_path, "stranger")
        collection = MilvusCollection(uri=server.uri, collection="any", ca_file=str(stranger.certificate))
        why = "cannot be reached: its certificate is not trusted: see milvus.ca-file"
        assert await refusal(collection) == f"Milvus at {server.uri}: the search engine {why}"


async def test_collection_released_or_dropped_while_running_is_unavailable(uri: str) -> None:
    """The question is sound and may be answered once the collection is back: the probe fails as well."""
    with collection_of(uri, known_rows()) as collection, connected(collection) as client:
        async with searching(collection) as port:
            client.release_collection(collection.collection)
            for asked in (port.search(asking(), timeout_s=TIMEOUT_S), port.probe(timeout_s=TIMEOUT_S)):
                with pytest.raises(SearchUnavailable, match=r"^the collection is not loaded$"):
                    await asked
            client.drop_collection(collection.collection)
            for asked in (port.search(asking(), timeout_s=TIMEOUT_S), port.probe(timeout_s=TIMEOUT_S)):
                with pytest.raises(SearchUnavailable, match=r"^the collection does not exist$"):
                    await asked


async def test_database_that_goes_while_running_is_unavailable(uri: str) -> None:
    """Like the collection that was in it."""
    database = unique_name()
    with connected(MilvusCollection(uri=uri, collection="any")) as client:
        client.create_database(database)
        try:
            with collection_of(uri, known_rows(), database=database) as collection:
                async with searching(collection) as port:
                    assert await ids(port, asking(limit=1))
                    with connected(collection) as inside:
                        inside.drop_collection(collection.collection)
                    client.drop_database(database)
                    with pytest.raises(SearchUnavailable, match=r"^the collection does not exist$"):
                        await port.search(asking(), timeout_s=TIMEOUT_S)
                    client.create_database(database)
        finally:
            client.drop_database(database)


async def test_database_that_is_missing_stops_the_start(uri: str) -> None:
    """The line names the database."""
    with collection_of(uri, known_rows()) as collection:
        line = await refusal(replace(collection, database="nowhere"))
        assert line == f"Milvus at {uri}: no collection {collection.collection} in database nowhere"


async def test_close_ends_the_connection(uri: str) -> None:
    """After closing nothing is asked any more."""
    with collection_of(uri, known_rows()) as collection:
        port = MilvusDenseSearch(collection)
        await port.start()
        await port.close()
        with pytest.raises(SearchUnavailable):
            await port.search(asking(), timeout_s=TIMEOUT_S)
