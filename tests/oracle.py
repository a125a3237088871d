"""What a lookup must come to, worked out again from its rules alone and without any of the product's code.

Plain objects go in and come out. Nothing here is sorted, counted or consumed as the product does it: each
question ("is this hit a duplicate?") is asked of each hit against all the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Plain = Mapping[str, Any]

_MAX_DIGITS = 4_300  # of an integer that can be written down; one with more is no id and no index
_DIGITS = frozenset("0123456789")


class _Row(NamedTuple):
    query: int
    place: int
    key: str
    doc: str | None
    content: str
    score: float | None


def expected(paths: Sequence[Plain], *, limits: Plain, budget: Plain) -> dict[str, Any]:
    """Work out evidence and ledger.

    Args:
        paths: `{"query": 0, "hits": [{"id", "content", "metadata", "score"}, …]}` for each path that
            answered, its hits best first.
        limits: `return_n` and `max_chunks_per_document`.
        budget: `max_items`, `max_chars_per_item`, `max_total_chars` and `min_chars_per_item`.

    Returns:
        `evidence`, a list of `document_id`, `content`, `truncated`, `score` and `hit_reasons`, and `ledger`.
        See `observed` for the same of a result.
    """
    rows = [
        _row(path["query"], place, hit) for path in paths for place, hit in enumerate(path["hits"], start=1)
    ]
    sound = [row for row in rows if row.content.strip() and row.score is not None]
    unique = [row for row in sound if not any(_beats(o, row) and o.key == row.key for o in sound)]
    capped = [row for row in unique if _betters_of_document(row, unique) < limits["max_chunks_per_document"]]
    kept = [row for row in capped if _betters(row, capped) < limits["return_n"]]
    shown = _within(_best_first(kept), budget)
    return {
        "evidence": [_item(row, content, sound) for row, content in shown],
        "ledger": {
            "retrieved": len(rows),
            "rejected": len(rows) - len(sound),
            "duplicates": len(sound) - len(unique),
            "over_document_cap": len(unique) - len(capped),
            "over_return_n": len(capped) - len(kept),
            "over_budget": len(kept) - len(shown),
            "projected": len(shown),
        },
    }


def observed(result: Plain) -> dict[str, Any]:
    """Return of a result, or of an outcome as an object, what `expected` works out."""
    fields = ("document_id", "content", "truncated", "score")
    return {
        "evidence": [
            {field: item[field] for field in fields} | {"hit_reasons": list(item["hit_reasons"])}
            for item in result["evidence"]
        ],
        "ledger": dict(result["ledger"]),
    }


def _item(row: _Row, content: str, sound: Sequence[_Row]) -> dict[str, Any]:
    same = _best_first([other for other in sound if other.key == row.key])
    return {
        "document_id": row.key,
        "content": content,
        "truncated": content != row.content,
        "score": row.score,
        "hit_reasons": [{"query": one.query, "rank": one.place, "score": one.score} for one in same],
    }


# Order


def _beats(one: _Row, other: _Row) -> bool:
    assert one.score is not None
    assert other.score is not None
    if one.score != other.score:
        return one.score > other.score
    if one.query != other.query:
        return one.query < other.query
    return one.place < other.place


def _betters(row: _Row, rows: Sequence[_Row]) -> int:
    return len([other for other in rows if _beats(other, row)])


def _betters_of_document(row: _Row, rows: Sequence[_Row]) -> int:
    """Return a hit without a document is the only one of its document."""
    return 0 if row.doc is None else _betters(row, [other for other in rows if other.doc == row.doc])


def _best_first(rows: Sequence[_Row]) -> list[_Row]:
    return [row for place in range(len(rows)) for row in rows if _betters(row, rows) == place]


# Budget


def _within(rows: Sequence[_Row], budget: Plain) -> list[tuple[_Row, str]]:
    shown: list[tuple[_Row, str]] = []
    for row in rows:
        left = budget["max_total_chars"] - len("".join(content for _, content in shown))
        wanted = min(len(row.content), budget["max_chars_per_item"])
        if len(shown) >= budget["max_items"]:
            continue
        if wanted > left and shown and left < budget["min_chars_per_item"]:
            continue
        if left > 0:
            shown.append((row, _cut(row.content, min(wanted, left))))
    return shown


def _cut(text: str, limit: int) -> str:
    """Return the most whole words that fit, unless they are less than half of what would fit."""
    if len(text) <= limit:
        return text
    text = text.lstrip()
    ends = [end for end in range(1, min(limit, len(text)) + 1) if _word_ends(text, end)]
    whole = max(ends, default=0)
    return text[:whole] if 2 * whole >= limit else text[:limit].rstrip()


def _word_ends(text: str, end: int) -> bool:
    return not text[end - 1].isspace() and (end == len(text) or text[end].isspace())


# Identity


def _row(query: int, place: int, hit: Plain) -> _Row:
    metadata = _metadata(hit["metadata"])
    doc = _either(_id(metadata.get("docId")), _id(metadata.get("doc_id")))
    chunk = _either(_index(metadata.get("chunkIndex")), _index(metadata.get("chunk_index")))
    content = hit["content"] if isinstance(hit["content"], str) else ""
    source = metadata.get("source")
    if not isinstance(source, str) or not source.strip():
        source = doc or ""
    row_id = _row_id(hit["id"])
    if doc is not None and chunk is not None:
        key = doc + "#chunk-" + chunk
    elif row_id is not None:
        key = "vector:" + row_id
    else:
        digest = hashlib.sha256((source + chr(0) + content).encode("utf-8", "surrogatepass"))
        key = "content:" + digest.digest()[:16].hex()
    return _Row(query, place, key, doc, content, _score(hit["score"]))


def _metadata(value: object) -> Mapping[str, object]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not the text of an object
            value = None
    return value if isinstance(value, Mapping) else {}


def _either(one: str | None, other: str | None) -> str | None:
    return other if one is None else one


def _row_id(value: object) -> str | None:
    if isinstance(value, str):
        return value if value.strip() else None
    return None if isinstance(value, float) else _id(value)


def _id(value: object) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else _whole(value)


def _index(value: object) -> str | None:
    if isinstance(value, str):
        digits = 0 < len(value) <= _MAX_DIGITS and _DIGITS.issuperset(value)
        return (value.lstrip("0") or "0") if digits else None
    whole = _whole(value)
    return None if whole is None or whole.startswith("-") else whole


def _whole(value: object) -> str | None:
    if value is True or value is False or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and value % 1 != 0:  # also of what is not finite
        return None
    whole = int(value)
    return str(whole) if abs(whole) < 10**_MAX_DIGITS else None


def _score(value: object) -> float | None:
    if value is True or value is False or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number - number == 0 else None
