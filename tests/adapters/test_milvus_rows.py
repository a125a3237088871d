"""From the rows of an answer to hits, whatever the rows hold: nothing that is stored fails a search."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pymilvus import DataType
from pymilvus.client.search_result import HybridHits
from pymilvus.grpc_gen import schema_pb2

from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.adapters.milvus_filter import MetadataLayout
from pipeline.adapters.milvus_rows import hits_of
from pipeline.identity import EVIDENCE_KEY, identify
from pipeline.model import Dropped, SearchHit

HUGE = 123_456_789_012_345_678_901_234_567_890
LOWEST_ID, HIGHEST_ID = -(2**63), 2**63 - 1


def strings(name: str, values: Sequence[str | None]) -> schema_pb2.FieldData:
    """Return a column of text, in which there may be null."""
    column = schema_pb2.FieldData(field_name=name, type=DataType.VARCHAR)
    column.scalars.string_data.data.extend(value or "" for value in values)
    if None in values:
        column.valid_data.extend(value is not None for value in values)
    return column


def jsons(name: str, cells: Sequence[bytes | None], *, dynamic: bool = False) -> schema_pb2.FieldData:
    """Return a column of JSON as the engine stores it, in which there may be null."""
    column = schema_pb2.FieldData(field_name=name, type=DataType.JSON, is_dynamic=dynamic)
    column.scalars.json_data.data.extend(cell or b"" for cell in cells)
    if None in cells:
        column.valid_data.extend(cell is not None for cell in cells)
    return column


def hits(
    ids: Sequence[int], *columns: schema_pb2.FieldData, start: int = 0, layout: MetadataLayout = "field"
) -> list[SearchHit]:
    """Return the hits of an answer's rows from the given one on."""
    scores = [1.0 - place / 10 for place in range(len(ids))]
    names = [column.field_name for column in columns]
    rows: Any = HybridHits(start, len(ids), list(ids), scores, list(columns), names, [], "id")
    return hits_of(rows, MilvusCollection(uri="", collection="kb", metadata_layout=layout), "COSINE")


def metadata_of(cell: bytes | None, *, layout: MetadataLayout) -> object:
    """Return the metadata of the second of three hits, whose neighbours are sound."""
    sound = json.dumps({"docId": "sound"}).encode()
    dynamic = layout == "flat"
    column = jsons("$meta" if dynamic else "metadata", [sound, cell, sound], dynamic=dynamic)
    first, found, last = hits([1, 2, 3], strings("content", ["a", "b", "c"]), column, layout=layout)
    assert first.metadata == last.metadata == {"docId": "sound"}
    assert (found.id, found.content) == (2, "b")
    return found.metadata


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (b'{"a": 1, "b": [true, null]}', {"a": 1, "b": [True, None]}),
        (b'{"docId": "a", "docId": "b"}', {"docId": "b"}),
        (b'{"title": "half \\ud83d"}', {"title": "half \ud83d"}),
        (b'{"title": "no UTF-8 \xff"}', {"title": "no UTF-8 \ufffd"}),
        (b'{"docId": %d}' % HUGE, {"docId": HUGE}),
        (b'{"docId": %d, "x": 0.5}' % (2**64), {"docId": 2**64, "x": 0.5}),
        (b'{"x": 1e300}', {"x": 1e300}),
    ],
)
@pytest.mark.parametrize("layout", ["field", "flat"])
def test_object_is_read_as_it_is(cell: bytes, expected: Mapping[str, object], layout: MetadataLayout) -> None:
    """Integers of any size stay exact, and what only lenient parsers read is read."""
    assert metadata_of(cell, layout=layout) == expected


@pytest.mark.parametrize(
    "cell",
    [
        None,
        b"",
        b"null",
        b"5",
        b"true",
        b"[1, 2]",
        b"{bad",
        b"\xff",
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b'{"a":' + b"9" * 5_000 + b"}",
    ],
    ids=["absent", "empty", "null", "number", "boolean", "list", "cut", "no UTF-8", "deep", "long"],
)
def test_what_is_no_object_is_no_metadata(cell: bytes | None) -> None:
    """The row is a hit all the same, without a document; its neighbours are not touched."""
    assert metadata_of(cell, layout="field") is None
    assert metadata_of(cell, layout="flat") == {}


def test_large_float_in_deep_json_is_kept() -> None:
    """What only the fast parser reads is taken from it, though it rounds integers of more than 64 bits."""
    metadata = metadata_of(b'{"x": 1e300, "y": %s}' % (b"[" * 1_000 + b"]" * 1_000), layout="field")
    assert isinstance(metadata, dict)
    assert (list(metadata), metadata["x"]) == (["x", "y"], 1e300)


def test_json_that_is_text_is_kept_as_text() -> None:
    """It may be the JSON of an object, as in a field of JSON text."""
    assert metadata_of(b'"{\\"docId\\": \\"a\\"}"', layout="field") == '{"docId": "a"}'
    assert metadata_of(b'"text"', layout="flat") == {}


def test_cells_of_later_queries_start_later() -> None:
    """The answers to all queries of a call share their columns."""
    column = jsons("metadata", [b'{"docId": "a"}', None, b'{"docId": "c"}'])
    found = hits([1, 2, 3], strings("content", ["a", "b", "c"]), column, start=1)
    assert [(hit.id, hit.content, hit.metadata) for hit in found] == [
        (2, "b", None),
        (3, "c", {"docId": "c"}),
    ]


def test_field_of_the_schema_is_not_replaced_by_a_dynamic_one() -> None:
    """Conditions are on the schema's field, so that is the one that agents are shown."""
    columns = strings("content", ["own"]), strings("owner", ["acme"])
    dynamic = jsons("$meta", [b'{"owner": "other", "content": "other", "docId": "a"}'], dynamic=True)
    [hit] = hits([1], *columns, dynamic, layout="flat")
    assert hit.content == "own"
    assert hit.metadata == {"owner": "acme", "docId": "a"}


def test_ids_are_exact_and_empty_contents_are_counted() -> None:
    """Every row is a hit with its own id, or one that the ledger counts as rejected."""
    ids = [2**53 + 1, LOWEST_ID, HIGHEST_ID, HIGHEST_ID - 1]
    columns = strings("content", ["text", None, " ", ""]), jsons("metadata", [b"null", b"[]", None, b"7"])
    found = [identify(hit, 0, rank) for rank, hit in enumerate(hits(ids, *columns), 1)]
    assert [each.reason if isinstance(each, Dropped) else each[EVIDENCE_KEY] for each in found] == [
        f"vector:{2**53 + 1}",
        *["empty_content"] * 3,
    ]
    assert [each.document_id for each in found if isinstance(each, Dropped)] == [
        f"vector:{number}" for number in ids[1:]
    ]
