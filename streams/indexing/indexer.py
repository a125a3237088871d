"""Indexing from end to end: read, embed, write, and delete what is no longer there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.model import Vector
from pipeline.ports import EmbeddingPort
from streams.indexing.chunks import MAX_CHUNK_CHARACTERS, Chunk
from streams.indexing.documents import Documents, read_source
from streams.indexing.milvus_index import MilvusIndex
from streams.indexing.statistics import PieceStatistics, statistics_of

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
        pieces: How long the chunks are, and how many of them are mostly markup.
        passed_over: How many entries of a folder were passed over, by what they are.
    """

    documents: int
    chunks: int
    written: int
    deleted: int
    pieces: PieceStatistics
    passed_over: Mapping[str, int]


async def index_documents(
    found: Documents, index: MilvusIndex, embedder: EmbeddingPort, progress: Callable[[int, int], None]
) -> IndexReport:
    """Bring a collection up to date with documents; doing so again changes nothing.

    Of a document that has become shorter, the chunks it has no more are deleted. Documents that are in the
    collection and not in the source are left alone: other sources may have brought them. When this returns,
    searches see what was written.

    Args:
        found: The documents, as `read_source` returns them for the index's dimension.
        index: The collection, open.
        embedder: Started; for the chunks that do not bring their vectors.
        progress: Called with the number of chunks written so far and the number of all, first with 0.

    Raises:
        ConfigurationError: One line saying what cannot be written.
        SearchError: The embedder fails.
    """
    chunks = _chunks(found)
    written = 0
    progress(written, len(chunks))
    for batch in _batches(chunks):
        await index.write(batch, await _vectors(batch, embedder))
        written += len(batch)
        progress(written, len(chunks))
    deleted = await index.delete_stale(
        [document.doc_id for document in found.documents], {chunk.key for chunk in chunks}
    )
    await index.settle()
    return _report(found, written=written, deleted=deleted)


def plan_index(source: Path, *, chunk_size: int = MAX_CHUNK_CHARACTERS) -> IndexReport:
    """Read and check what there is to index, without embedding or writing any of it.

    Raises:
        ConfigurationError: One line saying what cannot be read.
    """
    return _report(read_source(source, chunk_size=chunk_size), written=0, deleted=0)


def _report(found: Documents, *, written: int, deleted: int) -> IndexReport:
    chunks = _chunks(found)
    return IndexReport(
        documents=len(found.documents),
        chunks=len(chunks),
        written=written,
        deleted=deleted,
        pieces=statistics_of([chunk.content for chunk in chunks]),
        passed_over=found.passed_over,
    )


def _chunks(found: Documents) -> list[Chunk]:
    return [chunk for document in found.documents for chunk in document.chunks]


def _batches(chunks: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
    return (chunks[start : start + BATCH_SIZE] for start in range(0, len(chunks), BATCH_SIZE))


async def _vectors(batch: Sequence[Chunk], embedder: EmbeddingPort) -> Sequence[Vector]:
    """Return the batch's vectors, embedding only where the source brings none."""
    texts = [chunk.embedding_text for chunk in batch if chunk.vector is None]
    embedded = iter(await embedder.embed(texts, timeout_s=EMBED_TIMEOUT_S) if texts else ())
    return [chunk.vector if chunk.vector is not None else next(embedded) for chunk in batch]
