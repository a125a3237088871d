"""The example on the page of comparison: a test collection as files of the product."""

from __future__ import annotations

from pathlib import Path

import orjson

from streams.comparison.relevance import read_qrels
from streams.indexing.documents import read_documents
from tests.examples.collection import convert


def test_a_collection_becomes_chunks_requests_and_judgements(tmp_path: Path) -> None:
    """Each as the product takes it; a document without text is its title."""
    files = {
        "docs.jsonl": [
            {"doc_id": "d1", "title": "Lag", "text": "Restart it. " * 100},
            {"doc_id": "d2", "title": "Only a title", "text": " "},
        ],
        "queries.jsonl": [{"query_id": "q1", "text": "What about lag?"}],
    }
    for name, lines in files.items():
        (tmp_path / name).write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
    (tmp_path / "qrels.tsv").write_text(
        "query_id\tdoc_id\trelevance\nq1\td1\t2\nq1\td2\t0\n", encoding="utf-8"
    )
    out = tmp_path / "out"
    assert convert(tmp_path, out) == {"chunks.jsonl": 3, "requests.jsonl": 1, "qrels.txt": 2}
    lag, title = read_documents(out / "chunks.jsonl")
    assert [chunk.key for chunk in lag.chunks] == ["d1#chunk-0", "d1#chunk-1"]
    assert [chunk.content for chunk in title.chunks] == ["Only a title"]
    assert orjson.loads((out / "requests.jsonl").read_bytes()) == {
        "request_id": "q1",
        "query": "What about lag?",
    }
    judgements = read_qrels(out / "qrels.txt")
    assert (judgements.level, judgements.grades) == ("document", {"q1": {"d1": 2, "d2": 0}})
