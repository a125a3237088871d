"""The collection that is searched: real sentences, embedded, sealed and under its index."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pipeline.adapters.milvus_client import MilvusClient
from streams.bootstrap import index_path
from streams.settings import Settings
from tests.integration.corpus import write_chunks

NAME = "benchmarks"
DOCUMENTS, CHUNKS_PER_DOCUMENT = 500, 8
CHUNKS = DOCUMENTS * CHUNKS_PER_DOCUMENT
SEALED_WITHIN_S = 60.0
POLL_S = 0.5


def index_corpus(folder: Path, uri: str) -> None:
    """Makes the collection anew and waits until searches go through its index.

    Until then Milvus compares each query with every row, and a search costs it six times as much.

    Args:
        folder: For the file of chunks.
        uri: Milvus, which the settings name too.

    Raises:
        TimeoutError: The index is not in use after a minute.
    """
    client = MilvusClient(uri=uri)
    try:
        client.drop_collection(NAME)
        file = folder / "chunks.jsonl"
        write_chunks(file, documents=DOCUMENTS, chunks_per_document=CHUNKS_PER_DOCUMENT)
        asyncio.run(index_path(Settings(), file, lambda _done, _all: None))
        client.flush(NAME)
        give_up = time.monotonic() + SEALED_WITHIN_S
        while _rows_under_index(client) < CHUNKS:
            if time.monotonic() > give_up:
                raise TimeoutError(f"collection {NAME} is not sealed after {SEALED_WITHIN_S:g} s")
            time.sleep(POLL_S)
    finally:
        client.close()


def _rows_under_index(client: MilvusClient) -> int:
    """Counts the rows of loaded segments; one that still grows is not listed."""
    return sum(int(segment.num_rows) for segment in client.list_loaded_segments(NAME))
