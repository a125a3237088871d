"""Examples of a request and of its result, made by the code that makes them all."""

from __future__ import annotations

import json
from typing import Any

from pipeline.model import PathHits, SearchHit
from pipeline.outcome import PathAnswer, conclude
from streams.settings.model import ProjectionSettings, RagSettings
from streams.wire.results import LookupResult, encode_result

REQUEST: dict[str, Any] = {"request_id": "r-42", "query": "How do I roll back a deployment?"}

REQUEST_EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": REQUEST["request_id"],
    "source": "/agents/7",
    "type": "lookup.request",
    "expirytime": "2099-01-31T12:00:00Z",
    "data": {"query": REQUEST["query"]},
}

_HITS = (
    SearchHit(
        id=11,
        content="Undo the rollout, then wait until the old revision is ready.",
        metadata={
            "docId": "rollback",
            "chunkIndex": 2,
            "source": "runbooks/rollback.md",
            "title": "Rollback",
        },
        score=0.83,
    ),
    SearchHit(
        id=12,
        content="Find the last good revision.",
        metadata={
            "docId": "rollback",
            "chunkIndex": 0,
            "source": "runbooks/rollback.md",
            "title": "Rollback",
        },
        score=0.71,
    ),
)


def example_result() -> dict[str, Any]:
    """Return the result of `REQUEST` over an index of two chunks, under the default settings."""
    limits = RagSettings().limits
    answer = PathAnswer(query=0, hits=PathHits(query=0, hits=_HITS))
    outcome = conclude([answer], limits=limits, budget=ProjectionSettings().budget)
    value = encode_result(
        LookupResult(
            request_id=REQUEST["request_id"],
            status=outcome.status,
            evidence=outcome.evidence,
            paths=outcome.paths,
            ledger=outcome.ledger,
            limits=limits,
        )
    )
    body: dict[str, Any] = json.loads(value)
    return body
