"""From the rows of a Milvus answer to hits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import orjson

from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.model import SearchHit

_BEYOND_64_BITS = 2.0**63


def hits_of(rows: Any, collection: MilvusCollection, metric: str) -> list[SearchHit]:
    """Read the rows that were found for one query.

    Args:
        rows: As the client gives them, best first.
        collection: What its fields are called.
        metric: Metric of its index.

    Returns:
        One hit a row, in order. With COSINE and IP the score is the engine's figure, with L2 it is
        `1 / (1 + distance)`.
    """
    entities, distances = _entities(rows), rows.distances
    contents = [entity.get(collection.content_field) for entity in entities]
    scores = [1.0 / (1.0 + distance) for distance in distances] if metric == "L2" else distances
    metadata = _metadata(entities, collection)
    return list(map(SearchHit, rows.ids, contents, metadata, scores, distances, repeat(metric)))


def _entities(rows: Any) -> Sequence[dict[str, Any]]:
    """Return the fields of each row.

    The client decodes JSON cell by cell, each with a question for its type, and fails for all rows where it
    cannot read one. So columns of JSON, the only ones that it leaves for later, are read here.
    """
    entities = [dict.__getitem__(row, "entity") for row in list.__iter__(rows)]
    for column in rows.lazy_field_data:
        cells = _cells(column, rows.start, rows.start + len(entities))
        if column.is_dynamic:
            for entity, found in zip(entities, cells, strict=True):
                if isinstance(found, dict):
                    # The schema's fields are what the engine filters by.
                    entity.update({name: value for name, value in found.items() if name not in entity})
        else:
            for entity, found in zip(entities, cells, strict=True):
                entity[column.field_name] = found
    return entities


def _cells(column: Any, start: int, end: int) -> Iterable[Any]:
    cells = map(_read_json, column.scalars.json_data.data[start:end])
    if not column.valid_data:
        return cells
    return (cell if valid else None for cell, valid in zip(cells, column.valid_data[start:end], strict=True))


def _read_json(cell: bytes) -> Any:
    """Return the value of a cell, or `None` where it cannot be read: the row is found all the same."""
    try:
        value = orjson.loads(cell)
    except ValueError:
        # Milvus keeps what orjson refuses, such as half of an emoji that another client has cut.
        return _read_leniently(cell)
    if type(value) is dict and float in map(type, value.values()) and _may_be_rounded(value):
        exact = _read_leniently(cell)
        return value if exact is None else exact
    return value


def _may_be_rounded(value: Mapping[str, object]) -> bool:
    """Whether a number may have been an integer of more than 64 bits, of which orjson makes a float."""
    return any(isinstance(each, float) and abs(each) >= _BEYOND_64_BITS for each in value.values())


def _read_leniently(cell: bytes) -> Any:
    try:
        return json.loads(cell.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _metadata(entities: Sequence[dict[str, Any]], collection: MilvusCollection) -> Sequence[Any]:
    if collection.metadata_layout == "field":
        found = [entity.get(collection.metadata_field) for entity in entities]
        return [value if isinstance(value, (dict, str)) else None for value in found]
    return [
        {name: value for name, value in entity.items() if name != collection.content_field}
        for entity in entities
    ]
