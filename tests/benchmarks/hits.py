"""Hits as an engine gives them, made up: 400 characters each, 8 chunks a document, 30 % duplicates."""

from __future__ import annotations

import random
from typing import Any

CHARACTERS = 400
CHUNKS_PER_DOCUMENT = 8
DUPLICATES = 0.3

_WORDS = [
    "consumer",
    "group",
    "restart",
    "broker",
    "partition",
    "offset",
    "lag",
    "leader",
    "replica",
    "the",
    "of",
    "and",
    "is",
    "when",
    "a",
    "to",
    "in",
]


def made_hits(paths: int, width: int) -> list[dict[str, Any]]:
    """Make the hits of each path, best first: `{"query": 0, "hits": [{"id": "…", "content": …}, …]}`."""
    choose = random.Random(7)
    known: list[dict[str, Any]] = []
    # The first path repeats nothing, so that the others must repeat more.
    repeats = round(width * DUPLICATES * paths / (paths - 1)) if paths > 1 else 0
    return [
        {"query": query, "hits": _path(choose, known, width, min(repeats, len(known)))}
        for query in range(paths)
    ]


def _path(
    choose: random.Random, known: list[dict[str, Any]], width: int, repeated: int
) -> list[dict[str, Any]]:
    rows = choose.sample(known, repeated)
    fresh = [_row(choose, len(known) + number) for number in range(width - repeated)]
    known += fresh
    scores = sorted((choose.uniform(0.2, 0.9) for _ in range(width)), reverse=True)
    found = choose.sample(rows + fresh, width)
    return [
        row | {"score": score, "distance": score, "metric": "COSINE"}
        for row, score in zip(found, scores, strict=True)
    ]


def _row(choose: random.Random, number: int) -> dict[str, Any]:
    document, chunk = divmod(number, CHUNKS_PER_DOCUMENT)
    text = " ".join(choose.choices(_WORDS, k=CHARACTERS))
    return {
        "id": str(10**15 + number),
        "content": f"{text[: CHARACTERS - 1].strip():.<{CHARACTERS}}",
        "metadata": {
            "docId": f"runbook-{document}",
            "chunkIndex": chunk,
            "source": f"runbooks/runbook-{document}.md",
            "title": f"Runbook {document}",
            "breadcrumb": f"Runbook {document} > Section {chunk}",
        },
    }
