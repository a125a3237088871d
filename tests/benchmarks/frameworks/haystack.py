"""Haystack: a pipeline of a retriever for each path and a joiner, which drops duplicates and ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
from haystack import Document, Pipeline, component
from haystack.components.joiners import DocumentJoiner


@component
class Retriever:
    """Gives the hits of one path as documents; the engine has answered already."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:  # noqa: ARG002 - as retrievers are asked
        """Make the documents."""
        return {"documents": _documents(self._rows)}


def whole(paths: Sequence[dict[str, Any]], width: int) -> Callable[[], bytes]:
    """Run the components as a pipeline."""
    pipeline = Pipeline()
    pipeline.add_component("joiner", DocumentJoiner(top_k=width))
    names = [f"retriever_{path['query']}" for path in paths]
    for name, path in zip(names, paths, strict=True):
        pipeline.add_component(name, Retriever(path["hits"]))
        pipeline.connect(name, "joiner")
    asked = {name: {"query": "query"} for name in names}
    return lambda: _json(pipeline.run(asked)["joiner"]["documents"])


def by_hand(paths: Sequence[dict[str, Any]], width: int) -> Callable[[], bytes]:
    """Run the joiner on its own."""
    joiner = DocumentJoiner(top_k=width)
    return lambda: _json(joiner.run(documents=[_documents(path["hits"]) for path in paths])["documents"])


def _documents(rows: Sequence[dict[str, Any]]) -> list[Document]:
    return [
        Document(id=row["id"], content=row["content"], meta=row["metadata"], score=row["score"])
        for row in rows
    ]


def _json(documents: Sequence[Document]) -> bytes:
    return orjson.dumps([document.to_dict() for document in documents])
