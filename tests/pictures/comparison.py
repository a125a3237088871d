"""Photographs one request of a comparison: `python -m tests.pictures.comparison`.

The demo's first question to its runbooks, with two chunks of each and with one.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from selenium.webdriver.common.by import By

from pipeline.embedders.word_llama import WordLlamaEmbedder
from pipeline.lookup import LookupPipeline
from pipeline.model import Limits
from pipeline.testing.in_memory import InMemorySearch, Row
from streams.comparison.reports.page import html_page
from streams.demo.session import RUNBOOKS, bundled_questions
from streams.indexing.documents import read_documents
from streams.recordings.recording import Recording
from tests.builders import limits, lookup, recording
from tests.comparisons import all_compared
from tests.support.browser import chromium

PICTURE = Path(__file__).parents[2] / "deploy" / "pictures" / "comparison.png"
TIMEOUT_S = 60
WIDTH, HEIGHT = 1100, 1200


async def page(folder: Path) -> str:
    """Ask an index in memory twice, compares, and return the page."""
    embedder = WordLlamaEmbedder()
    await embedder.start()
    chunks = [chunk for document in read_documents(RUNBOOKS) for chunk in document.chunks]
    vectors = await embedder.embed([chunk.embedding_text for chunk in chunks], timeout_s=TIMEOUT_S)
    rows = [
        Row(id=chunk.key, content=chunk.content, metadata=chunk.metadata, vector=vector)
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]
    pipeline = LookupPipeline(InMemorySearch(rows), embedder)
    base, candidate = [
        await recorded(pipeline, limits(return_n=3, max_chunks_per_document=cap)) for cap in (2, 1)
    ]
    return html_page(all_compared(folder, [base], [candidate]), ())


async def recorded(pipeline: LookupPipeline, widths: Limits) -> Recording:
    """Ask the question."""
    question, *_ = bundled_questions()
    found = await pipeline.run(lookup(*question, widths=widths), timeout_s=TIMEOUT_S)
    one = recording(*found.answers, widths=widths)
    [path] = one.paths or ()
    return replace(one, paths=(replace(path, text=question[0]),))


def main() -> None:
    """Open the page at one request and photograph that."""
    with tempfile.TemporaryDirectory() as name, chromium(width=WIDTH, height=HEIGHT) as browser:
        file = Path(name) / "report.html"
        file.write_text(asyncio.run(page(Path(name))), encoding="utf-8")
        browser.get(file.as_uri())
        browser.find_element(By.CSS_SELECTOR, "#requests .open").click()
        evidence = browser.find_element(By.CSS_SELECTOR, "#requests .detail td")
        browser.execute_script("arguments[0].scrollIntoView()", evidence)
        evidence.screenshot(str(PICTURE))


if __name__ == "__main__":
    main()
