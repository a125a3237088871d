"""Markdown into chunks. Pure functions: equal text gives equal chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from semantic_text_splitter import MarkdownSplitter

from pipeline.identity import evidence_key
from pipeline.model import Vector

MAX_CHUNK_CHARACTERS = 800

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?P<fields>.*?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)
_BREAK = frozenset({"softbreak", "hardbreak"})
_TEXT = frozenset({"text", "code_inline", "image"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a document, as it goes into the index.

    Attributes:
        doc_id: The document it belongs to.
        chunk_index: Its place in the document, from 0.
        content: Its text, not blank.
        source: Where the document came from, if known.
        title: The document's title, if known.
        breadcrumb: Title and headings above the chunk, outermost first, if known.
        extra: Further metadata, by field.
        vector: Its embedding, where the source brings one.
    """

    doc_id: str
    chunk_index: int
    content: str
    source: str | None = None
    title: str | None = None
    breadcrumb: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    vector: Vector | None = None

    @property
    def key(self) -> str:
        """Its primary key: the evidence key that a hit on it will have."""
        return evidence_key(
            doc_id=self.doc_id,
            chunk_index=self.chunk_index,
            vector_id=None,
            source=None,
            content=self.content,
        )

    @property
    def metadata(self) -> dict[str, object]:
        """Its metadata, without the fields that are not known."""
        known = {
            "docId": self.doc_id,
            "chunkIndex": self.chunk_index,
            "source": self.source,
            "title": self.title,
            "breadcrumb": self.breadcrumb,
        }
        return {**self.extra, **{name: value for name, value in known.items() if value is not None}}

    @property
    def embedding_text(self) -> str:
        """What is embedded: the headings say what the text is about, often in words that it does not use."""
        return f"{self.breadcrumb}\n{self.content}" if self.breadcrumb else self.content


def markdown_chunks(text: str, *, doc_id: str, source: str) -> tuple[Chunk, ...]:
    """Cut a Markdown document into chunks.

    Every section is cut by itself, where its Markdown breaks best, into chunks of at most 800 characters. A
    section's headings stand in the breadcrumb of its chunks; a section without text of its own and without
    sections below it is one chunk, its heading.

    Args:
        text: The document.
        doc_id: Its id.
        source: Its path, with `/`; the title, where neither a heading nor front matter gives one, is its
            last part without suffix.

    Returns:
        The chunks in the document's order, none where the document is blank.
    """
    front_title, body = _front_matter(_with_line_feeds(text))
    sections = tuple(_sections(body))
    first_title = next((each.heading for each in sections if each.level == 1 and each.heading), None)
    title = first_title or front_title or PurePosixPath(source).stem
    pieces = tuple(_pieces(sections, title))
    return tuple(
        Chunk(
            doc_id=doc_id,
            chunk_index=index,
            content=content,
            source=source,
            title=title,
            breadcrumb=breadcrumb,
        )
        for index, (breadcrumb, content) in enumerate(pieces)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """A heading and the text up to the next one.

    Attributes:
        level: 1 to 6; 0 for the text before the first heading.
        heading: Its words, without markup.
        text: The Markdown below it.
    """

    level: int
    heading: str
    text: str


def _with_line_feeds(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _front_matter(text: str) -> tuple[str | None, str]:
    """Return the title in the front matter, if there is one, and the text below it."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return None, text
    try:
        fields = yaml.safe_load(match["fields"])
    except (yaml.YAMLError, ValueError):
        return None, text
    if not isinstance(fields, dict):
        return None, text
    title = fields.get("title")
    return (title.strip() or None if isinstance(title, str) else None), text[match.end() :]


def _sections(text: str) -> Iterator[_Section]:
    lines = text.split("\n")
    level, heading, start = 0, "", 0
    for opening, words in _headings(text):
        first, end = opening.map or (0, 0)
        yield _Section(level=level, heading=heading, text="\n".join(lines[start:first]))
        level, heading, start = int(opening.tag[1:]), words, end
    yield _Section(level=level, heading=heading, text="\n".join(lines[start:]))


def _headings(text: str) -> Iterator[tuple[Token, str]]:
    """Find the headings that divide the document: those in quotes and lists, or in code, do not."""
    tokens = MarkdownIt("commonmark").parse(text)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.level == 0:
            yield opening, _words(inline)


def _words(inline: Token) -> str:
    parts = (
        " " if child.type in _BREAK else child.content
        for child in inline.children or ()
        if child.type in _BREAK or child.type in _TEXT
    )
    return " ".join("".join(parts).split())


def _pieces(sections: tuple[_Section, ...], title: str) -> Iterator[tuple[str, str]]:
    """Yield breadcrumb and content of each chunk, in order."""
    splitter = MarkdownSplitter(MAX_CHUNK_CHARACTERS)
    above: list[_Section] = []
    for section, following in zip(sections, (*sections[1:], None), strict=True):
        above = [*(each for each in above if each.level < section.level), section]
        breadcrumb = _breadcrumb(above, title)
        is_leaf = following is None or following.level <= section.level
        text = section.heading if is_leaf and not section.text.strip() else section.text
        yield from ((breadcrumb, piece) for piece in splitter.chunks(text) if piece.strip())


def _breadcrumb(above: list[_Section], title: str) -> str:
    headings = [each.heading for each in above if each.heading]
    return " > ".join([title, *(headings[1:] if headings[:1] == [title] else headings)])
