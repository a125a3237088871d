"""Compares two files of recordings."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from streams.comparison.differences import Difference, difference
from streams.comparison.documents import DocumentTally, GoneDocuments
from streams.comparison.reading import result_digest, side_of
from streams.comparison.relevance import Judgements, Relevance, RelevanceTally
from streams.comparison.sides import as_published
from streams.comparison.store import FileCounts, SideStore, Which
from streams.comparison.summary import SummaryTally, Totals
from streams.comparison.worst import Worst
from streams.output.files import OutputFailed
from streams.recordings.files import read_recordings
from streams.recordings.recording import RecordingUnreadable

JOINED_BETWEEN_REPORTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What became of all requests.

    Attributes:
        base: Name of the one file.
        candidate: Name of the other.
        depth: How many of the first items Jaccard and the measures of relevance look at.
        base_counts: The requests of the one file.
        candidate_counts: The requests of the other.
        totals: What changed over the requests that both have.
        gone: Documents that are not retrieved any more.
        worst: The requests that changed most, the worst first.
        relevance: How good both are, where judgements were given.
    """

    base: str
    candidate: str
    depth: int
    base_counts: FileCounts
    candidate_counts: FileCounts
    totals: Totals
    gone: GoneDocuments
    worst: tuple[Difference, ...]
    relevance: Relevance | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOptions:
    """How to compare.

    Attributes:
        depth: How many of the first items Jaccard and the measures of relevance look at, at least 1.
        worst: How many of the requests that changed most to keep whole.
        judgements: What people said is relevant, if anything.
    """

    depth: int = 10
    worst: int = 100
    judgements: Judgements | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who is told while files are compared.

    Attributes:
        progress: What is being done, how much of it is done and how much there is.
        difference: Each request that both files have, in the base's order.
        unreadable: What is wrong with a line, where the lines before it are to be compared all the same; it
            is raised where nobody listens.
    """

    progress: Callable[[str, int, int], None] = lambda _what, _done, _total: None
    difference: Callable[[Difference], None] = lambda _difference: None
    unreadable: Callable[[RecordingUnreadable], None] | None = None


def compare_files(
    base: Path,
    candidate: Path,
    options: ComparisonOptions = ComparisonOptions(),
    listener: Listener = Listener(),
) -> Comparison:
    """Compare two files of recordings.

    What is compared of them is kept in a temporary folder, so that memory does not grow with their size.

    Args:
        base: What was.
        candidate: What is now.
        options: How to compare.
        listener: Who is told meanwhile.

    Raises:
        RecordingUnreadable: A line is no recording.
        ConfigurationError: A file cannot be opened.
        OutputFailed: The temporary folder takes no more.
    """
    with _stores() as (sides, documents):
        _read("base", base, sides, listener)
        _read("candidate", candidate, sides, listener)
        tally, worst = SummaryTally(), Worst(options.worst)
        relevance = None if options.judgements is None else RelevanceTally(options.judgements)
        for found in _differences(sides, options.depth, listener):
            tally.add(found)
            worst.add(found)
            if found.change != "not_compared":
                documents.add(found)
                if relevance is not None:
                    relevance.add(found)
            listener.difference(found)
        return Comparison(
            base=as_published(str(base)),
            candidate=as_published(str(candidate)),
            depth=options.depth,
            base_counts=sides.counts("base"),
            candidate_counts=sides.counts("candidate"),
            totals=tally.totals(),
            gone=documents.gone(),
            worst=worst.differences(),
            relevance=None if relevance is None else relevance.relevance(depth=options.depth),
        )


@contextmanager
def _stores() -> Iterator[tuple[SideStore, DocumentTally]]:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="lookup-stage-compare-", ignore_cleanup_errors=True) as folder,
            closing(SideStore(Path(folder))) as sides,
            closing(DocumentTally(Path(folder))) as documents,
        ):
            yield sides, documents
    except BrokenPipeError:
        raise  # of standard output or standard error, on which a listener told something
    except (OSError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise OutputFailed(
            f"temporary files cannot be written: {why}; TMPDIR can name another folder"
        ) from error


def _read(which: Which, file: Path, sides: SideStore, listener: Listener) -> None:
    def progress(done: int, total: int) -> None:
        listener.progress(f"reading the {which}", done, total)

    for number, _, recording in read_recordings(file, progress=progress, keep_going=listener.unreadable):
        before = sides.digest("base", recording.request_id) if which == "candidate" else None
        # Nothing is lost where the result is the base's to the byte, so nobody needs to know why.
        explain = before is not None and before != result_digest(recording)
        try:
            sides.put(which, side_of(recording, explain=explain))
        except RecordingUnreadable as error:
            raise RecordingUnreadable(f"{file}: line {number}: {error}") from None


def _differences(sides: SideStore, depth: int, listener: Listener) -> Iterator[Difference]:
    total = sides.joined
    for done, (base, candidate) in enumerate(sides.pairs(), start=1):
        yield difference(base, candidate, depth=depth)
        if done % JOINED_BETWEEN_REPORTS == 0 or done == total:
            listener.progress("comparing", done, total)
