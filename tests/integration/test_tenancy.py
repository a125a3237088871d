"""Tenants are kept apart: whatever a request says, it gets only rows that are its tenant's."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest

from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.testing.in_memory import Row
from pipeline.testing.search_port import toward
from tests.adapters.milvus import collection_of
from tests.support.worker import (
    StageTopics,
    WorkerProcess,
    reading_results,
    request,
    send_all,
)

pytestmark = [pytest.mark.kafka, pytest.mark.milvus]

OWNER = "owner"
"""The metadata field that keeps tenants apart; requests name it `tenant`."""

REQUESTS, SEED = 300, 20_260_131
VECTOR = list(toward(0))

HOSTILE = (
    "acme",
    "ACME",
    " acme ",
    "acme\n",
    "acme\x00",
    'acme"',
    "acme'",
    "acme\\",
    'acme\\"',
    '" or 1==1 or "',
    '" or 1 == 1 or "" == "',
    "' or 1==1 or '",
    '") or (1 == 1) or ("" == "',
    '" or meta["owner"] != "',
    '" || true || "',
    'acme" and owner != "x',
    'acme" # comment',
    "acme -- comment",
    "acme /* comment */",
    "acme // comment",
    "%",
    "acm_",
    "acme%",
    "{tenant}",
    "{{owner}}",
    "${owner}",
    "{0}",
    "not",
    "null",
    "true",
    "1",
    "[1]",
    '["acme"]',
    "exists owner",
    "line\r\n\tbreak",
    "caf\u00e9",
    "cafe\u0301",
    "\u65e5\u672c \U0001f600",
    "\u202eemca",
    "\ufeffacme",
    "\\u0061cme",
    "\\x61cme",
    "x" * 10_000,
    '"' * 500,
    "\\" * 501,
)
"""Tenants and values that mean something to a filter language if they are not written with care."""

NOBODYS: tuple[dict[str, object], ...] = (
    {},
    {OWNER: None},
    {OWNER: 1},
    {OWNER: 1.5},
    {OWNER: True},
    {OWNER: ["acme"]},
    {OWNER: {"name": "acme"}},
    {"tenant": "acme"},
    {"OWNER": "acme"},
    {"nested": {OWNER: "acme"}},
)
"""Metadata that makes a row no tenant's."""

FIELDS = ("team", "level", "note", "a.b", "a-b", "\u043a\u043b\u044e\u0447", "true", "missing", OWNER)
LEVELS = (0, 1, -1, 1.0, 0.5, -2.5e-7, True, False, 2**53 + 1, 2**63 - 1, 1e300)


def rows() -> tuple[Row, ...]:
    """Return four rows of every tenant, and rows of nobody, in no order."""
    choose = random.Random(SEED)
    owners = [*NOBODYS, *(dict[str, object]({OWNER: name}) for name in HOSTILE for _ in range(4))]
    choose.shuffle(owners)
    return tuple(
        Row(
            id=str(number),
            content=f"content {number}",
            metadata={
                "docId": f"d{number}",
                "chunkIndex": 0,
                "team": choose.choice(HOSTILE),
                "level": choose.choice(LEVELS),
                "note": choose.choice([*HOSTILE, 1, True, "level"]),
                "a.b": choose.choice(["x", 1]),
                "a-b": choose.choice(["x", 1]),
                "\u043a\u043b\u044e\u0447": choose.choice(["x", 1]),
                "true": choose.choice([True, "true"]),
                **owner,
            },
            vector=toward(number),
        )
        for number, owner in enumerate(owners)
    )


ROWS = rows()


@pytest.fixture(scope="module", params=["json", "dynamic"])
def collection(milvus_uri: str, request: pytest.FixtureRequest) -> Iterator[MilvusCollection]:
    """Yield a collection of all rows, with the metadata in one field or in fields of their own."""
    with collection_of(milvus_uri, ROWS, metadata=request.param) as collection:
        yield collection


@pytest.fixture(scope="module")
def stage(
    kafka: str, collection: MilvusCollection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StageTopics]:
    """Yield the topics of a running worker that keeps tenants apart and return all that it finds."""
    topics = StageTopics(bootstrap=kafka)
    asyncio.run(topics.create())
    environment = {
        "MILVUS_URI": collection.uri,
        "MILVUS_COLLECTION": collection.collection,
        "MILVUS_ID_FIELD": collection.id_field,
        "MILVUS_VECTOR_FIELD": collection.vector_field,
        "MILVUS_CONTENT_FIELD": collection.content_field,
        "MILVUS_METADATA_LAYOUT": collection.metadata_layout,
        "MILVUS_METADATA_FIELD": collection.metadata_field,
        "EMBEDDING_PROVIDER": "none",
        "RAG_TENANT_FIELD": OWNER,
        "RAG_RETRIEVE_K": "1000",
        "RAG_RETURN_N": "1000",
        "RAG_MAX_RETRIEVE_K": "1000",
        "PROJECTION_MAX_ITEMS": "1000",
        "PROJECTION_MAX_TOTAL_CHARS": "100000",
    }
    log_file = tmp_path_factory.mktemp("worker") / "worker.log"
    with WorkerProcess(topics.environment | environment, log_file):
        yield topics


@pytest.mark.timeout(300)
async def test_results_hold_exactly_the_rows_that_satisfy_tenant_and_filter(stage: StageTopics) -> None:
    """Hundreds of hostile tenants and filters: never another row, and never one too few."""
    asked = {f"r-{number}": _request(random.Random(f"{SEED}-{number}")) for number in range(REQUESTS)}
    results = await _results(stage, asked)
    found = 0
    for name, fields in asked.items():
        expected = {row.metadata["docId"] for row in ROWS if _is_wanted(row.metadata, fields)}
        result = results[name]
        assert result["status"] == ("ok" if expected else "empty"), (fields, result["error"])
        assert {item["doc_id"] for item in result["evidence"]} == expected, fields
        found += bool(expected)
    assert REQUESTS / 4 < found < REQUESTS


async def test_request_without_tenant_is_rejected(stage: StageTopics) -> None:
    """Absent, null, blank or of another type: the result names `tenant`, and nothing is searched."""
    values: tuple[object, ...] = (None, "", " ", "\n\t", 5, True, False, 1.5, [], ["acme"], {})
    without: list[dict[str, Any]] = [{}, *({"tenant": value} for value in values)]
    asked = {f"r-{number}": fields for number, fields in enumerate(without)}
    asked |= {f"f-{number}": {**fields, "filter": {OWNER: "acme"}} for number, fields in enumerate(without)}
    for name, result in (await _results(stage, asked)).items():
        assert (result["status"], result["evidence"]) == ("rejected", []), asked[name]
        assert [problem["field"] for problem in result["error"]["fields"]] == ["tenant"], asked[name]


@pytest.mark.parametrize("tenant", ["acme", '" or 1==1 or "'])
async def test_filter_on_the_tenants_field_only_narrows(stage: StageTopics, tenant: str) -> None:
    """Naming other tenants, or lists with the own one among them, brings no row that is not the own."""
    own = {row.metadata["docId"] for row in ROWS if row.metadata.get(OWNER) == tenant}
    wanted: dict[str, tuple[object, set[object]]] = {
        "own": (tenant, own),
        "other": ("ACME", set()),
        "others": (["ACME", " acme ", True, 1], set()),
        "own among others": ([*HOSTILE], own),
        "number": (1, set()),
        "boolean": (True, set()),
    }
    asked = {name: {"tenant": tenant, "filter": {OWNER: value}} for name, (value, _) in wanted.items()}
    results = await _results(stage, asked)
    for name, (_, expected) in wanted.items():
        assert {item["doc_id"] for item in results[name]["evidence"]} == expected, name


async def test_filter_field_that_is_no_name_is_rejected(stage: StageTopics) -> None:
    """The name of a field is no way into the filter either."""
    asked = {
        f"r-{number}": {"tenant": "acme", "filter": {field: "x"}}
        for number, field in enumerate(
            (
                'team"] == "x" or meta["team',
                "team == 1 or true",
                "",
                " ",
                "team\n",
                "$meta",
                "team[0]",
                "a\\",
                "x" * 201,
            )
        )
    }
    for name, result in (await _results(stage, asked)).items():
        assert result["status"] == "rejected", asked[name]
        assert [problem["field"] for problem in result["error"]["fields"]] == ["filter"], asked[name]


async def _results(stage: StageTopics, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    ids = {name: f"{name}-{uuid.uuid4().hex}" for name in asked}  # the tests share the topics
    payloads = [
        request(ids[name], **{"query": "anything", "vector": VECTOR, **fields})
        for name, fields in asked.items()
    ]
    async with reading_results(stage) as log:
        await send_all(stage, payloads)
        await log.wait_for(ids.values(), timeout_s=120)
    return {name: orjson.loads(log.by_request[ids[name]][0].value or b"") for name in asked}


def _request(choose: random.Random) -> dict[str, Any]:
    """Make a request of a tenant, known or not, with up to three conditions that may hold."""
    tenant = choose.choice(HOSTILE)
    if choose.random() < 0.2:
        tenant = choose.choice(
            [tenant + '"', tenant + " ", tenant.swapcase(), tenant * 2, tenant[:-1] or "-"]
        )
    if not tenant.strip():
        tenant = "-"
    fields: dict[str, Any] = {"tenant": tenant}
    if choose.random() < 0.7:
        known = [row.metadata for row in ROWS if row.metadata.get(OWNER) == tenant]
        fields["filter"] = {
            field: _values(choose, field, known)
            for field in choose.sample(FIELDS, choose.choice([1, 1, 2, 3]))
        }
    return fields


def _values(choose: random.Random, field: str, known: list[Mapping[str, object]]) -> object:
    """Make a value or a list of values, often one that a row of the tenant has."""
    pool: list[object] = [*HOSTILE, *LEVELS, "x", 1]
    held = [metadata[field] for metadata in known if isinstance(metadata.get(field), str | int | float)]
    if held and choose.random() < 0.7:
        value = choose.choice(held)
        return value if choose.random() < 0.5 else [*choose.sample(pool, choose.randint(0, 30)), value]
    if choose.random() < 0.5:
        return choose.choice(pool)
    return choose.sample(pool, choose.randint(1, 30))


def _is_wanted(metadata: Mapping[str, object], fields: Mapping[str, Any]) -> bool:
    """Return whether a row satisfies a request, with none of the product's code."""
    if not _equal(metadata.get(OWNER), fields["tenant"]):
        return False
    return all(
        any(
            _equal(metadata.get(field), value) for value in (wanted if isinstance(wanted, list) else [wanted])
        )
        for field, wanted in fields.get("filter", {}).items()
    )


def _equal(left: object, right: object) -> bool:
    """Compare as JSON does: values of different types are different, and 1 is 1.0."""
    kinds = [
        "boolean" if isinstance(each, bool) else "number" if isinstance(each, int | float) else type(each)
        for each in (left, right)
    ]
    return kinds[0] == kinds[1] and left == right
