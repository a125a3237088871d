"""Post-processing: which candidates become blocks. Pure, synchronous and stateless.

Rank, deduplicate, cap, cut: in this order, so that a duplicate never uses up a place of its document and a
smaller `return_n` gives a prefix of a larger one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.identity import candidate_of
from pipeline.model import Block, Candidate, Dropped, HitReason, Limits, PathHits


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """What post-processing came to.

    Attributes:
        blocks: In rank order, 0 to `return_n`.
        dropped: Every hit that is in none of the blocks, or only as a reason.
        retrieved: How many hits went in: those of the blocks and the dropped ones.
    """

    blocks: tuple[Block, ...]
    dropped: tuple[Dropped, ...]
    retrieved: int


def process(paths: Iterable[PathHits], limits: Limits) -> Processed:
    """Turns the hits of all paths into ranked blocks.

    Args:
        paths: The hits of each path, best first; the order of the paths does not matter.
        limits: The widths in force.

    Returns:
        At most `limits.return_n` blocks, best first, no two of one evidence key and at most
        `limits.max_chunks_per_document` of one document, and every hit that was dropped.

    Source: duplicates share the evidence key; the cap per document; recall width and return width.
    """
    candidates, rejected = _identify(paths)
    ranked = sorted(candidates, key=_rank_key)
    unique, duplicates = _deduplicate(ranked)
    capped, over_cap = _cap(unique, limits.max_chunks_per_document)
    kept, cut = capped[: limits.return_n], capped[limits.return_n :]
    return Processed(
        blocks=tuple(kept),
        dropped=(
            *rejected,
            *duplicates,
            *(block.candidate.drop("over_document_cap") for block in over_cap),
            *(block.candidate.drop("over_return_n") for block in cut),
        ),
        retrieved=len(candidates) + len(rejected),
    )


def _identify(paths: Iterable[PathHits]) -> tuple[list[Candidate], list[Dropped]]:
    candidates: list[Candidate] = []
    rejected: list[Dropped] = []
    for path in paths:
        for rank, hit in enumerate(path.hits, start=1):
            identified = candidate_of(hit, query=path.query, rank=rank)
            if isinstance(identified, Candidate):
                candidates.append(identified)
            else:
                rejected.append(identified)
    return candidates, rejected


def _rank_key(candidate: Candidate) -> tuple[float, int, int, str]:
    reason = candidate.reason
    return (-reason.score, reason.query, reason.rank, candidate.evidence_key)


def _deduplicate(ranked: Sequence[Candidate]) -> tuple[list[Block], list[Dropped]]:
    best: dict[str, tuple[Candidate, list[HitReason]]] = {}
    duplicates: list[Dropped] = []
    for candidate in ranked:
        key = candidate.evidence_key
        if key in best:
            best[key][1].append(candidate.reason)
            duplicates.append(candidate.drop("duplicate", merged_into=key))
        else:
            best[key] = (candidate, [candidate.reason])
    return [
        Block(candidate=first, hit_reasons=tuple(reasons)) for first, reasons in best.values()
    ], duplicates


def _cap(blocks: Sequence[Block], max_chunks_per_document: int) -> tuple[list[Block], list[Block]]:
    places: Counter[str] = Counter()
    kept: list[Block] = []
    over: list[Block] = []
    for block in blocks:
        doc_id = block.candidate.doc_id
        if doc_id is None:  # unknown documents are not one document
            kept.append(block)
        elif places[doc_id] < max_chunks_per_document:
            places[doc_id] += 1
            kept.append(block)
        else:
            over.append(block)
    return kept, over
