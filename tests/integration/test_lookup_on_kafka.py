"""The whole path on Apache Kafka and Milvus standalone."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.embedders.word_llama import WordLlamaEmbedder
from tests.adapters.milvus import connected, unique_name
from tests.integration.corpus import sentences, write_chunks
from tests.oracle import expected, observed
from tests.support.topics import read_all
from tests.support.worker import (
    Payload,
    StageTopics,
    WorkerProcess,
    reading_results,
    request,
    run_command,
    send_all,
)

pytestmark = [pytest.mark.kafka, pytest.mark.milvus]

DOCUMENTS, CHUNKS_PER_DOCUMENT = 100, 24
REQUESTS = 1_000
BUDGET = {
    "max_items": 20,
    "max_chars_per_item": 2_000,
    "max_total_chars": 8_000,
    "min_chars_per_item": 200,
}


@pytest.fixture(scope="module")
def collection(milvus_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusCollection]:
    """Yield a collection of 2,400 chunks, filled by the command."""
    collection = MilvusCollection(uri=milvus_uri, collection=unique_name())
    file = tmp_path_factory.mktemp("corpus") / "chunks.jsonl"
    count = write_chunks(file, documents=DOCUMENTS, chunks_per_document=CHUNKS_PER_DOCUMENT)
    printed = run_command("index", str(file), "--json", environment=_milvus(collection), timeout_s=120)
    assert printed.code == 0, printed.stderr
    assert orjson.loads(printed.stdout)["chunks"] == count == 2_400
    yield collection
    with connected(collection) as client:
        client.drop_collection(collection.collection)


@pytest.fixture
async def stage(kafka: str, collection: MilvusCollection, tmp_path: Path) -> AsyncIterator[StageTopics]:
    """Yield the topics of a running worker."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    with WorkerProcess(topics.environment | _milvus(collection), tmp_path / "worker.log"):
        yield topics


@pytest.mark.timeout(300)
async def test_a_thousand_requests_are_each_answered_once_with_every_rule_holding(
    stage: StageTopics, collection: MilvusCollection
) -> None:
    """1,000 requests over 2,400 chunks: each answered once, as a naive recomputation has it."""
    bodies = {f"r-{number}": _fields(number) for number in range(REQUESTS)}
    async with reading_results(stage) as log:
        await send_all(stage, (request(name, **fields) for name, fields in bodies.items()))
        await log.wait_for(bodies, timeout_s=120)
    assert all(len(records) == 1 for records in log.by_request.values())
    raw = await _raw_hits(collection, [query for fields in bodies.values() for query in fields["queries"]])
    for name, fields in bodies.items():
        result = orjson.loads(log.by_request[name][0].value or b"")
        limits = result["limits"]
        paths = [
            {"query": index, "hits": raw[query][: limits["retrieve_k"]]}
            for index, query in enumerate(fields["queries"])
        ]
        budget = BUDGET | fields.get("budget", {})
        assert limits == {"retrieve_k": 20, "return_n": 5, "max_chunks_per_document": 2} | {
            key: fields[key] for key in limits if key in fields
        }
        assert observed(result) == expected(paths, limits=limits, budget=budget), name
        assert result["status"] == "ok"


async def test_a_request_malformed_in_any_field_is_rejected_naming_the_field(stage: StageTopics) -> None:
    """Every malformed field is named in a `rejected` result, and the stage goes on."""
    good: dict[str, Any] = {"query": "How do I roll back?"}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("query", {"query": " "}),
        ("query", {}),
        ("queries[1]", {"queries": ["a", 5]}),
        ("vector", {**good, "vector": [1.0, 2.0]}),
        ("vectors[0][1]", {**good, "vectors": [[1.0, "x"]]}),
        ("retrieve_k", {**good, "retrieve_k": 0}),
        ("return_n", {**good, "return_n": "5"}),
        ("max_chunks_per_document", {**good, "max_chunks_per_document": True}),
        ("filter", {**good, "filter": {"team": {"or": 1}}}),
        ("tenant", {**good, "tenant": 7}),
        ("budget.max_items", {**good, "budget": {"max_items": 0}}),
        ("expires_at", {**good, "expires_at": "tomorrow"}),
        ("explain", {**good, "explain": "yes"}),
        ("hints", {**good, "hints": "x" * 20_000}),
    ]
    malformed = {f"bad-{number}": case for number, case in enumerate(cases)}
    async with reading_results(stage) as log:
        await send_all(
            stage,
            [
                *(request(name, **fields) for name, (_, fields) in malformed.items()),
                request("good", **good),
            ],
        )
        await log.wait_for([*malformed, "good"], timeout_s=60)
    for name, (field, _) in malformed.items():
        result = orjson.loads(log.by_request[name][0].value or b"")
        assert result["status"] == "rejected"
        assert field in {problem["field"] for problem in result["error"]["fields"]}
    assert orjson.loads(log.by_request["good"][0].value or b"")["status"] == "ok"
    assert len(await read_all(stage.bootstrap, stage.dead_letters)) == len(malformed)


async def test_a_value_that_cannot_be_read_goes_to_the_dead_letters_byte_for_byte(stage: StageTopics) -> None:
    """Key, value and headers arrive untouched, repeated header names and tombstones too."""
    unreadable = [
        Payload(value=b"\xff\xfe\x00", key=b"k\x00", headers=(("a", b"1"), ("b", b"2"), ("a", b"\xff"))),
        Payload(value=b"{", key=None),
        Payload(value=None, key=b"tombstone"),
        Payload(value=b'{"query": "no id"}', key=b""),
    ]
    async with reading_results(stage) as log:
        await send_all(stage, [*unreadable, request("after", query="How do I roll back?")])
        await log.wait_for(["after"], timeout_s=60)
    dead = await read_all(stage.bootstrap, stage.dead_letters)
    own = [
        (record.key, record.value, tuple(h for h in record.headers if not h[0].startswith("lookup.errors.")))
        for record in dead
    ]
    assert sorted(own, key=repr) == sorted(
        ((payload.key, payload.value, payload.headers) for payload in unreadable), key=repr
    )


def _fields(number: int) -> dict[str, Any]:
    """Make the fields of a request: one to three queries, and now and then limits of its own."""
    choose = random.Random(number)
    fields: dict[str, Any] = {"queries": choose.sample(sentences()[:400], choose.choice([1, 1, 2, 3]))}
    if number % 3 == 0:
        fields |= {"retrieve_k": choose.randint(8, 40), "return_n": choose.randint(1, 8)}
    if number % 4 == 0:
        fields |= {"max_chunks_per_document": choose.randint(1, 4)}
    if number % 5 == 0:
        fields |= {
            "budget": {"max_items": choose.randint(1, 6), "max_total_chars": choose.randint(100, 2_000)}
        }
    return fields


async def _raw_hits(collection: MilvusCollection, queries: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Ask Milvus itself, past all of the product's code but the embedder."""
    embedder = WordLlamaEmbedder()
    await embedder.start()
    distinct = list(dict.fromkeys(queries))
    vectors = await embedder.embed(distinct, timeout_s=30)
    await embedder.close()
    found: dict[str, list[dict[str, Any]]] = {}
    with connected(collection) as client:
        for query, vector in zip(distinct, vectors, strict=True):
            (rows,) = client.search(
                collection.collection,
                data=[list(vector)],
                limit=40,
                output_fields=["content", "metadata"],
                search_params={"params": {"ef": 64}},
            )
            found[query] = [
                {
                    "id": row["id"],
                    "content": row["entity"]["content"],
                    "metadata": row["entity"]["metadata"],
                    "score": row["distance"],
                }
                for row in rows
            ]
    return found


def _milvus(collection: MilvusCollection) -> dict[str, str]:
    return {
        "MILVUS_URI": collection.uri,
        "MILVUS_COLLECTION": collection.collection,
        "MILVUS_SEARCH_PARAMS": '{"ef": 64}',
    }
