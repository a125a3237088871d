"""From the rows of a Milvus answer to hits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import orjson

from pipeline.adapters.milvus_client import DataType
from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.model import SearchHit


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

    Rows decode their JSON when they are looked at, cell by cell, each with a question for its type; a column
    of plain JSON is read in one go.
    """
    columns = rows.lazy_field_data
    if not all(_is_plain_json(column) for column in columns):
        rows.materialize()
        columns = ()
    entities = [dict.__getitem__(row, "entity") for row in list.__iter__(rows)]
    for column in columns:
        name, cells = column.field_name, column.scalars.json_data.data
        for entity, cell in zip(entities, cells[rows.start : rows.start + len(entities)], strict=True):
            entity[name] = orjson.loads(cell)
    return entities


def _is_plain_json(column: Any) -> bool:
    return column.type == DataType.JSON and not column.is_dynamic and not column.valid_data


def _metadata(entities: Sequence[dict[str, Any]], collection: MilvusCollection) -> Sequence[Any]:
    if collection.metadata_layout == "field":
        found = [entity.get(collection.metadata_field) for entity in entities]
        return [value if isinstance(value, (dict, str)) else None for value in found]
    return [
        {name: value for name, value in entity.items() if name != collection.content_field}
        for entity in entities
    ]
