"""Documents that nothing is retrieved of any more."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from streams.comparison.differences import Difference
from streams.comparison.store import temporary_database

MAX_NAMED = 20
MAX_IN_MEMORY = 50_000

_TABLE = """
CREATE TABLE documents (doc_id TEXT PRIMARY KEY, had INTEGER, missed INTEGER, has INTEGER) WITHOUT ROWID
"""
_ADD = """
INSERT INTO documents VALUES (?, ?, ?, ?) ON CONFLICT (doc_id) DO UPDATE
SET had = had + excluded.had, missed = missed + excluded.missed, has = has + excluded.has
"""
_GONE = "FROM documents WHERE had > 0 AND had = missed AND has = 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneDocument:
    """A document of the base's evidence of which no request of the candidate retrieved those chunks.

    Attributes:
        doc_id: Its id.
        requests: How many requests of the base had evidence of it.
    """

    doc_id: str
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneDocuments:
    """Documents that are not retrieved any more.

    Attributes:
        count: How many there are.
        most_used: Those that were in the evidence of most requests, the most used first.
    """

    count: int
    most_used: tuple[GoneDocument, ...]


class DocumentTally:
    """Counts in how many requests each document is evidence, on disk."""

    def __init__(self, folder: Path) -> None:
        """Initialize with a folder for its file."""
        self._database = temporary_database(folder / "documents.sqlite", _TABLE)
        self._counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])

    def add(self, difference: Difference) -> None:
        """Count one request that was compared."""
        present = {item.doc_id for item in difference.candidate.items if item.doc_id is not None}
        had = {item.doc_id for item in difference.base.items if item.doc_id is not None}
        missed = had - {pair.base.doc_id for pair in difference.pairs}
        missed -= {lost.item.doc_id for lost in difference.lost if lost.reason != "not_retrieved"}
        for place, documents in enumerate((had, missed, present)):
            for doc_id in documents:
                self._counts[doc_id][place] += 1
        if len(self._counts) > MAX_IN_MEMORY:
            self._flush()

    def gone(self) -> GoneDocuments:
        """Return the documents that are not retrieved any more."""
        self._flush()
        [count] = self._database.execute(f"SELECT count(*) {_GONE}").fetchone()
        most_used = self._database.execute(
            f"SELECT doc_id, had {_GONE} ORDER BY had DESC, doc_id LIMIT {MAX_NAMED}"
        )
        return GoneDocuments(
            count=count,
            most_used=tuple(GoneDocument(doc_id=doc_id, requests=had) for doc_id, had in most_used),
        )

    def close(self) -> None:
        """Release its file."""
        self._database.close()

    def _flush(self) -> None:
        rows = ((doc_id, *counts) for doc_id, counts in self._counts.items())
        self._database.executemany(_ADD, rows)
        self._counts.clear()
