"""Which chunk a hit is: the one key function that every layer uses.

Two hits are the same evidence only when `identify` gives both the same evidence key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Final, TypeAlias, TypeVar

from pipeline.model import Dropped, DropReason, Evidence, HitReason, SearchHit

DOC_ID_FIELDS = ("docId", "doc_id")
CHUNK_INDEX_FIELDS = ("chunkIndex", "chunk_index")

T = TypeVar("T")

Candidate: TypeAlias = tuple[float, int, int, str, str | None, int | None, SearchHit]
"""A hit that may become evidence: minus its score, query and rank, by which candidates sort; then evidence
key, document, chunk index and the hit itself.

There is one for every hit, so it is a plain tuple: with a NamedTuple the way from hits to result bytes takes
1.2 to 1.5 times as long. What is shown of a hit is read when it is shown.
"""

EVIDENCE_KEY: Final = 3
"""Where it stands in a candidate."""

DOC_ID: Final = 4
"""Where it stands in a candidate."""

_PLAIN_INDEX = 2**31
"""A chunk index below it is as it should be."""


def evidence_key(
    *, doc_id: str | None, chunk_index: int | None, vector_id: str | None, source: str | None, content: str
) -> str:
    """Name a chunk.

    Returns:
        `{doc_id}#chunk-{chunk_index}` where both are known, else `vector:{vector_id}`, else `content:`
        and 32 hexadecimal digits of SHA-256 over source, NUL and content.

    Source: identity from metadata; the fallback to the vector id.
    """
    if doc_id is not None and chunk_index is not None:
        return f"{doc_id}#chunk-{chunk_index}"
    if vector_id is not None:
        return f"vector:{vector_id}"
    # A lone surrogate is not UTF-8, and must not keep a chunk from having a key.
    text = f"{source or ''}\0{content}".encode("utf-8", "surrogatepass")
    return f"content:{hashlib.sha256(text).hexdigest()[:32]}"


def identify(hit: SearchHit, query: int, rank: int) -> Candidate | Dropped:
    """Read a hit's identity out of its metadata.

    Args:
        hit: The hit as the port returned it.
        query: Index of the query that found it, from 0.
        rank: Its place in that query's hits, from 1.

    Returns:
        A candidate, or, where the content is blank or the score is not a finite number, why it is none.
    """
    metadata, content, score = hit.metadata, hit.content, hit.score
    fields = metadata if type(metadata) is dict else metadata_object(metadata)
    doc_id, chunk_index = fields.get("docId"), fields.get("chunkIndex")
    if (
        # Nearly every hit is like this, and needs none of the calls below.
        type(doc_id) is str
        and type(chunk_index) is int
        and 0 <= chunk_index < _PLAIN_INDEX
        and (doc_id := doc_id.strip())
    ):
        key = f"{doc_id}#chunk-{chunk_index}"
    else:
        doc_id = _first_usable(fields, DOC_ID_FIELDS, usable_id)
        chunk_index = _first_usable(fields, CHUNK_INDEX_FIELDS, usable_index)
        key = evidence_key(
            doc_id=doc_id,
            chunk_index=chunk_index,
            vector_id=_vector_id(hit.id),
            source=_text(fields.get("source")) or doc_id,
            content=content if isinstance(content, str) else "",
        )
    if not isinstance(content, str) or not content or content.isspace():
        return Dropped(document_id=key, reason="empty_content", query=query, rank=rank)
    if type(score) is not float:
        score = _float(score)
    if score is None or not isfinite(score):
        return Dropped(document_id=key, reason="invalid_score", query=query, rank=rank)
    return (-score, query, rank, key, doc_id, chunk_index, hit)


def evidence_of(candidate: Candidate, reasons: Sequence[HitReason], *, rank: int) -> Evidence:
    """Read what is shown of a hit; `reasons` begin with its own."""
    score, _, _, key, doc_id, chunk_index, hit = candidate
    fields = metadata_object(hit.metadata)
    return Evidence(
        rank,
        key,
        doc_id,
        chunk_index,
        _text(fields.get("source")) or doc_id,
        _text(fields.get("title")),
        _text(fields.get("breadcrumb")),
        hit.content or "",
        False,
        -score,
        tuple(reasons),
    )


def reason_of(candidate: Candidate) -> HitReason:
    """Return which query found a hit, where and with what score."""
    return HitReason(candidate[1], candidate[2], -candidate[0])


def drop(candidate: Candidate, why: DropReason) -> Dropped:
    """Record that a hit is not in the evidence, and why; a duplicate is merged into its own evidence key."""
    _, query, rank, key, *_ = candidate
    merged_into = key if why == "duplicate" else None
    return Dropped(document_id=key, reason=why, query=query, rank=rank, merged_into=merged_into)


def metadata_object(metadata: Mapping[str, object] | str | None) -> Mapping[str, object]:
    """Return metadata as an object, whichever of its three forms it came in.

    Text that is not the JSON of an object holds no metadata: the hit then has no document, and is not lost.
    """
    if isinstance(metadata, Mapping):
        return metadata
    if not isinstance(metadata, str):
        return {}
    try:
        parsed = json.loads(metadata)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def usable_id(value: object) -> str | None:
    """Return an id as text, or `None` where the value cannot be one.

    A string that is not blank (stripped), an integer, or a float with an integral value: JSON parsers that
    only know doubles turn 42 into 42.0. Booleans are no ids. Nothing else is changed about an id.
    """
    if isinstance(value, str):
        return value.strip() or None
    number = _integral(value)
    return None if number is None else _decimal(number)


def usable_index(value: object) -> int | None:
    """Return a chunk index, or `None` where the value cannot be one.

    An integer ≥ 0, an integral float ≥ 0, or a string of ASCII digits; 0 is an index, booleans are none.
    """
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit()):
            return None
        try:
            return int(value)
        except ValueError:  # more digits than the interpreter converts
            return None
    number = _integral(value)
    return number if number is not None and number >= 0 and _decimal(number) is not None else None


def _first_usable(
    metadata: Mapping[str, object], fields: tuple[str, ...], usable: Callable[[object], T | None]
) -> T | None:
    for field in fields:
        value = usable(metadata.get(field))
        if value is not None:
            return value
    return None


def _vector_id(value: object) -> str | None:
    """Return an engine's id as its exact text: 64-bit ids must survive, so floats are not taken for ids."""
    if isinstance(value, str):
        return _text(value)
    return None if isinstance(value, float) else usable_id(value)


def _integral(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


def _decimal(number: int) -> str | None:
    try:
        return str(number)
    except ValueError:  # more digits than the interpreter converts
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _float(score: object) -> float | None:
    """Return a score that is not a float already as one; what it is not is no score."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    try:
        return float(score)
    except OverflowError:  # an integer too large for a float
        return None
