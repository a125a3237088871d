"""What changed between the two sides of one request. Pure functions over frozen values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias, get_args

from streams.comparison.alignment import Pair, align, is_unstable
from streams.comparison.measures import jaccard, rank_biased_overlap, same_first
from streams.comparison.sides import FateReason, Item, Side

Change: TypeAlias = Literal["identical", "reordered", "changed", "not_compared"]
"""The same evidence in the same order, in another order, or other evidence; `not_compared` where the search
did not answer the same queries on both sides."""

LossReason: TypeAlias = FateReason | Literal["not_retrieved", "unstable_identity"]
"""Why evidence went. `unstable_identity`: neither its `vector:` or `content:` key nor its text was retrieved,
which may be another text of the same chunk."""

CHANGES: tuple[Change, ...] = get_args(Change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Evidence of the base that the candidate has not.

    Attributes:
        item: As the base has it.
        reason: What became of it in the candidate.
        merged_into: For a duplicate, the key that has its place.
    """

    item: Item
    reason: LossReason
    merged_into: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How alike the two rankings are, each 1.0 where they are equal.

    Attributes:
        jaccard: Share of common items in the first `depth` of each, 0 to 1.
        rbo: Extrapolated rank-biased overlap of the whole rankings, 0 to 1.
        top1: Whether the first item is the same, 0 or 1.
    """

    jaccard: float
    rbo: float
    top1: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A request on both sides.

    Attributes:
        base: One side.
        candidate: The other.
        change: What became of the evidence as a whole.
        pairs: The evidence that both have, in the base's order.
        lost: The evidence that only the base has, in its order.
        new: The evidence that only the candidate has, in its order.
        chunks: Overlap by evidence; `None` where nothing is compared.
        documents: Overlap by document, evidence without document being its own; `None` likewise.
    """

    base: Side
    candidate: Side
    change: Change
    pairs: tuple[Pair, ...] = ()
    lost: tuple[Lost, ...] = ()
    new: tuple[Item, ...] = ()
    chunks: Overlap | None = None
    documents: Overlap | None = None

    @property
    def status_changed(self) -> bool:
        """Whether the result has another status."""
        return self.base.status != self.candidate.status

    @property
    def differs(self) -> bool:
        """Whether the results are not the same to the byte."""
        return self.base.digest != self.candidate.digest


def difference(base: Side, candidate: Side, *, depth: int) -> Difference:
    """Compare the two sides of a request.

    Where the search did not answer the same queries on both sides, evidence is not compared: what is missing
    then says nothing of the index or the limits, and shows as a change of the status.

    Args:
        base: One side.
        candidate: The other, with its fates.
        depth: How many of the first items Jaccard looks at, at least 1.
    """
    if not base.answered or base.answered != candidate.answered:
        return Difference(base=base, candidate=candidate, change="not_compared")
    pairs = align(base.items, candidate.items)
    common_base = {pair.base.rank for pair in pairs}
    common_candidate = {pair.candidate.rank for pair in pairs}
    own, others = _rankings(base.items, candidate.items, pairs)
    return Difference(
        base=base,
        candidate=candidate,
        change=_change(own, others),
        pairs=pairs,
        lost=tuple(_lost(item, candidate) for item in base.items if item.rank not in common_base),
        new=tuple(item for item in candidate.items if item.rank not in common_candidate),
        chunks=_overlap(own, others, depth),
        documents=_overlap(*_document_rankings(base.items, candidate.items, pairs), depth),
    )


def _change(base: Sequence[Hashable], candidate: Sequence[Hashable]) -> Change:
    if base == candidate:
        return "identical"
    return "reordered" if set(base) == set(candidate) else "changed"


def _overlap(base: Sequence[Hashable], candidate: Sequence[Hashable], depth: int) -> Overlap:
    return Overlap(
        jaccard=jaccard(base, candidate, depth=depth),
        rbo=rank_biased_overlap(base, candidate),
        top1=int(same_first(base, candidate)),
    )


def _rankings(
    base: Sequence[Item], candidate: Sequence[Item], pairs: Sequence[Pair]
) -> tuple[list[Hashable], list[Hashable]]:
    """Name each piece by its rank in the base, else by its rank in the candidate."""
    partner = {pair.candidate.rank: pair.base.rank for pair in pairs}
    return (
        [("base", item.rank) for item in base],
        [
            ("base", partner[item.rank]) if item.rank in partner else ("candidate", item.rank)
            for item in candidate
        ],
    )


def _document_rankings(
    base: Sequence[Item], candidate: Sequence[Item], pairs: Sequence[Pair]
) -> tuple[list[Hashable], list[Hashable]]:
    """Name each piece by its document, once, where it stands best."""
    partner = {pair.candidate.rank: pair.base for pair in pairs}
    own = [_document(item) for item in base]
    others = [_document(partner.get(item.rank, item)) for item in candidate]
    return list(dict.fromkeys(own)), list(dict.fromkeys(others))


def _document(item: Item) -> Hashable:
    return ("document", item.doc_id) if item.doc_id is not None else ("key", item.key)


def _lost(item: Item, candidate: Side) -> Lost:
    unstable = is_unstable(item.key)
    by_text = (fate for fate in candidate.fates if unstable and fate.text == item.text)
    by_key = (fate for fate in candidate.fates if fate.key == item.key)
    for fate in chain(by_text, by_key):
        return Lost(item=item, reason=fate.reason, merged_into=fate.merged_into)
    return Lost(item=item, reason="unstable_identity" if unstable else "not_retrieved")
