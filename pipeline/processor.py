"""Post-processing: which candidates become blocks. Pure, synchronous and stateless.

Rank, deduplicate, cap, cut: in this order, so that a duplicate never uses up a place of its document and a
smaller `return_n` gives a prefix of a larger one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.identity import DOC_ID, EVIDENCE_KEY, Candidate, drop, evidence_of, identify, reason_of
from pipeline.model import Dropped, Evidence, Limits, PathHits
from pipeline.values import statically_frozen


@statically_frozen(frozen=True, slots=True, kw_only=True)
class Processed:
    """What post-processing came to: every hit is in one of these, once.

    Attributes:
        blocks: In rank order, 0 to `return_n`.
        rejected: Hits without content or score.
        duplicates: Hits that are there only as a reason, if at all.
        over_document_cap: Hits of documents whose places were taken.
        over_return_n: Hits for which there was no place.
    """

    blocks: tuple[Evidence, ...]
    rejected: Sequence[Dropped]
    duplicates: Sequence[Candidate]
    over_document_cap: Sequence[Candidate]
    over_return_n: Sequence[Candidate]

    @property
    def retrieved(self) -> int:
        """How many hits went in."""
        hits = (self.blocks, self.rejected, self.duplicates, self.over_document_cap, self.over_return_n)
        return sum(map(len, hits))

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """Every hit that is in none of the blocks, or only as a reason."""
        return (
            *self.rejected,
            *(drop(candidate, "duplicate") for candidate in self.duplicates),
            *(drop(candidate, "over_document_cap") for candidate in self.over_document_cap),
            *(drop(candidate, "over_return_n") for candidate in self.over_return_n),
        )


def process(paths: Iterable[PathHits], limits: Limits) -> Processed:
    """Turn the hits of all paths into ranked blocks.

    Args:
        paths: The hits of each path, best first, each path of another query; the order of the paths does not
            matter.
        limits: The widths in force.

    Returns:
        At most `limits.return_n` blocks, best first, no two of one evidence key and at most
        `limits.max_chunks_per_document` of one document, and every hit that was dropped.

    Source: duplicates share the evidence key; the cap per document; recall width and return width.
    """
    ranked, rejected = _identify(paths)
    ranked.sort()  # no two candidates are of one query and one rank
    capped, duplicates, over_cap = _select(ranked, limits.max_chunks_per_document)
    return Processed(
        blocks=_blocks(capped[: limits.return_n], duplicates),
        rejected=rejected,
        duplicates=duplicates,
        over_document_cap=over_cap,
        over_return_n=capped[limits.return_n :],
    )


def _identify(paths: Iterable[PathHits]) -> tuple[list[Candidate], list[Dropped]]:
    candidates: list[Candidate] = []
    rejected: list[Dropped] = []
    for path in paths:
        query = path.query
        for rank, hit in enumerate(path.hits, start=1):
            found = identify(hit, query, rank)
            if isinstance(found, Dropped):
                rejected.append(found)
            else:
                candidates.append(found)
    return candidates, rejected


def _select(
    ranked: Sequence[Candidate], max_chunks_per_document: int
) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
    """Return the best candidate of each chunk within the cap, the duplicates, and what is over the cap."""
    kept: list[Candidate] = []
    duplicates: list[Candidate] = []
    over: list[Candidate] = []
    seen: set[str] = set()
    taken: dict[str, int] = {}
    for candidate in ranked:
        key, doc_id = candidate[EVIDENCE_KEY], candidate[DOC_ID]
        if key in seen:
            duplicates.append(candidate)
            continue
        seen.add(key)
        if doc_id is None:  # unknown documents are not one document
            kept.append(candidate)
            continue
        places = taken.get(doc_id, 0)
        if places < max_chunks_per_document:
            taken[doc_id] = places + 1
            kept.append(candidate)
        else:
            over.append(candidate)
    return kept, duplicates, over


def _blocks(kept: Sequence[Candidate], duplicates: Iterable[Candidate]) -> tuple[Evidence, ...]:
    reasons = {candidate[EVIDENCE_KEY]: [reason_of(candidate)] for candidate in kept}
    for duplicate in duplicates:
        if duplicate[EVIDENCE_KEY] in reasons:
            reasons[duplicate[EVIDENCE_KEY]].append(reason_of(duplicate))
    return tuple(
        [
            evidence_of(candidate, reasons[candidate[EVIDENCE_KEY]], rank=rank)
            for rank, candidate in enumerate(kept, start=1)
        ]
    )
