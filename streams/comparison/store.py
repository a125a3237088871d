"""The sides of both files by request id, on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson
import zstandard

from pipeline.model import Budget, Limits
from streams.comparison.sides import Fate, Item, Side

Which: TypeAlias = Literal["base", "candidate"]

MAX_NAMED = 5
"""So many request ids are named; the others are counted."""

_TABLE = """
CREATE TABLE sides (
    file TEXT, request_id TEXT, at INTEGER, size INTEGER, digest TEXT, PRIMARY KEY (file, request_id)
) WITHOUT ROWID
"""
_FIND = "SELECT digest FROM sides WHERE file = ? AND request_id = ?"
_PUT = "INSERT OR REPLACE INTO sides VALUES (?, ?, ?, ?, ?)"
_JOINED = """
FROM sides AS base JOIN sides AS candidate USING (request_id)
WHERE base.file = 'base' AND candidate.file = 'candidate'
"""
_ALONE = """
FROM sides AS own WHERE own.file = ? AND NOT EXISTS (
    SELECT 1 FROM sides AS other WHERE other.file = ? AND other.request_id = own.request_id
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """The requests of one file.

    Attributes:
        recordings: How many recordings it has.
        repeated: Those of a request that was there before with the same result, as after a redelivery.
        replaced: Those of a request that was there before with another result; the last one counts.
        replaced_ids: The first few of their ids.
        alone: Requests that only this file has.
        alone_ids: A few of their ids.
    """

    recordings: int
    repeated: int
    replaced: int
    replaced_ids: tuple[str, ...]
    alone: int
    alone_ids: tuple[str, ...]


@dataclass(slots=True)
class _Seen:
    recordings: int = 0
    repeated: int = 0
    replaced: int = 0
    replaced_ids: list[str] = field(default_factory=list)


class SideStore:
    """Sides in a folder; memory holds some pages of their index and one pair at a time."""

    def __init__(self, folder: Path) -> None:
        """Initialize with a folder for its files."""
        self._file = (folder / "sides").open("w+b")
        self._index = temporary_database(folder / "sides.sqlite", _TABLE)
        self._end = 0
        self._seen: dict[Which, _Seen] = {"base": _Seen(), "candidate": _Seen()}

    def put(self, which: Which, side: Side) -> None:
        """Keep a side; of several of one request the last one counts."""
        seen = self._seen[which]
        seen.recordings += 1
        before = self.digest(which, side.request_id)
        if before == side.digest:
            seen.repeated += 1
        elif before is not None:
            seen.replaced += 1
            if len(seen.replaced_ids) < MAX_NAMED:
                seen.replaced_ids.append(side.request_id)
        packed = zstandard.compress(orjson.dumps(side), 1)
        self._file.write(packed)
        self._index.execute(_PUT, (which, side.request_id, self._end, len(packed), side.digest))
        self._end += len(packed)

    def digest(self, which: Which, request_id: str) -> str | None:
        """Return the digest of a request's result, or `None` where the file has no such request."""
        found: tuple[str] | None = self._index.execute(_FIND, (which, request_id)).fetchone()
        return found and found[0]

    def pairs(self) -> Iterator[tuple[Side, Side]]:
        """Yield both sides of each request that both files have, in the base's order."""
        places = f"SELECT base.at, base.size, candidate.at, candidate.size {_JOINED} ORDER BY base.at"
        for base_at, base_size, candidate_at, candidate_size in self._index.execute(places):
            yield self._side(base_at, base_size), self._side(candidate_at, candidate_size)

    def counts(self, which: Which) -> FileCounts:
        """Count the requests of a file, once all of both are there."""
        seen = self._seen[which]
        files = (which, "candidate" if which == "base" else "base")
        [alone] = self._index.execute(f"SELECT count(*) {_ALONE}", files).fetchone()
        some = self._index.execute(f"SELECT request_id {_ALONE} LIMIT {MAX_NAMED}", files)
        return FileCounts(
            recordings=seen.recordings,
            repeated=seen.repeated,
            replaced=seen.replaced,
            replaced_ids=tuple(seen.replaced_ids),
            alone=alone,
            alone_ids=tuple(key for (key,) in some),
        )

    @property
    def joined(self) -> int:
        """How many requests both files have."""
        [count] = self._index.execute(f"SELECT count(*) {_JOINED}").fetchone()
        joined: int = count
        return joined

    def close(self) -> None:
        """Release its files."""
        self._index.close()
        self._file.close()

    def _side(self, at: int, size: int) -> Side:
        self._file.seek(at)
        return _side(orjson.loads(zstandard.decompress(self._file.read(size))))


def temporary_database(file: Path, table: str) -> sqlite3.Connection:
    """Open a database that nobody needs after a crash."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -65536")  # KiB
    connection.execute(table)
    connection.execute("BEGIN")
    return connection


def _side(members: dict[str, Any]) -> Side:
    limits, budget = members.pop("limits"), members.pop("budget")
    return Side(
        queries=tuple(members.pop("queries")),
        answered=tuple(members.pop("answered")),
        items=tuple([Item(**item) for item in members.pop("items")]),
        fates=tuple([Fate(**fate) for fate in members.pop("fates")]),
        limits=None if limits is None else Limits(**limits),
        budget=None if budget is None else Budget(**budget),
        **members,
    )
