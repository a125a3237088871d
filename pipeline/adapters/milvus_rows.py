"""From the rows of a Milvus answer to hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pipeline.adapters.milvus_client import DataType
from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.model import SearchHit


def hits_of(rows: Any, collection: MilvusCollection, metric: str) -> list[SearchHit]:
    """Reads the rows that were found for one query.

    Args:
        rows: As the client gives them, best first.
        collection: What its fields are called.
        metric: Metric of its index.

    Returns:
        One hit a row, in order. With COSINE and IP the score is the engine's figure, with L2 it is
        `1 / (1 + distance)`.
    """
    content_field = collection.content_field
    metadata_of = _field_metadata if collection.metadata_layout == "field" else _flat_metadata
    return [
        SearchHit(
            row_id,
            entity.get(content_field),
            metadata_of(entity, collection),
            1.0 / (1.0 + distance) if metric == "L2" else distance,
            distance,
            metric,
        )
        for row_id, distance, entity in zip(rows.ids, rows.distances, _entities(rows), strict=True)
    ]


def _entities(rows: Any) -> Sequence[dict[str, Any]]:
    """Gives the fields of each row.

    Rows decode their JSON when they are looked at, cell by cell, each with a question for its type; a column
    of plain JSON is read in one go.
    """
    columns = rows.lazy_field_data
    if not all(_is_plain_json(column) for column in columns):
        rows.materialize()
        columns = ()
    entities = [row.get("entity") for row in list.__iter__(rows)]
    for column in columns:
        name, cells = column.field_name, column.scalars.json_data.data
        for entity, cell in zip(entities, cells[rows.start : rows.start + len(entities)], strict=True):
            entity[name] = orjson.loads(cell)
    return entities


def _is_plain_json(column: Any) -> bool:
    return column.type == DataType.JSON and not column.is_dynamic and not column.valid_data


def _field_metadata(
    entity: Mapping[str, Any], collection: MilvusCollection
) -> Mapping[str, object] | str | None:
    value = entity.get(collection.metadata_field)
    return value if isinstance(value, (dict, str)) else None


def _flat_metadata(entity: Mapping[str, Any], collection: MilvusCollection) -> Mapping[str, object]:
    return {name: value for name, value in entity.items() if name != collection.content_field}
