"""A comparison as one JSON document, written while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from streams.comparison.comparing import Comparison
from streams.comparison.differences import Difference
from streams.comparison.findings import findings
from streams.comparison.thresholds import Check


class Destination(Protocol):
    """What the report is written to."""

    def write(self, content: bytes, /) -> int:
        """Take bytes."""

    def flush(self) -> None:
        """Hand over what is buffered."""


class JsonReport:
    """Writes `{"requests": […], "summary": {…}}`, a request a line; nothing before the first is known."""

    def __init__(self, output: Destination) -> None:
        """Initialize with where to write."""
        self._output = output
        self._separator = b'{"requests": [\n'

    def add(self, difference: Difference) -> None:
        """Write a request, if its result is not the same to the byte."""
        if difference.differs:
            self._output.write(self._separator + orjson.dumps(request_json(difference)))
            self._separator = b",\n"

    def close(self, comparison: Comparison, checks: Sequence[Check]) -> None:
        """Write the rest."""
        opening = b"" if self._separator == b",\n" else self._separator
        summary = orjson.dumps(summary_json(comparison, checks))
        self._output.write(opening + b'\n], "summary": ' + summary + b"}\n")
        self._output.flush()


def request_json(difference: Difference) -> dict[str, Any]:
    """Return one request, without its texts."""
    base, candidate = difference.base, difference.candidate
    return {
        "request_id": base.request_id,
        "change": difference.change,
        "status": {"base": base.status, "candidate": candidate.status, "error": candidate.error},
        "chunks": difference.chunks,
        "documents": difference.documents,
        "lost": [
            {"document_id": lost.item.key, "reason": lost.reason, "merged_into": lost.merged_into}
            for lost in difference.lost
        ],
        "new": [item.key for item in difference.new],
        "kept": [
            {
                "document_id": pair.base.key,
                "candidate_document_id": pair.candidate.key,
                "ranks": [pair.base.rank, pair.candidate.rank],
                "scores": [pair.base.score, pair.candidate.score],
                "rewritten": pair.rewritten,
                "resized": pair.resized,
            }
            for pair in difference.pairs
        ],
    }


def summary_json(comparison: Comparison, checks: Sequence[Check]) -> dict[str, Any]:
    """Return everything about all requests together."""
    totals = comparison.totals
    return {
        "base": {"file": comparison.base, "counts": comparison.base_counts},
        "candidate": {"file": comparison.candidate, "counts": comparison.candidate_counts},
        "depth": comparison.depth,
        "compared": totals.compared,
        "retained": totals.retained,
        "totals": totals,
        "gone": comparison.gone,
        "relevance": comparison.relevance,
        "findings": findings(comparison),
        "checks": [
            {"name": one.name, "threshold": one.threshold, "value": one.value, "passed": one.passed}
            for one in checks
        ],
    }
