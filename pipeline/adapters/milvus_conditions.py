"""The conditions of a search over a collection: the engine's expression, and the check of what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.adapters.conditions import Predicate, predicate
from pipeline.adapters.milvus_collection import CollectionShape, MilvusCollection
from pipeline.adapters.milvus_filter import filter_expression
from pipeline.adapters.milvus_values import as_held
from pipeline.errors import SearchRejected
from pipeline.model import Condition, SearchHit


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Conditions as one collection understands them.

    Attributes:
        expression: What the engine is asked for; empty without conditions.
        satisfiable: Whether the collection's types allow a row that satisfies them.
        holds: Whether the fields of a row satisfy them; `None` without conditions.
        beside_metadata: Names of the id and the content, where a condition is on one of them.
    """

    expression: str = ""
    satisfiable: bool = True
    holds: Predicate | None = None
    beside_metadata: tuple[str, str] | None = None

    def matching(self, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Return the hits that satisfy the conditions, in order.

        In JSON Milvus Lite takes `true` for `1`, and Milvus rounds integers of more than 53 bits. Fields of
        the schema are found exactly; they are checked as well, so that no tenant depends on the engine alone.
        """
        holds = self.holds
        if holds is None:
            return hits
        rows = [hit.metadata if isinstance(hit.metadata, Mapping) else {} for hit in hits]
        if self.beside_metadata is not None:
            names = self.beside_metadata
            rows = [
                {**row, **dict(zip(names, (hit.id, hit.content), strict=True))}
                for row, hit in zip(rows, hits, strict=True)
            ]
        return [hit for hit, row in zip(hits, rows, strict=True) if holds(row)]


def row_filter(
    conditions: Sequence[Condition], collection: MilvusCollection, shape: CollectionShape
) -> RowFilter:
    """Return the conditions as the collection understands them.

    With the flat layout a condition may be on any field of the schema, the id and the content too.

    Raises:
        SearchRejected: A condition is on a field that the collection has not or cannot compare, or a value
            cannot be written for the engine.
    """
    if not conditions:
        return RowFilter()
    if not shape.filterable:
        raise SearchRejected("the collection keeps its metadata as text, which cannot be filtered")
    flat = collection.metadata_layout == "flat"
    if flat and not shape.dynamic:
        for condition in conditions:
            if condition.field not in shape.types:
                raise SearchRejected(f"the collection has no field {condition.field!r}")
    held = as_held(conditions, shape.types)
    satisfiable = [condition for condition in held if condition.any_of]
    # Written even where there is nothing to ask for: a value that is refused beside others is refused always.
    expression = filter_expression(
        satisfiable,
        layout=collection.metadata_layout,
        metadata_field=collection.metadata_field,
        declared=shape.types,
    )
    if len(satisfiable) < len(held):
        return RowFilter(satisfiable=False)
    names = (collection.id_field, collection.content_field)
    return RowFilter(
        expression=expression,
        holds=predicate(held),
        beside_metadata=names if flat and any(each.field in names for each in held) else None,
    )
