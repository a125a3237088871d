"""Blocks of Markdown into pieces of bounded length, each of which is Markdown by itself. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from streams.indexing.dividing import Part, divide, prose, whole
from streams.indexing.markdown import Block, fences_are_balanced

_MAX_DEPTH = 12
"""What is nested deeper is divided like a paragraph."""

_MIN_SIZE = 50
"""What is inside of a list has less room than a piece, and with less than this no markup is kept."""

_FENCE = re.compile(r"^([ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*)(?:`{3,}|~{3,})", re.MULTILINE)
_LONG_CODE = frozenset({"fence", "code_block", "table"})


class _Piece:
    """Parts that stand together, and how long they are together."""

    __slots__ = ("length", "parts")

    def __init__(self, *parts: Part) -> None:
        self.parts: list[Part] = []
        self.length = 0
        for part in parts:
            self.append(part)

    def append(self, part: Part) -> None:
        self.length = self.length_with(part)
        self.parts.append(part)

    def length_with(self, part: Part) -> int:
        """Return how long it would be with one more part."""
        return self.length + len(part.text) + (len(part.gap) if self.parts else 0)

    def pop(self) -> Part:
        """Take the last part away."""
        part = self.parts.pop()
        self.length -= len(part.text) + (len(part.gap) if self.parts else 0)
        return part

    def is_short(self, size: int) -> bool:
        """Say whether its neighbours should give something to it."""
        bare = all(part.kind == "code" for part in self.parts)
        return self.length * (2 if bare else 4) < size

    def text(self) -> str:
        """Return its Markdown, in which no fence is left open."""
        joined = "".join(part.gap + part.text for part in self.parts).strip("\n").rstrip()
        return joined if fences_are_balanced(joined) else _FENCE.sub(r"\1", joined)


def split_blocks(blocks: Sequence[Block], size: int) -> list[str]:
    """Put blocks together into pieces, and divide those that are too long for one.

    Code is divided between lines, each part of it fenced, with its language; every part of a table has the
    header row; lists are divided between items. A short piece takes something of the one before or after it,
    and code the paragraph above it. What has no words stands beside what has some, or nowhere.

    Args:
        blocks: Of one section, in order.
        size: Most characters of a piece, at least 100.

    Returns:
        The pieces in order, each with words in it.
    """
    return _split(blocks, size, depth=0)


def _split(blocks: Sequence[Block], size: int, *, depth: int) -> list[str]:
    if depth == _MAX_DEPTH or size < _MIN_SIZE:
        text = "".join(block.gap + block.text for block in blocks)
        return [_Piece(Part(text=each)).text() for each in prose(text, max(1, size))]
    nested = partial(_split, depth=depth + 1)
    pieces = [_Piece()]
    for before, block in pairwise((None, *blocks)):
        if block is None:
            continue
        if len(block.text) <= size:
            _place(pieces, whole(block), size)
            continue
        room = _room_beside_lead(pieces, block, size)
        for part in divide(block, before, nested, size=size, room=room):
            _place(pieces, part, size)
    worded = [piece for piece in pieces if any(part.words for part in piece.parts)]
    return [piece.text() for piece in _evened_out(worded, size)]


def _place(pieces: list[_Piece], part: Part, size: int) -> None:
    """Put a part into the last piece, or into a new one, together with the paragraph that introduces it."""
    piece = pieces[-1]
    if piece.parts and piece.length_with(part) > size:
        following = _Piece()
        lead = _lead(piece, size)
        if (
            lead is not None
            and part.kind != "paragraph"
            and len(piece.parts) > 1
            and _Piece(lead, part).length <= size
        ):
            following.append(piece.pop())
        pieces.append(following)
    pieces[-1].append(part)


def _room_beside_lead(pieces: list[_Piece], block: Block, size: int) -> int:
    """Return how long the first part of code may be to stand with the paragraph that introduces it."""
    lead = _lead(pieces[-1], size)
    if block.kind not in _LONG_CODE or lead is None:
        return size
    if len(pieces[-1].parts) > 1:
        pieces.append(_Piece(pieces[-1].pop()))
    return size - len(lead.text) - len(block.gap)


def _lead(piece: _Piece, size: int) -> Part | None:
    """Return the paragraph at a piece's end, if it is short enough to be moved."""
    last = piece.parts[-1] if piece.parts else None
    return last if last and last.kind == "paragraph" and len(last.text) * 2 <= size else None


def _evened_out(pieces: list[_Piece], size: int) -> list[_Piece]:
    """Give short pieces something of their neighbours."""
    for number in range(1, len(pieces)):
        if pieces[number].is_short(size):
            pieces[number - 1 : number + 1] = _end_moved(pieces[number - 1], pieces[number], size)
    for number in range(len(pieces) - 1):
        piece, after = pieces[number : number + 2]
        if piece.is_short(size) and len(after.parts) > 1 and piece.length_with(after.parts[0]) <= size:
            pieces[number : number + 2] = _Piece(*piece.parts, after.parts[0]), _Piece(*after.parts[1:])
    return pieces


def _end_moved(before: _Piece, piece: _Piece, size: int) -> tuple[_Piece, _Piece]:
    """Return two pieces with the end of the first in the second, where there is a place for it."""
    *others, last = before.parts
    if others and _Piece(last, *piece.parts).length <= size:
        return _Piece(*others), _Piece(last, *piece.parts)
    if last.kind == "paragraph":
        *_, tail = prose(last.text, max(1, len(last.text) // 2))
        kept = last.text[: last.text.rindex(tail)].rstrip()
        longer = _Piece(Part(text=tail, kind="paragraph"), *piece.parts)
        if kept and longer.length <= size:
            return _Piece(*others, Part(text=kept, gap=last.gap, kind="paragraph")), longer
    return before, piece
