"""Indexing from end to end: read, embed, write, and delete what is no longer there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.model import Vector
from pipeline.ports import EmbeddingPort
from streams.indexing.chunks import Chunk
from streams.indexing.documents import read_documents
from streams.indexing.milvus_index import MilvusIndex

BATCH_SIZE = 256
EMBED_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What indexing came to.

    Attributes:
        documents: How many documents were read.
        chunks: How many chunks they have.
        written: How many rows were written, those that were there already included.
        deleted: How many rows of these documents were deleted because they are no chunks of theirs any more.
    """

    documents: int
    chunks: int
    written: int
    deleted: int


async def index_documents(
    source: Path,
    index: MilvusIndex,
    embedder: EmbeddingPort,
    progress: Callable[[int, int], None],
) -> IndexReport:
    """Bring a collection up to date with documents; doing so again changes nothing.

    Of a document that has become shorter, the chunks it has no more are deleted. Documents that are in the
    collection and not in the source are left alone: other sources may have brought them. When this returns,
    searches see what was written.

    Args:
        source: A folder of Markdown files, or a file of chunks (see `read_documents`).
        index: The collection, open.
        embedder: Started; for the chunks that do not bring their vectors.
        progress: Called with the number of chunks written so far and the number of all, first with 0.

    Raises:
        ConfigurationError: One line saying what cannot be read or written.
        SearchError: The embedder fails.
    """
    documents = await asyncio.to_thread(read_documents, source)
    chunks = [chunk for document in documents for chunk in document.chunks]
    _check_vectors(chunks, index.dimension, source)
    written = 0
    progress(written, len(chunks))
    for batch in _batches(chunks):
        await index.write(batch, await _vectors(batch, embedder))
        written += len(batch)
        progress(written, len(chunks))
    deleted = await index.delete_stale(
        [document.doc_id for document in documents], {chunk.key for chunk in chunks}
    )
    await index.settle()
    return IndexReport(documents=len(documents), chunks=len(chunks), written=written, deleted=deleted)


def _batches(chunks: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
    return (chunks[start : start + BATCH_SIZE] for start in range(0, len(chunks), BATCH_SIZE))


def _check_vectors(chunks: Sequence[Chunk], dimension: int, source: Path) -> None:
    """Check the vectors that the source brings, before anything is written."""
    for chunk in chunks:
        if chunk.vector is not None and len(chunk.vector) != dimension:
            raise ConfigurationError(
                f"{source}: its vectors have {len(chunk.vector)} dimensions, the collection's {dimension}"
            )


async def _vectors(batch: Sequence[Chunk], embedder: EmbeddingPort) -> Sequence[Vector]:
    """Return the batch's vectors, embedding only where the source brings none."""
    texts = [chunk.embedding_text for chunk in batch if chunk.vector is None]
    embedded = iter(await embedder.embed(texts, timeout_s=EMBED_TIMEOUT_S) if texts else ())
    return [chunk.vector if chunk.vector is not None else next(embedded) for chunk in batch]
