"""What people change, and what the report says of it.

The index holds four documents of three chunks each around the directions of a circle; the questions point at
some of them. Whatever is changed is changed in the index, the limits or the questions, and answered anew.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.model import Vector
from pipeline.testing.in_memory import Row
from streams.comparison.findings import findings
from tests.builders import limits
from tests.comparisons import all_compared, answered, row

DOCUMENTS = ("disk", "lag", "dns", "tls")
WIDTHS = limits(retrieve_k=6, return_n=4, max_chunks_per_document=2)


def direction(degrees: float) -> Vector:
    """Return a vector that points there."""
    return (math.cos(math.radians(degrees)), math.sin(math.radians(degrees)))


INDEX = [
    row(doc_id, chunk, *direction(90 * place + 10 * chunk))
    for place, doc_id in enumerate(DOCUMENTS)
    for chunk in range(3)
]
QUESTIONS = [direction(degrees) for degrees in (3, 48, 96, 184, 277)]


async def test_nothing_changed_says_so(tmp_path: Path) -> None:
    """The same questions to the same index."""
    found = await answered(INDEX, QUESTIONS, widths=WIDTHS)
    comparison = all_compared(tmp_path, found, found)
    assert findings(comparison) == (
        "Nothing changed: the same evidence in the same order, with the same scores.",
    )
    assert comparison.totals.identical_results == len(QUESTIONS)
    assert comparison.worst == ()


async def test_one_limit_changed(tmp_path: Path) -> None:
    """A cap of one instead of two: the change of the limit, and evidence lost over the document cap."""
    base = await answered(INDEX, QUESTIONS, widths=WIDTHS)
    candidate = await answered(INDEX, QUESTIONS, widths=replace(WIDTHS, max_chunks_per_document=1))
    comparison = all_compared(tmp_path, base, candidate)
    said = findings(comparison)
    assert "max_chunks_per_document: 2 → 1 in 5 requests." in said
    assert set(comparison.totals.lost) == {"over_document_cap"}
    assert (
        f"{comparison.totals.lost['over_document_cap']} pieces of evidence lost: over the document cap."
        in said
    )
    assert comparison.totals.documents.top1 == 1.0
    assert comparison.totals.drift.moved == 0
    assert comparison.gone.count == 0


async def test_one_document_dropped_from_the_index(tmp_path: Path) -> None:
    """The document is named; its evidence is not retrieved any more, and nothing else is lost."""
    base = await answered(INDEX, QUESTIONS, widths=WIDTHS)
    without = [each for each in INDEX if each.metadata["docId"] != "lag"]
    candidate = await answered(without, QUESTIONS, widths=WIDTHS)
    comparison = all_compared(tmp_path, base, candidate)
    assert [document.doc_id for document in comparison.gone.most_used] == ["lag"]
    had = sum(any(item["doc_id"] == "lag" for item in (one.result or {})["evidence"]) for one in base)
    assert f"1 document is not retrieved by any request any more: lag (in {had} requests)." in findings(
        comparison
    )
    assert set(comparison.totals.lost) == {"not_retrieved"}
    assert {lost.item.doc_id for one in comparison.worst for lost in one.lost} == {"lag"}
    assert comparison.totals.settings == ()


async def test_two_chunks_scores_swapped(tmp_path: Path) -> None:
    """The same evidence in another order, two scores moved, nothing lost."""
    base = await answered(INDEX, QUESTIONS, widths=WIDTHS)
    vectors = {each.id: each.vector for each in INDEX}
    swap = {"disk#chunk-0": vectors["disk#chunk-1"], "disk#chunk-1": vectors["disk#chunk-0"]}
    swapped = [replace(each, vector=swap.get(str(each.id), each.vector)) for each in INDEX]
    candidate = await answered(swapped, QUESTIONS[:1], widths=WIDTHS)
    comparison = all_compared(tmp_path, base[:1], candidate)
    assert comparison.totals.changes["reordered"] == 1
    assert "1 request with the same evidence in another order." in findings(comparison)
    assert comparison.totals.drift.moved == 2
    assert (comparison.totals.lost, comparison.totals.new) == ({}, 0)
    [changed] = comparison.worst
    moved = {pair.base.key: (pair.base.rank, pair.candidate.rank) for pair in changed.pairs}
    assert moved["disk#chunk-0"] == (1, 2)
    assert moved["disk#chunk-1"] == (2, 1)


async def test_the_embedding_changed(tmp_path: Path) -> None:
    """Scores move throughout, and evidence of the same index is not retrieved any more."""
    base = await answered(INDEX, QUESTIONS, widths=WIDTHS)
    comparison = all_compared(
        tmp_path,
        base,
        await answered([_embedded_otherwise(each) for each in INDEX], QUESTIONS, widths=WIDTHS),
    )
    drift = comparison.totals.drift
    assert drift.moved == drift.pairs > 0
    assert any(
        finding.startswith(f"Scores moved throughout, in {drift.pairs} of {drift.pairs} common pieces")
        and finding.endswith("another embedding, metric or index answers.")
        for finding in findings(comparison)
    )
    assert comparison.totals.lost["not_retrieved"] > 0
    assert comparison.totals.settings == ()


def _embedded_otherwise(each: Row) -> Row:
    x, y = each.vector
    return replace(each, vector=(x + 0.4, 0.3 * y - 0.2))


@pytest.mark.parametrize("moved", [1, 2])
async def test_rows_indexed_again_keep_their_text_under_another_row_id(tmp_path: Path, moved: int) -> None:
    """Unstable identities are no losses: nothing is lost or new, and every measure is 1."""

    def rows(first_id: int) -> list[Row]:
        return [
            Row(id=first_id + place, content=each.content, metadata={"docId": "x"}, vector=each.vector)
            for place, each in enumerate(INDEX)
        ]

    base = await answered(rows(0), QUESTIONS, widths=WIDTHS)
    candidate = await answered(rows(moved), QUESTIONS, widths=WIDTHS)
    comparison = all_compared(tmp_path, base, candidate)
    totals = comparison.totals
    assert (totals.lost, totals.new) == ({}, 0)
    assert (totals.chunks.jaccard, totals.chunks.rbo, totals.chunks.top1) == (1.0, 1.0, 1.0)
    assert totals.renamed == totals.kept == totals.evidence > 0
    assert any("unstable identities, not counted as lost" in finding for finding in findings(comparison))
