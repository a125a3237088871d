"""The documentation's example of another search: under its suite, and under a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import orjson
import pytest

from pipeline.errors import ConfigurationError
from pipeline.ports import KnowledgeSearchPort
from pipeline.testing.in_memory import Row
from pipeline.testing.search_port import ConditionContract, SearchPortContract, known_rows
from tests.examples.array_search import ArraySearch, Chunk
from tests.support.worker import StageTopics, WorkerProcess, reading_results, request, send_all


class TestArraySearch(SearchPortContract, ConditionContract):
    """Everything that a search port does."""

    @pytest.fixture
    def rows(self) -> Sequence[Row]:
        """Return the rows that are searched."""
        return known_rows()

    @pytest.fixture
    async def port(self, rows: Sequence[Row]) -> AsyncIterator[KnowledgeSearchPort]:
        """Yield the started port."""
        port = ArraySearch([chunk_of(row) for row in rows])
        await port.start()
        yield port
        await port.close()


def chunk_of(row: Row) -> Chunk:
    """Return a known row as the example holds it."""
    return Chunk(id=row.id, content=row.content, metadata=row.metadata, vector=row.vector)


@pytest.mark.parametrize(
    ("vectors", "complaint"),
    [
        ([(1.0, 0.0), (1.0,)], r"must be of one dimension, not of \[1, 2\]"),
        ([], r"must be of one dimension, not of \[\]"),
        ([(1.0, 0.0), (0.0, 0.0)], "line 2 has a vector of length 0"),
    ],
)
async def test_vectors_that_do_not_fit_are_named(
    vectors: Sequence[tuple[float, ...]], complaint: str
) -> None:
    """The worker says so when it starts, in one line."""
    chunks = [Chunk(id=0, content="text", metadata={}, vector=vector) for vector in vectors]
    with pytest.raises(ConfigurationError, match=complaint):
        await ArraySearch(chunks).start()


@pytest.mark.kafka
async def test_worker_answers_from_the_array(kafka: str, tmp_path: Path) -> None:
    """Requests that bring their vectors are answered with the nearest chunks, at most two of a document."""
    file = tmp_path / "chunks.jsonl"
    lines = (
        {"docId": f"doc{n % 2}", "chunkIndex": n // 2, "content": f"text {n}", "vector": [1.0, n / 10]}
        for n in range(8)
    )
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    environment = {
        "SEARCH_PORT": "tests.examples.array_search:create",
        "ARRAY_FILE": str(file),
        "EMBEDDING_PROVIDER": "none",
    }
    with WorkerProcess(topics.environment | environment, tmp_path / "worker.log"):
        async with reading_results(topics) as log:
            await send_all(topics, [request("r-1", query="any", vector=[1.0, 0.0])])
            await log.wait_for(["r-1"], timeout_s=60)
    result = orjson.loads(log.by_request["r-1"][0].value or b"")
    assert [item["document_id"] for item in result["evidence"]] == [
        "doc0#chunk-0",
        "doc1#chunk-0",
        "doc0#chunk-1",
        "doc1#chunk-1",
    ]
