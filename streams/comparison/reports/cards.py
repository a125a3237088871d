"""The evidence of one request as two columns of cards, with what changed marked. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from streams.comparison.alignment import Pair
from streams.comparison.differences import Difference, Lost
from streams.comparison.findings import WHY
from streams.comparison.sides import Item

Kind: TypeAlias = Literal["kept", "moved", "lost", "new", "text"]

Span: TypeAlias = tuple[str, bool]
"""A piece of text and whether the other side has it otherwise."""

_WORDS = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A piece of evidence as one side has it.

    Attributes:
        item: The evidence.
        kind: What became of it.
        notes: The same in words, none where it is as it was.
        spans: Its text.
    """

    item: Item
    kind: Kind
    notes: tuple[str, ...]
    spans: tuple[Span, ...]


def cards(difference: Difference) -> tuple[tuple[Card, ...], tuple[Card, ...]]:
    """Return the base's cards and the candidate's, each in rank order."""
    base: dict[int, Card] = {lost.item.rank: _lost_card(lost) for lost in difference.lost}
    candidate: dict[int, Card] = {item.rank: _card(item, "new", ("new",)) for item in difference.new}
    for pair in difference.pairs:
        own, others = _spans(pair)
        base[pair.base.rank] = Card(
            item=pair.base, kind=_kind(pair), notes=_notes(pair, pair.base, pair.candidate), spans=own
        )
        candidate[pair.candidate.rank] = Card(
            item=pair.candidate, kind=_kind(pair), notes=_notes(pair, pair.candidate, pair.base), spans=others
        )
    return _column(difference.base.items, base), _column(difference.candidate.items, candidate)


def _column(items: Sequence[Item], known: dict[int, Card]) -> tuple[Card, ...]:
    """Put cards in order; where nothing was compared, evidence is as it is."""
    return tuple(known[item.rank] if item.rank in known else _card(item, "kept", ()) for item in items)


def _card(item: Item, kind: Kind, notes: tuple[str, ...]) -> Card:
    return Card(item=item, kind=kind, notes=notes, spans=((item.content, False),))


def _lost_card(lost: Lost) -> Card:
    into = f" (of {lost.merged_into})" if lost.merged_into else ""
    return _card(lost.item, "lost", (f"lost: {WHY[lost.reason]}{into}",))


def _kind(pair: Pair) -> Kind:
    if pair.rewritten or pair.resized:
        return "text"
    return "kept" if pair.base.rank == pair.candidate.rank else "moved"


def _notes(pair: Pair, own: Item, other: Item) -> tuple[str, ...]:
    side = "candidate" if own is pair.base else "base"
    notes = (
        (own.rank != other.rank, f"rank {other.rank} in the {side}"),
        (pair.renamed, f"{other.key} in the {side}: unstable identity"),
        (pair.rewritten, "other text"),
        (pair.resized, "shortened otherwise"),
    )
    return tuple(text for holds, text in notes if holds)


def _spans(pair: Pair) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    if pair.base.content == pair.candidate.content:
        return ((pair.base.content, False),), ((pair.candidate.content, False),)
    own, others = _WORDS.findall(pair.base.content), _WORDS.findall(pair.candidate.content)
    blocks = SequenceMatcher(None, own, others, autojunk=False).get_opcodes()
    return (
        tuple(("".join(own[i:j]), tag != "equal") for tag, i, j, _, _ in blocks if i < j),
        tuple(("".join(others[i:j]), tag != "equal") for tag, _, _, i, j in blocks if i < j),
    )
