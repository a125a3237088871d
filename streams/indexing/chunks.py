"""Markdown into chunks. Pure functions: equal text gives equal chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pipeline.identity import evidence_key
from pipeline.model import Vector
from pipeline.projector import shorten
from streams.indexing.front_matter import split_front_matter
from streams.indexing.markdown import MAX_HEADING_CHARACTERS, Block, Document, Section, parse
from streams.indexing.splitting import split_blocks

MAX_CHUNK_CHARACTERS = 800
MAX_BREADCRUMB_CHARACTERS = 500

_SEPARATOR = " > "

_ELLIPSIS = "…"
_LABEL = re.compile(r"\[([^\[\]]{1,999})\]")


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
        heading: The innermost heading, if what is embedded is to have it twice.
    """

    doc_id: str
    chunk_index: int
    content: str
    source: str | None = None
    title: str | None = None
    breadcrumb: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    vector: Vector | None = None
    heading: str | None = field(default=None, compare=False)

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
        """Return what is embedded: the headings say what the text is about, often in words of their own.

        The innermost says it best, and among other headings and 800 characters of text it would not weigh
        enough to be found by its words. So it stands there twice.
        """
        return "\n".join(filter(None, (self.breadcrumb, self.heading, self.content)))


def markdown_chunks(
    text: str, *, doc_id: str, source: str, size: int = MAX_CHUNK_CHARACTERS
) -> tuple[Chunk, ...]:
    """Divide a Markdown document into chunks.

    Every section is divided by itself (see `split_blocks`). A section's headings stand in the breadcrumb of
    its chunks; a section without text of its own and without sections below it is one chunk, its heading. A
    heading of more than 200 characters is shortened there and is text as well, and a breadcrumb of more than
    500 loses headings between the first and the last. A chunk whose links are defined elsewhere in the
    document has the definitions at its end, as far as there is room.

    Args:
        text: The document.
        doc_id: Its id.
        source: Its path, with `/`; the title, where neither a heading nor front matter gives one, is its
            last part without suffix.
        size: Most characters of a chunk, 100 to 16,000.

    Returns:
        The chunks in the document's order, none where the document is blank. Each has words in it.
    """
    front_title, body = split_front_matter(_with_line_feeds(text))
    document = parse(body)
    sections = document.sections
    first_title = next((each.heading for each in sections if each.level == 1 and each.heading), None)
    title = first_title or front_title or PurePosixPath(source).stem
    if first_title is None and front_title is not None:
        sections = _with_long_title(sections, front_title)
    return tuple(
        Chunk(
            doc_id=doc_id,
            chunk_index=index,
            content=content,
            source=source,
            title=_label(title),
            breadcrumb=_SEPARATOR.join(labels),
            heading=labels[-1],
        )
        for index, (labels, content) in enumerate(_pieces(sections, document, title, size))
    )


def _with_line_feeds(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _with_long_title(sections: Sequence[Section], title: str) -> tuple[Section, ...]:
    """Return a document with its title as text, if no chunk could carry it."""
    first, *others = sections
    return (
        Section(level=first.level, heading=first.heading, blocks=(*_as_text(title), *first.blocks)),
        *others,
    )


def _as_text(heading: str) -> Iterator[Block]:
    if len(heading) > MAX_HEADING_CHARACTERS:
        yield Block(kind="paragraph", text=heading)


def _label(heading: str) -> str:
    """Return a heading as titles and breadcrumbs have it."""
    if len(heading) <= MAX_HEADING_CHARACTERS:
        return heading
    return shorten(heading, MAX_HEADING_CHARACTERS - len(_ELLIPSIS)) + _ELLIPSIS


def _pieces(
    sections: Sequence[Section], document: Document, title: str, size: int
) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the headings above each chunk and its content, in order."""
    above: list[Section] = []
    for section, following in zip(sections, (*sections[1:], None), strict=True):
        above = [*(each for each in above if each.level < section.level), section]
        labels = _labels([each.heading for each in above if each.heading], title)
        pieces = split_blocks((*_as_text(section.heading), *section.blocks), size)
        is_leaf = following is None or following.level <= section.level
        if is_leaf and not pieces and any(map(str.isalnum, section.heading)):
            pieces = [section.heading]
        for piece in pieces:
            yield labels, _with_definitions(piece, document.definitions, size)


def _labels(headings: Sequence[str], title: str) -> list[str]:
    """Return a breadcrumb's headings, outermost first, without those that would make it too long."""
    labels = [_label(each) for each in (title, *(headings[1:] if headings[:1] == [title] else headings))]
    while len(_SEPARATOR.join(labels)) > MAX_BREADCRUMB_CHARACTERS:
        labels[1 : 3 if labels[1] == _ELLIPSIS else 2] = [_ELLIPSIS]
    return labels


def _with_definitions(piece: str, definitions: Mapping[str, str], size: int) -> str:
    """Return a piece with the definitions of its links, as far as there is room for them."""
    if not definitions:
        return piece
    labels = dict.fromkeys(" ".join(each.lower().split()) for each in _LABEL.findall(piece))
    gap = "\n\n"
    for line in filter(None, map(definitions.get, labels)):
        if len(piece) + len(gap) + len(line) <= size:
            piece += gap + line
            gap = "\n"
    return piece
