"""Projection: blocks as an agent sees them, under budgets. Pure, synchronous and stateless."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.model import Budget, Dropped, DropReason, Evidence
from pipeline.values import statically_frozen

FREE_LABEL_CHARS = 500
"""What source, title and breadcrumb of one item may have together beside its content."""

MAX_LABEL_CHARS = 1_000
"""Most characters of source, title and breadcrumb of one item together."""

_ELLIPSIS = "…"


@statically_frozen(frozen=True, slots=True, kw_only=True)
class Projected:
    """What projection came to.

    Attributes:
        evidence: In rank order, within the budget.
        duplicates: Blocks whose evidence key came before.
        over_budget: Blocks for which there was no room.
    """

    evidence: tuple[Evidence, ...]
    duplicates: Sequence[Evidence]
    over_budget: Sequence[Evidence]

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """The blocks that are not in the evidence."""
        return (
            *(_drop(block, "over_budget") for block in self.over_budget),
            *(_drop(block, "duplicate") for block in self.duplicates),
        )


def project(blocks: Sequence[Evidence], budget: Budget) -> Projected:
    """Accept blocks in rank order as long as the budget lasts.

    A block longer than `max_chars_per_item` is shortened. One that does not fit into what is left of
    `max_total_chars` is shortened to it if at least `min_chars_per_item` are left, or if it is the first;
    otherwise it is dropped and the next is tried. No budget is ever exceeded.

    Source, title and breadcrumb of an item are free up to 500 characters together. What is over, up to 1,000,
    counts against the budgets as content does, and stays only where content leaves room for it; what has no
    room is cut from the longest of them. So an item has at most `max_chars_per_item` and 500 characters, and
    all together have at most `max_total_chars` and 500 for each. Ids are never shortened.

    Args:
        blocks: Best first. A second block of one evidence key is dropped as a duplicate; blocks of one
            source are not duplicates.
        budget: The budget in force.

    Returns:
        Evidence ranked from 1, and the blocks that were dropped.

    Source: the projector deduplicates by chunk identity, never by source.
    """
    evidence: list[Evidence] = []
    duplicates: list[Evidence] = []
    over_budget: list[Evidence] = []
    seen: set[str] = set()
    left = budget.max_total_chars
    for block in blocks:
        if block.document_id in seen:
            duplicates.append(block)
            continue
        seen.add(block.document_id)
        length = len(block.content)
        room = _room(left, budget, taken=len(evidence), length=length)
        if room == 0:
            over_budget.append(block)
            continue
        rank = len(evidence) + 1
        item = block if room == length and block.rank == rank else _cut(block, rank=rank, room=room)
        left -= len(item.content)
        labels = len(block.source or "") + len(block.title or "") + len(block.breadcrumb or "")
        if labels > FREE_LABEL_CHARS:
            paid = min(
                min(labels, MAX_LABEL_CHARS) - FREE_LABEL_CHARS,
                left,
                budget.max_chars_per_item - len(item.content),
            )
            item = _with_labels_within(FREE_LABEL_CHARS + paid, item)
            left -= paid
        evidence.append(item)
    return Projected(evidence=tuple(evidence), duplicates=duplicates, over_budget=over_budget)


def shorten(text: str, limit: int) -> str:
    """Cut text to at most `limit` code points, at a word boundary where one is near.

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


def _cut(block: Evidence, *, rank: int, room: int) -> Evidence:
    content = shorten(block.content, room)
    truncated = block.truncated or content != block.content
    return replace(block, rank=rank, content=content, truncated=truncated)


def _with_labels_within(limit: int, block: Evidence) -> Evidence:
    """Return a block whose source, title and breadcrumb have at most so many characters together."""
    labels = {"source": block.source, "title": block.title, "breadcrumb": block.breadcrumb}
    known = sorted(((name, text) for name, text in labels.items() if text), key=lambda each: len(each[1]))
    shorter: dict[str, str] = {}
    for place, (name, text) in enumerate(known):
        room = limit // (len(known) - place)
        shorter[name] = text if len(text) <= room else shorten(text, room - len(_ELLIPSIS)) + _ELLIPSIS
        limit -= len(shorter[name])
    return replace(
        block,
        source=shorter.get("source"),
        title=shorter.get("title"),
        breadcrumb=shorter.get("breadcrumb"),
    )


def _drop(block: Evidence, why: DropReason) -> Dropped:
    own = block.hit_reasons[0]
    merged_into = block.document_id if why == "duplicate" else None
    return Dropped(
        document_id=block.document_id, reason=why, query=own.query, rank=own.rank, merged_into=merged_into
    )
