"""Hypothesis strategies for what a knowledge base may hold: anything.

The pools are small, so that two hits often share a document, a chunk or a row, and every second value is one
that a careless reader would take for another.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

from hypothesis import strategies as st

from pipeline.model import Budget, Limits, PathHits, SearchHit
from tests.builders import budget, limits

LONE_SURROGATE = "\ud800"
"""Text that Python can hold and UTF-8 cannot: JSON text can bring it in as an escape."""

MAX_INTEGER_DIGITS = 4_300
"""The most digits that Python reads or writes as an integer."""

_NO_IDS: list[object] = [None, True, False, "", " \t\n", 0.5, math.nan, math.inf, [], ["docA"], {"docId": 1}]
_DOC_IDS: list[object] = ["docA", "docB", " docA\n", "DOCA", 7, 7.0, "7", -7, 2**63, 10**400, "docA#chunk-1"]
_INDEXES: list[object] = [0, 1, 2, 3, 0.0, -0.0, 1.0, "0", "1", "007", 2**63]
_LARGE_INDEXES: list[object] = [2**64, 1e300, "9" * 400]
_NO_INDEXES: list[object] = [*_NO_IDS, -1, -1.0, "-1", "1.0", " 1", "²", "٣", "9" * (MAX_INTEGER_DIGITS + 1)]
_ROW_IDS: list[object] = [1, 2, "1", "row", "ROW", 2**63 - 1, -(2**63), 2**64, 10**400, "docA#chunk-1"]
_NO_ROW_IDS: list[object] = [None, True, False, 1.0, math.nan, "", " \t\n"]
_TEXTS: list[object] = ["runbooks/a.md", "runbooks/b.md", " ", "", None, 5, ["a"], True]
_SCORES: list[object] = [0, 0.0, -0.0, 1, 1.0, 0.5, 0.5, -0.5, 2**53 + 1, 5e-324, -1.7e308]
_NO_SCORES: list[object] = [None, math.nan, math.inf, -math.inf, True, False, "0.5", 10**400, -(10**400)]
_CONTENTS: list[object] = [
    "Restart it.",
    "Restart it. ",
    "restart it.",
    "x" * 90,
    "ein Wort " * 12,
    "日本語" * 20,
]
_WORDS = [" ", "  \n", "\u2003", "a", "ein Wort", "x" * 30, "日本語", "😀", "é", "\0"]
_NO_CONTENTS: list[object] = ["", " \t\n", "\u2003", None, 5, b"bytes"]
_NO_METADATA: list[object] = [
    None,
    "",
    "{",
    '{"docId": "docA"',
    "docA",
    "null",
    "[]",
    '["docId"]',
    '"docId"',
    "5",
    '{"docId":' * 20_000,
    "[" * 200_000,
    '{"docId": "docA", "size": ' + "9" * (MAX_INTEGER_DIGITS + 1) + "}",
    [("docId", "docA")],
    5,
]


def _mostly(good: list[object], bad: list[object]) -> st.SearchStrategy[object]:
    """Return a good one two times in three or more often."""
    return st.sampled_from([*good * -(-2 * len(bad) // len(good)), *bad])


def metadata_objects(*, encodable: bool = False) -> st.SearchStrategy[dict[str, object]]:
    """Return metadata that have some of the fields that are read, each usable or not."""
    doc_ids = _mostly(_DOC_IDS if encodable else [*_DOC_IDS, LONE_SURROGATE], _NO_IDS)
    indexes = _mostly(_INDEXES if encodable else [*_INDEXES, *_LARGE_INDEXES], _NO_INDEXES)
    texts = st.sampled_from(_TEXTS)
    return st.fixed_dictionaries(
        {},
        optional={
            "docId": doc_ids,
            "doc_id": doc_ids,
            "chunkIndex": indexes,
            "chunk_index": indexes,
            "source": texts,
            "title": texts,
            "breadcrumb": texts,
        },
    )


def _metadata(*, encodable: bool) -> st.SearchStrategy[object]:
    objects = metadata_objects(encodable=encodable)
    return st.one_of(objects, objects, objects.map(json.dumps), st.sampled_from(_NO_METADATA))


def contents() -> st.SearchStrategy[str]:
    """Return contents that are not blank: words of every length between any white space, and any text."""
    words = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=8).map("".join)
    return st.one_of(words, st.text(min_size=1, max_size=8)).filter(str.strip)


def hits(*, encodable: bool = False) -> st.SearchStrategy[SearchHit]:
    """Return anything that could come out of a search port, also what its types forbid.

    Args:
        encodable: Whether to leave out what JSON on the wire cannot hold.
    """
    surrogates = [] if encodable else [LONE_SURROGATE]
    return st.builds(
        SearchHit,
        id=_mostly([*_ROW_IDS, *surrogates], _NO_ROW_IDS),
        content=st.one_of(contents(), _mostly([*_CONTENTS, *surrogates], _NO_CONTENTS)),
        metadata=_metadata(encodable=encodable),
        score=st.one_of(st.floats(), _mostly(_SCORES, _NO_SCORES)),
    )


def sound_hits() -> st.SearchStrategy[SearchHit]:
    """Return hits that are not rejected: they have some content and a finite score."""
    return st.builds(
        replace, hits(), content=contents(), score=st.floats(allow_nan=False, allow_infinity=False)
    )


def paths(*, encodable: bool = False) -> st.SearchStrategy[tuple[PathHits, ...]]:
    """Return the hits of 1 to 3 queries, up to 6 each, in the request's order."""
    return st.lists(st.lists(hits(encodable=encodable), max_size=6), min_size=1, max_size=3).map(
        lambda found: tuple(
            PathHits(query=query, hits=tuple(of_query)) for query, of_query in enumerate(found)
        )
    )


def widths() -> st.SearchStrategy[Limits]:
    """Return limits that bite on a few hits."""
    return st.builds(
        lambda return_n, more, cap: limits(
            retrieve_k=return_n + more, return_n=return_n, max_chunks_per_document=cap
        ),
        st.integers(min_value=1, max_value=10),
        st.integers(min_value=0, max_value=10),
        st.integers(min_value=1, max_value=4),
    )


def budgets() -> st.SearchStrategy[Budget]:
    """Return budgets that bite on a few short contents."""
    return st.builds(
        budget,
        max_items=st.integers(min_value=1, max_value=8),
        max_chars_per_item=st.integers(min_value=1, max_value=80),
        max_total_chars=st.integers(min_value=1, max_value=240),
        min_chars_per_item=st.integers(min_value=1, max_value=40),
    )
