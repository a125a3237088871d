"""A public test collection as the files that the product takes.

`python -m tests.examples.collection FOLDER OUT` reads from FOLDER

- `docs.jsonl`: `{"doc_id": "…", "title": "…", "text": "…"}` a line,
- `queries.jsonl`: `{"query_id": "…", "text": "…"}` a line,
- `qrels.tsv`: a heading, then query id, document id and relevance (an integer, 0 where it is not relevant),
  separated by tabs,

and writes to OUT

- `chunks.jsonl` for `lookup-stage index`: texts in pieces of at most 800 characters, under their title,
- `requests.jsonl` for the requests topic: one request a query, its id the query's,
- `qrels.txt` for `lookup-stage compare --qrels`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import orjson
from semantic_text_splitter import TextSplitter

from streams.indexing.chunks import MAX_CHUNK_CHARACTERS

Line = Mapping[str, object]


def convert(folder: Path, out: Path) -> dict[str, int]:
    """Convert a collection.

    Returns:
        How many lines each file has.
    """
    out.mkdir(parents=True, exist_ok=True)
    return {
        "chunks.jsonl": _write(
            out / "chunks.jsonl", map(orjson.dumps, chunks(_lines(folder / "docs.jsonl")))
        ),
        "requests.jsonl": _write(
            out / "requests.jsonl", map(orjson.dumps, requests(_lines(folder / "queries.jsonl")))
        ),
        "qrels.txt": _write(out / "qrels.txt", qrels(folder / "qrels.tsv")),
    }


def chunks(documents: Iterable[Mapping[str, str]]) -> Iterator[Line]:
    """Cut documents into chunks; one without text is its title."""
    splitter = TextSplitter(MAX_CHUNK_CHARACTERS)
    for document in documents:
        pieces = [piece for piece in splitter.chunks(document["text"]) if piece.strip()] or [
            document["title"]
        ]
        for index, piece in enumerate(pieces):
            yield {
                "docId": document["doc_id"],
                "chunkIndex": index,
                "content": piece,
                "title": document["title"],
                "breadcrumb": document["title"],
            }


def requests(queries: Iterable[Mapping[str, str]]) -> Iterator[Line]:
    """Ask each query once."""
    for query in queries:
        yield {"request_id": query["query_id"], "query": query["text"]}


def qrels(file: Path) -> Iterator[bytes]:
    """Yield judgements in TREC's format."""
    _, *lines = file.read_text(encoding="utf-8").splitlines()
    for line in lines:
        query_id, doc_id, relevance = line.split("\t")
        yield f"{query_id} 0 {doc_id} {relevance}".encode()


def _lines(file: Path) -> Iterator[Mapping[str, str]]:
    with file.open("rb") as lines:
        yield from map(orjson.loads, lines)


def _write(file: Path, lines: Iterable[bytes]) -> int:
    count = 0
    with file.open("wb") as out:
        for count, line in enumerate(lines, start=1):  # noqa: B007 - the last count is the number of lines
            out.write(line + b"\n")
    return count


if __name__ == "__main__":
    for name, count in convert(Path(sys.argv[1]), Path(sys.argv[2])).items():
        print(f"{count:>6} lines in {name}")  # noqa: T201 - what this is for
