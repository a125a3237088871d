"""What becomes of public documentation sets in the index: `python -m tests.benchmarks.headings FOLDER ...`.

For each folder of Markdown it prints how many pieces there are and what is wrong with any of them, then draws
200 headings by a seed, asks for each by its words with the bundled model, and counts for how many the first
piece found is of the section below that heading. Only headings that are unique in the folder, and have text
below them, are drawn; they are read by a parser of its own, so that two ways of dividing documents are asked
the same. Nothing is written; no server is needed.
"""

from __future__ import annotations

import asyncio
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from scipy.spatial.distance import cdist

from pipeline.embedders.word_llama import WordLlamaEmbedder
from streams.indexing.chunks import Chunk
from streams.indexing.documents import MAX_BYTES, read_documents

HEADINGS, SEED = 200, 7
LONGEST_HEADING, LONGEST_BREADCRUMB = 200, 500
TIMEOUT_S = 600.0
FENCE = re.compile(r"^[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*(?P<marks>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)$")
TAG = re.compile(r"</?[a-zA-Z][^<>:]*>|\]\([^()]*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A heading and the document in which it stands."""

    doc_id: str
    words: str


def figures(folder: Path) -> Iterator[str]:
    """Yield a folder's figures, one a line."""
    began = time.perf_counter()
    documents = read_documents(folder)
    seconds = time.perf_counter() - began
    chunks = [chunk for document in documents for chunk in document.chunks]
    lengths = [len(chunk.content) for chunk in chunks]
    yield f"{folder}: {len(documents):,} documents, {len(chunks):,} pieces in {seconds:.1f} s"
    yield f"  characters: {min(lengths)} to {max(lengths):,}, median {statistics.median(lengths):.0f}"
    yield f"  without words: {sum(not has_words(each) for each in chunks):,}"
    yield f"  with a fence left open: {sum(has_open_fence(each.content) for each in chunks):,}"
    yield f"  over a bound: {sum(map(is_over_bounds, chunks)):,}"
    yield f"  keys that occur twice: {len(chunks) - len({chunk.key for chunk in chunks}):,}"
    headings = unique_headings(folder)
    asked = random.Random(SEED).sample(headings, min(HEADINGS, len(headings)))
    found = asyncio.run(first_pieces(asked, chunks))
    hits = sum(map(is_section, asked, found))
    yield f"  section on rank 1: {hits} of {len(asked)} headings"


def has_words(chunk: Chunk) -> bool:
    """Say whether there are words beside fences and tags."""
    lines = [line for line in chunk.content.split("\n") if not FENCE.match(line)]
    seen = lines if len(lines) < chunk.content.count("\n") + 1 else [TAG.sub("", "\n".join(lines))]
    return any(map(str.isalnum, "".join(seen)))


def has_open_fence(text: str) -> bool:
    """Say whether a fence opens and does not close."""
    opened = ""
    for match in filter(None, map(FENCE.match, text.split("\n"))):
        if not opened:
            opened = match["marks"]
        elif match["marks"].startswith(opened) and not match["info"].strip():
            opened = ""
    return bool(opened)


def is_over_bounds(chunk: Chunk) -> bool:
    """Say whether a heading, the breadcrumb or the content is longer than it may be."""
    return (
        len(chunk.content.encode()) > MAX_BYTES
        or len(chunk.title or "") > LONGEST_HEADING
        or len(chunk.breadcrumb or "") > LONGEST_BREADCRUMB
    )


def unique_headings(folder: Path) -> list[Heading]:
    """Return the headings that are asked for, in the order of the documents."""
    found = [
        Heading(doc_id=file.relative_to(folder).with_suffix("").as_posix(), words=words)
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() in (".md", ".markdown") and file.is_file()
        for words in headings_with_text(file.read_text(encoding="utf-8"))
    ]
    counts = Counter(plain(heading.words) for heading in found)
    return [each for each in found if counts[plain(each.words)] == 1]


def headings_with_text(text: str) -> Iterator[str]:
    """Yield the words of headings that have a paragraph, list, table or code right below them."""
    tokens = MarkdownIt("commonmark").parse(text)
    for number, (opening, inline) in enumerate(pairwise(tokens)):
        after = tokens[number + 3].type if number + 3 < len(tokens) else "heading_open"
        if (
            opening.type == "heading_open"
            and not opening.level
            and after not in ("heading_open", "html_block")
        ):
            words = " ".join(re.sub(r"\{[:#][^{}]*\}", "", inline.content).split())
            if len(plain(words).split()) >= 2 and len(words) <= LONGEST_HEADING:
                yield words


def plain(words: str) -> str:
    """Return words as they are compared: without markup, in lower case."""
    return " ".join(re.findall(r"\w+", re.sub(r"\]\([^()]*\)", "", words).lower()))


async def first_pieces(asked: Sequence[Heading], chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the piece that is nearest to each heading's words."""
    embedder = WordLlamaEmbedder()
    await embedder.start()
    queries = await embedder.embed([heading.words for heading in asked], timeout_s=TIMEOUT_S)
    vectors = await embedder.embed([chunk.embedding_text for chunk in chunks], timeout_s=TIMEOUT_S)
    await embedder.close()
    return [chunks[int(row.argmin())] for row in cdist(queries, vectors, "cosine")]


def is_section(heading: Heading, chunk: Chunk) -> bool:
    """Say whether a piece stands right below a heading."""
    last = (chunk.breadcrumb or "").rsplit(" > ", maxsplit=heading.words.count(" > ") + 1)[-1]
    return chunk.doc_id == heading.doc_id and plain(last).endswith(plain(heading.words)[:100])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for line in figures(Path(name)):
            print(line)  # noqa: T201 - what this is for
