"""A Markdown document as sections of blocks, after the tree of a CommonMark parser. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

MAX_HEADING_CHARACTERS = 200
"""Longest heading in a title or a breadcrumb; what is longer is text as well."""

_LONGEST_PARSED_HEADING = 10 * MAX_HEADING_CHARACTERS
_LONGEST_PARSED_TEXT = 1_000
"""Inline markup of what is longer is not looked into: it would take long, and change nothing."""

_BREAKS = frozenset({"softbreak", "hardbreak"})
_TEXTS = frozenset({"text", "code_inline"})
_INLINE_MARKUP = re.compile(r"[<\[!&{]")
_TAG = re.compile(r"<[^<>]*>")
_FENCE = re.compile(
    r"^[ \t>]*(?P<item>(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*)(?P<marks>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)$"
)
_DEFINITION = re.compile(
    r"^ {0,3}\[(?P<label>[^\[\]^][^\[\]]{0,998})\]:[ \t]*(?:<[^<>]*>|(?=\S*[/.#:])\S++)"
    r"(?:[ \t]+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?[ \t]*$"
)
_IMPORT_LINE = re.compile(r"import\b|\s*[\w$*{},\s]*(?:\bfrom\b.*)?$")
_EXPORT = re.compile(r"export\s+(?:(?:const|let|var|function|async|class|default)\b|[{*])")
_JSX_COMMENT = ("{/*", "*/}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A paragraph, list, table, piece of code, or what else a section is made of.

    Attributes:
        kind: The parser's name of it, such as `paragraph` or `fence`.
        text: Its Markdown as it stands in the document.
        gap: What stands between it and the block before: one line feed, or two.
        node: The parser's own, where it is one of the parser's.
    """

    kind: str
    text: str
    gap: str = "\n\n"
    node: SyntaxTreeNode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what stands below it, up to the next heading.

    Attributes:
        level: 1 to 6; 0 for what stands before the first heading.
        heading: Its words, without markup.
        blocks: In order, without what readers of the page do not see: HTML comments, definitions of links,
            imports and exports of MDX.
    """

    level: int
    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as its parser sees it.

    Attributes:
        sections: In order; the first has no heading.
        definitions: The lines that define links, by label in lower case.
    """

    sections: tuple[Section, ...]
    definitions: Mapping[str, str]


def parse(text: str) -> Document:
    """Divide a document into sections of blocks.

    Headings in quotes, lists and code divide nothing. An underlined text that is too long for a heading is a
    paragraph above a rule.

    Args:
        text: Markdown without front matter, with line feeds only.
    """
    definitions: dict[str, str] = {}
    sections: list[Section] = []
    level, heading, blocks = 0, "", list[Block]()
    for block in _blocks(text, definitions):
        if block.node is not None and block.kind == "heading" and not _is_accident(block.node):
            sections.append(Section(level=level, heading=heading, blocks=tuple(blocks)))
            level, heading, blocks = int(block.node.tag[1:]), _heading_words(block.node), []
        else:
            blocks.append(block)
    sections.append(Section(level=level, heading=heading, blocks=tuple(blocks)))
    return Document(sections=tuple(sections), definitions=definitions)


def parse_blocks(text: str) -> tuple[Block, ...]:
    """Return the blocks of what stands in a quote or a list item, its headings among them."""
    return tuple(_blocks(text, {}))


def has_words(block: Block) -> bool:
    """Say whether there is a letter or a digit in what readers of the block see."""
    if block.node is None or block.kind not in ("paragraph", "fence", "html_block"):
        return any(map(str.isalnum, block.text))
    if block.kind == "fence":
        return any(map(str.isalnum, block.node.content))
    if block.kind == "html_block":
        return any(map(str.isalnum, _TAG.sub("", block.text)))
    return any(map(str.isalnum, _plain(block.text)))


def fences_are_balanced(text: str) -> bool:
    """Say whether every code block in a text that begins with a fence also ends with one."""
    return _open_fence(text.split("\n")) is None


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # What is inline is looked into where it matters, and definitions are looked for where they are hidden.
    return MarkdownIt("commonmark").enable("table").disable(["reference", "inline"])


@lru_cache(maxsize=1)
def _inline_parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _parsed(text: str) -> tuple[list[str], list[Token]]:
    """Return a document's lines and tokens, with each fence closed that the document leaves open."""
    lines = list(_with_fences_apart(text.split("\n")))
    tokens = _parser().parse("\n".join(lines))
    missing = list(_missing_fences(tokens, lines))
    if not missing:
        return lines, tokens
    for place, line in reversed(missing):
        lines.insert(place, line)
    return lines, _parser().parse("\n".join(lines))


def _blocks(text: str, definitions: dict[str, str]) -> Iterator[Block]:
    """Yield what readers see of a text; what it defines is put into `definitions`."""
    lines, tokens = _parsed(text)
    end = 0
    for node in SyntaxTreeNode(tokens).children:
        first, last = extent(node, lines)
        block = Block(
            kind=node.type,
            text="\n".join(lines[first:last]).rstrip(),
            gap="\n" if first == end else "\n\n",
            node=node,
        )
        visible = _visible(block, definitions)
        if visible is not None:
            yield visible
        end = last


def _with_fences_apart(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines, with a blank one between a tag and a fence: MDX needs none there, CommonMark does."""
    opened: str | None = None
    before = ""
    for line in lines:
        fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if fence is not None and opened is None:
            opened = fence["marks"]
            tag = before.strip()
            if tag.startswith("<") and tag.endswith(">"):
                yield ""
        elif fence is not None and opened is not None and _closes(fence, opened):
            opened = None
        before = line
        yield line


def _missing_fences(tokens: Sequence[Token], lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield where a closing fence is missing, and the line that it would be."""
    for token in tokens:
        if token.type != "fence" or token.map is None:
            continue
        first, end = token.map
        last = lines[end - 1].strip(" \t>") if end - 1 > first else ""
        if last and not last.strip(token.markup[0]) and len(last) >= len(token.markup):
            continue
        while end - 1 > first and not lines[end - 1].strip(" \t>"):
            end -= 1
        before_marks = lines[first].partition(token.markup)[0]
        yield end, re.sub(r"[^>\s]", " ", before_marks) + token.markup


def _open_fence(lines: Sequence[str]) -> str | None:
    opened: str | None = None
    for line in lines:
        fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if fence is not None and opened is None:
            opened = fence["marks"]
        elif fence is not None and opened is not None and _closes(fence, opened):
            opened = None
    return opened


def _closes(fence: re.Match[str], opened: str) -> bool:
    return fence["marks"].startswith(opened) and not fence["item"] and not fence["info"].strip()


def extent(node: SyntaxTreeNode, lines: Sequence[str], top: int = 0) -> tuple[int, int]:
    """Return a node's first line and the one after its last that is not blank.

    Args:
        node: The node.
        lines: The document's, or those of a block above it.
        top: How many lines of the document stand above these.
    """
    first, end = node.map or (top, top)
    first, end = first - top, min(end - top, len(lines))
    while end > first and not lines[end - 1].strip():
        end -= 1
    return first, end


def _is_accident(heading: SyntaxTreeNode) -> bool:
    """Say whether the line below a paragraph was meant as a rule."""
    return heading.markup in ("=", "-") and len(_heading_words(heading)) > MAX_HEADING_CHARACTERS


def _heading_words(heading: SyntaxTreeNode) -> str:
    [inline] = heading.children  # of every heading it is one, blank or not
    content = inline.content
    before, _, attributes = content.rpartition("{")
    if content.endswith("}") and attributes.startswith(("#", ":")):
        content = before
    return " ".join(_plain(content, longest=_LONGEST_PARSED_HEADING).split())


def _plain(text: str, *, longest: int = _LONGEST_PARSED_TEXT) -> str:
    """Return inline Markdown as its readers see it."""
    if len(text) > longest:
        return text
    [inline] = _inline_parser().parseInline(text)
    return "".join(_seen(inline.children or ()))


def _seen(children: Sequence[Token]) -> Iterator[str]:
    for child in children:
        if child.type in _BREAKS:
            yield " "
        elif child.type in _TEXTS:
            yield child.content
        elif child.type == "image":
            yield from _seen(child.children or ())


def _visible(block: Block, definitions: dict[str, str]) -> Block | None:
    """Return what readers see of a block, if anything; what it defines is put into `definitions`."""
    text = block.text
    if block.kind == "html_block" and "<!--" in text:
        text = _without_comments(text).strip("\n")
    elif block.kind == "paragraph":
        text = _without_definitions(text, definitions)
        if _is_code_of_mdx(text.strip()):
            return None
    if not text.strip():
        return None
    return block if text == block.text else replace(block, text=text)


def _without_comments(html: str) -> str:
    kept, start = list[str](), 0
    while (opening := html.find("<!--", start)) >= 0 and (closing := html.find("-->", opening + 4)) >= 0:
        kept.append(html[start:opening])
        start = closing + 3
    return "".join(kept) + html[start:]


def _without_definitions(paragraph: str, definitions: dict[str, str]) -> str:
    lines = paragraph.split("\n")
    for number, line in enumerate(lines):
        definition = _DEFINITION.match(line)
        if definition is None:
            return "\n".join(lines[number:])
        definitions.setdefault(" ".join(definition["label"].lower().split()), line.strip())
    return ""


def _is_code_of_mdx(paragraph: str) -> bool:
    opening, closing = _JSX_COMMENT
    if paragraph.startswith(opening):
        return paragraph.endswith(closing)
    if paragraph.startswith("import "):
        return paragraph.rstrip("; ").endswith(("'", '"')) and all(
            map(_IMPORT_LINE.match, paragraph.split("\n"))
        )
    return bool(_EXPORT.match(paragraph)) and paragraph.endswith((";", "}", "]", ")", "'", '"'))
