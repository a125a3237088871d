"""LangChain: a merger of a retriever for each path, and its function that drops duplicates.

`EnsembleRetriever` drops them too, but ranks by ranks alone and takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import orjson
from langchain_classic.retrievers import MergerRetriever
from langchain_classic.retrievers.ensemble import unique_by_key
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.retrievers import BaseRetriever


class Retriever(BaseRetriever):
    """Gives the hits of one path as documents; the engine has answered already."""

    rows: list[dict[str, Any]]

    def _get_relevant_documents(
        self,
        query: str,  # noqa: ARG002 - as it is asked
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - as it is asked
    ) -> list[Document]:
        return _documents(self.rows)


def whole(paths: Sequence[dict[str, Any]], width: int) -> Callable[[], bytes]:
    """Run the merger, and serialise as the library does."""
    merger = MergerRetriever(retrievers=[Retriever(rows=path["hits"]) for path in paths])
    return lambda: orjson.dumps(dumpd(_distinct(merger.invoke("query"))[:width]))


def by_hand(paths: Sequence[dict[str, Any]], width: int) -> Callable[[], bytes]:
    """Take from the library its documents, as the Pydantic models that they are, and its function."""

    def joined() -> bytes:
        distinct = _distinct(chain.from_iterable(_documents(path["hits"]) for path in paths))
        return orjson.dumps([document.model_dump() for document in distinct[:width]])

    return joined


def _documents(rows: Sequence[dict[str, Any]]) -> list[Document]:
    return [
        Document(
            id=row["id"],
            page_content=row["content"],
            metadata=row["metadata"] | {"score": row["score"]},
        )
        for row in rows
    ]


def _distinct(documents: Iterable[Document]) -> list[Document]:
    """Rank by the scores, which documents have among their metadata, and keep the best of equal ones."""
    ranked = sorted(documents, key=lambda document: document.metadata["score"], reverse=True)
    return list(unique_by_key(ranked, lambda document: document.id))
