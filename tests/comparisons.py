"""Recordings that are compared, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline.lookup import LookupPipeline
from pipeline.model import Limits, Vector
from pipeline.testing.in_memory import InMemorySearch, Row
from streams.comparison.comparing import Comparison, ComparisonOptions, compare_files
from streams.comparison.differences import Difference, difference
from streams.comparison.reading import side_of
from streams.recordings.files import writing_recordings
from streams.recordings.recording import Recording, encode_recording
from tests.builders import lookup, recording


def written(file: Path, recordings: Iterable[Recording]) -> Path:
    """Write a file of recordings."""
    with writing_recordings(file) as write:
        for one in recordings:
            write(encode_recording(one))
    return file


def compared(base: Recording, candidate: Recording, *, depth: int = 10) -> Difference:
    """Compare two recordings of a request."""
    return difference(side_of(base, explain=False), side_of(candidate, explain=True), depth=depth)


def all_compared(
    folder: Path,
    base: Iterable[Recording],
    candidate: Iterable[Recording],
    options: ComparisonOptions | None = None,
) -> Comparison:
    """Compare two files of recordings."""
    return compare_files(
        written(folder / "base.jsonl", base),
        written(folder / "candidate.jsonl.zst", candidate),
        options or ComparisonOptions(),
    )


def row(doc_id: str, chunk_index: int, *vector: float, content: str | None = None) -> Row:
    """Return a chunk of an index."""
    return Row(
        id=f"{doc_id}#chunk-{chunk_index}",
        content=content or f"What {doc_id} says in part {chunk_index}.",
        metadata={"docId": doc_id, "chunkIndex": chunk_index},
        vector=vector,
    )


async def answered(
    rows: Sequence[Row], questions: Sequence[Vector], *, widths: Limits | None = None
) -> list[Recording]:
    """Record the answers to questions, `r-0` and so on, from an index held in memory."""
    pipeline = LookupPipeline(InMemorySearch(rows), None)
    recordings = []
    for number, question in enumerate(questions):
        asked = lookup(f"question {number}", vectors=(question,), widths=widths)
        found = await pipeline.run(asked, timeout_s=10)
        recordings.append(recording(*found.answers, widths=asked.limits, request_id=f"r-{number}"))
    return recordings
