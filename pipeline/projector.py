"""Projection: blocks as an agent sees them, under budgets. Pure, synchronous and stateless."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.model import Block, Budget, Dropped, Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """What projection came to.

    Attributes:
        evidence: In rank order, within the budget.
        dropped: The blocks that are not in it.
    """

    evidence: tuple[Evidence, ...]
    dropped: tuple[Dropped, ...]


def project(blocks: Sequence[Block], budget: Budget) -> Projected:
    """Takes blocks in rank order as long as the budget lasts.

    A block longer than `max_chars_per_item` is shortened. One that does not fit into what is left of
    `max_total_chars` is shortened to it if at least `min_chars_per_item` are left, or if it is the first;
    otherwise it is dropped and the next is tried. No budget is ever exceeded.

    Args:
        blocks: Best first. A second block of one evidence key is dropped as a duplicate; blocks of one
            source are not duplicates.
        budget: The budget in force.

    Returns:
        Evidence ranked from 1, and the blocks that were dropped.

    Source: the projector deduplicates by chunk identity, never by source.
    """
    evidence: list[Evidence] = []
    dropped: list[Dropped] = []
    seen: set[str] = set()
    left = budget.max_total_chars
    for block in blocks:
        key = block.candidate.evidence_key
        if key in seen:
            dropped.append(block.candidate.drop("duplicate", merged_into=key))
            continue
        seen.add(key)
        room = _room(left, budget, taken=len(evidence), length=len(block.candidate.content))
        if room == 0:
            dropped.append(block.candidate.drop("over_budget"))
            continue
        item = _evidence(block, rank=len(evidence) + 1, room=room)
        left -= len(item.content)
        evidence.append(item)
    return Projected(evidence=tuple(evidence), dropped=tuple(dropped))


def shorten(text: str, limit: int) -> str:
    """Cuts text to at most `limit` code points, at a word boundary where one is near.

    White space before the first word gives way first. Where the last boundary would cost more than half of
    the limit (one very long word, or a script without spaces) the cut is made inside the word.

    Args:
        text: Not blank.
        limit: At least 1.

    Returns:
        `text` itself where it fits, else 1 to `limit` characters of it.
    """
    if len(text) <= limit:
        return text
    text = text.lstrip()
    head = text[:limit]
    if len(text) <= limit or text[limit].isspace() or head[-1].isspace():
        return head.rstrip()
    boundary = len(head.rsplit(maxsplit=1)[0])
    return head[:boundary] if boundary * 2 >= limit else head


def _room(left: int, budget: Budget, *, taken: int, length: int) -> int:
    """How many characters the next block may have; 0 where there is no place for it."""
    if taken == budget.max_items:
        return 0
    wanted = min(length, budget.max_chars_per_item)
    if wanted <= left:
        return wanted
    return left if taken == 0 or left >= budget.min_chars_per_item else 0


def _evidence(block: Block, *, rank: int, room: int) -> Evidence:
    candidate = block.candidate
    content = shorten(candidate.content, room)
    return Evidence(
        rank=rank,
        document_id=candidate.evidence_key,
        doc_id=candidate.doc_id,
        chunk_index=candidate.chunk_index,
        source=candidate.source,
        title=candidate.title,
        breadcrumb=candidate.breadcrumb,
        content=content,
        truncated=content != candidate.content,
        score=candidate.reason.score,
        hit_reasons=block.hit_reasons,
    )
