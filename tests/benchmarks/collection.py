"""The collection that is searched: real sentences, embedded, sealed and under its index."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from pipeline.adapters.milvus_client import MilvusClient
from streams.settings.model import Settings
from streams.worker.bootstrap import index_path
from tests.integration.corpus import write_chunks

NAME = "benchmarks"
DOCUMENTS, CHUNKS_PER_DOCUMENT = 500, 8
CHUNKS = DOCUMENTS * CHUNKS_PER_DOCUMENT
SEALED_WITHIN_S = 120.0
POLL_S = 0.5


def index_corpus(folder: Path, uri: str) -> None:
    """Make the collection anew and wait until searches go through its index, and will go on to.

    Until then Milvus compares each query with every row, and a search costs it six times as much.

    Args:
        folder: For the file of chunks.
        uri: Milvus, which the settings name too.

    Raises:
        TimeoutError: Milvus takes more than two minutes over a step.
    """
    client = MilvusClient(uri=uri)
    try:
        client.drop_collection(NAME)
        file = folder / "chunks.jsonl"
        write_chunks(file, documents=DOCUMENTS, chunks_per_document=CHUNKS_PER_DOCUMENT)
        asyncio.run(index_path(Settings(), file, lambda _done, _all: None))
        client.flush(NAME)
        _wait(lambda: _loaded(client) != {})
        # Writing rows anew has left deletions, which Milvus would clear away by itself in the midst of it
        # all, and under another graph some queries find other rows.
        compaction = client.compact(NAME)
        _wait(lambda: client.get_compaction_state(compaction) == "Completed")
        _wait(lambda: _loaded(client) == _kept(client) and sum(_loaded(client).values()) == CHUNKS)
    finally:
        client.close()


def _loaded(client: MilvusClient) -> dict[int, int]:
    """Return the number of rows of each segment that is searched; one that still grows is not listed."""
    return {segment.segment_id: segment.num_rows for segment in client.list_loaded_segments(NAME)}


def _kept(client: MilvusClient) -> dict[int, int]:
    return {segment.segment_id: segment.num_rows for segment in client.list_persistent_segments(NAME)}


def _wait(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + SEALED_WITHIN_S
    while not holds():
        if time.monotonic() > give_up:
            raise TimeoutError(f"collection {NAME} is not sealed after {SEALED_WITHIN_S:g} s")
        time.sleep(POLL_S)
