"""LlamaIndex: a fusion retriever, which drops duplicates and ranks, over a retriever for each path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class Retriever(BaseRetriever):
    """Gives the hits of one path as nodes; the engine has answered already."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:  # noqa: ARG002 - as it is asked
        return _nodes(self._rows)


def whole(paths: Sequence[dict[str, Any]], width: int) -> Callable[[], bytes]:
    """Run the fusion retriever: one query, so no model is asked for more, and no event loop of its own."""
    retriever = QueryFusionRetriever(
        [Retriever(path["hits"]) for path in paths],
        llm=MockLLM(),
        mode="simple",
        similarity_top_k=width,
        num_queries=1,
        use_async=False,
    )
    return lambda: _json(retriever.retrieve("query"))


def by_hand(paths: Sequence[dict[str, Any]], width: int) -> Callable[[], bytes]:
    """Fuse the nodes by their ids, as its guide to a retriever from scratch does in code of its own."""

    def fused() -> bytes:
        best: dict[str, NodeWithScore] = {}
        for path in paths:
            for node in _nodes(path["hits"]):
                known = best.get(node.node_id)
                if known is None or node.score > known.score:
                    best[node.node_id] = node
        return _json(sorted(best.values(), key=lambda node: node.score, reverse=True)[:width])

    return fused


def _nodes(rows: Sequence[dict[str, Any]]) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(id_=row["id"], text=row["content"], metadata=row["metadata"]), score=row["score"]
        )
        for row in rows
    ]


def _json(nodes: Sequence[NodeWithScore]) -> bytes:
    return orjson.dumps([node.to_dict() for node in nodes])
