"""A block of Markdown that is too long into parts, each of which is Markdown by itself. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Literal, TypeAlias

from markdown_it.tree import SyntaxTreeNode
from semantic_text_splitter import MarkdownSplitter

from streams.indexing.markdown import Block, extent, has_words, parse_blocks

Kind: TypeAlias = Literal["paragraph", "code", "other"]
Nested: TypeAlias = Callable[[Sequence[Block], int], Sequence[str]]
"""Divide the blocks inside of a list item or a quote into texts of at most so many characters."""

_MAX_INFO_CHARACTERS = 40
_MAX_MARKS = 16
_MIN_CELL_CHARACTERS = 16
_INDENTATION = "    "
_MIN_WINDOW = 2_000
_PIECES_A_WINDOW = 16

_ITEM = re.compile(r"^ {0,3}(?P<marker>[-+*]|\d{1,9}[.)])(?P<space> *)")
_QUOTE = re.compile(r"^ {0,3}> ?", re.MULTILINE)
_FENCE_START = ("```", "~~~")
_ADMONITIONS = ("!!!", "???", "===")
_DELIMITERS = {"text-align:left": ":--", "text-align:center": ":-:", "text-align:right": "--:"}
_CODE = frozenset({"fence", "code_block"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is not divided any further.

    Attributes:
        text: Markdown, at most as long as a piece.
        gap: What stands between it and the part before.
        kind: Paragraphs introduce what follows, and code needs one.
        words: Whether readers see words in it.
    """

    text: str
    gap: str = "\n\n"
    kind: Kind = "other"
    words: bool = True


def whole(block: Block) -> Part:
    """Return a block as one part."""
    return Part(text=block.text, gap=block.gap, kind=_kind(block), words=has_words(block))


def divide(block: Block, before: Block | None, nested: Nested, *, size: int, room: int) -> Iterator[Part]:
    """Divide a block.

    Args:
        block: Longer than `size`.
        before: The block before it, which may say that what is indented is not code.
        nested: Divides what is inside of it.
        size: Most characters of a part.
        room: Most characters of the first part, where it is code or a table.
    """
    node, kind = block.node, _kind(block)
    gap = block.gap
    if node is not None and block.kind in ("bullet_list", "ordered_list"):
        yield from _list_parts(block, node, nested, size)
        return
    for text, words in _texts(block, before, nested, size=size, room=room):
        yield Part(text=text, gap=gap, kind=kind, words=words)
        gap = "\n" if kind == "paragraph" else "\n\n"


def prose(text: str, size: int) -> list[str]:
    """Divide a text where sentences, words or, where there is no other way, characters end."""
    pieces: list[str] = []
    start, window = 0, max(_MIN_WINDOW, _PIECES_A_WINDOW * size)
    while len(text) - start > window:
        # The splitter takes longer for each piece the more text there is.
        *complete, (last, _) = _splitter(size).chunk_indices(text[start : start + window])
        pieces += [piece for _, piece in complete]
        start += last
    return [each for each in (*pieces, *_splitter(size).chunks(text[start:])) if each.strip()]


@lru_cache(maxsize=64)
def _splitter(size: int) -> MarkdownSplitter:
    return MarkdownSplitter(size)


def _kind(block: Block) -> Kind:
    if block.kind in _CODE:
        return "code"
    return "paragraph" if block.kind in ("paragraph", "heading") else "other"


def _texts(
    block: Block, before: Block | None, nested: Nested, *, size: int, room: int
) -> Iterator[tuple[str, bool]]:
    """Yield a block's texts, each with whether it has words."""
    node = block.node
    if node is not None and block.kind == "fence":
        yield from _code(node.content, node.markup, node.info.strip(), size=size, room=room)
        return
    if node is not None and block.kind == "code_block" and not _continues(before):
        yield from _code(node.content, "```", "", size=size, room=room)
        return
    texts: Iterable[str] | None = None
    if node is not None and block.kind == "code_block":
        texts = nested(parse_blocks(node.content), size)
    elif node is not None and block.kind == "blockquote":
        texts = _quote(block.text, nested, size)
    elif node is not None and block.kind == "table":
        texts = _table(node, size=size, room=room)
    for text in prose(block.text, size) if texts is None else texts:
        yield text, any(map(str.isalnum, text))


def _continues(before: Block | None) -> bool:
    """Say whether what is indented is the text of an admonition or a tab, as MkDocs has them."""
    return before is not None and before.text.lstrip().startswith(_ADMONITIONS)


def _code(content: str, markup: str, info: str, *, size: int, room: int) -> Iterator[tuple[str, bool]]:
    """Divide code between its lines, and fence each part of it."""
    marks = _marks(content, markup)
    if not marks:
        for lines in _line_groups(content.split("\n"), first=size // 5, others=size // 5):
            body = "\n".join(lines)
            yield _INDENTATION + body.replace("\n", f"\n{_INDENTATION}"), any(map(str.isalnum, body))
        return
    most = min(_MAX_INFO_CHARACTERS, size // 4)
    language = next(iter(info.split()), "")
    language = language if len(language) <= most else ""
    opening = info if len(info) <= most else language
    fences = 2 * len(marks) + 2
    first, others = room - fences - len(opening), size - fences - len(language)
    for lines in _line_groups(content.split("\n"), first=first, others=others):
        body = "\n".join(lines)
        yield f"{marks}{opening}\n{body}\n{marks}", any(map(str.isalnum, body))
        opening = language


def _marks(content: str, markup: str) -> str:
    """Return a fence that no part of the code closes; an empty one where it would have to be very long."""
    for mark, least in ((markup[0], len(markup)), ("`", 3), ("~", 3)):
        longest = max(map(len, re.findall(f"{mark}+", content)), default=0)
        count = longest + 1 if longest >= least else least
        if count <= _MAX_MARKS:
            return mark * count
    return ""


def _line_groups(lines: Sequence[str], *, first: int, others: int) -> Iterator[Sequence[str]]:
    """Yield lines in groups of at most so many characters, divided at blank lines where there are any."""
    room, group, length = first, list[str](), 0
    for line in chain.from_iterable(_slices(each, others) for each in lines):
        while group and length + len(line) > room:
            cut = next(
                (n for n in range(len(group) - 1, len(group) // 2, -1) if not group[n].strip()), len(group)
            )
            yield from _without_blank_ends(group[:cut])
            room, group = others, group[cut:]
            length = sum(map(len, group)) + len(group)
        group.append(line)
        length += len(line) + 1
    yield from _without_blank_ends(group)


def _without_blank_ends(group: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the group, if there is anything in it."""
    filled = [number for number, line in enumerate(group) if line.strip()]
    if filled:
        yield group[filled[0] : filled[-1] + 1]


def _slices(line: str, size: int) -> Iterator[str]:
    start = 0
    while len(line) - start > size:
        space = line.rfind(" ", start + size // 2, start + size)
        end = start + size if space < 0 else space + 1
        yield line[start:end]
        start = end
    yield line[start:]


def _list_parts(block: Block, node: SyntaxTreeNode, nested: Nested, size: int) -> Iterator[Part]:
    """Yield the items of a list, and what is inside of those that are too long."""
    lines = block.text.split("\n")
    top = node.map[0] if node.map else 0
    gap, end = block.gap, 0
    for item in node.children:
        first, last = extent(item, lines, top)
        if end:
            gap = "\n" if first == end else "\n\n"
        end = last
        text = "\n".join(lines[first:last])
        for piece in (text,) if len(text) <= size else _item_texts(text, nested, size):
            yield Part(text=piece, gap=gap, words=any(map(str.isalnum, piece)))
            gap = "\n\n"


def _item_texts(text: str, nested: Nested, size: int) -> Sequence[str]:
    found = _ITEM.match(text)
    if found is None:
        return prose(text, size)
    marker = found["marker"]
    width = found.end("marker") + (
        len(found["space"]) if 1 <= len(found["space"]) <= len(_INDENTATION) else 1
    )
    first, *others = text.split("\n")
    inner = "\n".join([first[width:], *(_outdented(each, width) for each in others)])
    texts = list(nested(parse_blocks(inner), size - len(marker) - 1))
    if texts:
        texts[0] = _with_marker(marker, texts[0], size)
    return texts


def _outdented(line: str, width: int) -> str:
    line = line.expandtabs(len(_INDENTATION)) if line.startswith((" ", "\t")) else line
    return line[min(width, len(line) - len(line.lstrip(" "))) :]


def _with_marker(marker: str, text: str, size: int) -> str:
    """Return the beginning of a list item; it is indented where there is room for that."""
    indentation = " " * (len(marker) + 1)
    hanging = f"{marker} " + re.sub(r"\n(?!\n|$)", f"\n{indentation}", text)
    if len(hanging) <= size:
        return hanging
    return f"{marker}\n{text}" if text.startswith(_FENCE_START) else f"{marker} {text}"


def _quote(text: str, nested: Nested, size: int) -> Iterator[str]:
    for piece in nested(parse_blocks(_QUOTE.sub("", text)), size - size // 8):
        quoted = "> " + piece.replace("\n", "\n> ")
        yield quoted if len(quoted) <= size else piece


def _table(table: SyntaxTreeNode, *, size: int, room: int) -> Sequence[str] | None:
    """Return a table's rows in groups, each under the header row; `None` where that takes too much room."""
    head, *bodies = table.children
    cells = head.children[0].children
    header = _row([_content(cell) for cell in cells])
    header += "\n" + _row([_DELIMITERS.get(str(cell.attrs.get("style")), "---") for cell in cells])
    least = (size - len(header) - 3 * len(cells) - 2) // len(cells)
    if least < _MIN_CELL_CHARACTERS:
        return None
    rows = [
        row
        for body in bodies
        for each in body.children
        for row in _rows([_content(cell) for cell in each.children], size - len(header) - 1, least)
    ]
    groups = _line_groups(rows, first=room - len(header) - 1, others=size - len(header) - 1)
    return ["\n".join([header, *group]) for group in groups]


def _content(cell: SyntaxTreeNode) -> str:
    return "".join(each.content for each in cell.children).strip()


def _rows(contents: Sequence[str], size: int, cell_size: int) -> Iterator[str]:
    """Yield a row, or as many as it takes to hold it."""
    row = _row(contents)
    if len(row) <= size:
        yield row
        return
    # Half of it, for a bar within a cell is written as two characters.
    slices = (prose(each, cell_size // 2 if "|" in each else cell_size) for each in contents)
    yield from map(_row, zip_longest(*slices, fillvalue=""))


def _row(contents: Sequence[str]) -> str:
    return "| " + " | ".join(each.replace("|", "\\|").replace("\n", " ") for each in contents) + " |"
