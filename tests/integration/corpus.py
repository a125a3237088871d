"""A corpus of a few thousand chunks, made of the bundled runbooks' own sentences."""

from __future__ import annotations

import random
import re
from pathlib import Path

import orjson

from streams.demo.session import RUNBOOKS

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def sentences() -> list[str]:
    """Return the runbooks' sentences, in order, none twice."""
    texts = (file.read_text(encoding="utf-8") for file in sorted(RUNBOOKS.glob("*.md")))
    prose = (line for text in texts for line in text.split("\n\n") if not line.startswith(("#", "```", "|")))
    found = (" ".join(sentence.split()) for block in prose for sentence in _SENTENCE.split(block))
    return list(dict.fromkeys(sentence for sentence in found if len(sentence) > 40))


def write_chunks(file: Path, *, documents: int, chunks_per_document: int) -> int:
    """Write chunks as JSON Lines, each of three sentences; some have one text, as real documents do.

    Returns:
        How many chunks were written.
    """
    choose = random.Random(11)
    known = sentences()
    lines = []
    for number in range(documents):
        for index in range(chunks_per_document):
            content = " ".join(choose.sample(known, 3))
            lines.append(
                orjson.dumps(
                    {
                        "docId": f"doc-{number:03}",
                        "chunkIndex": index,
                        "content": content,
                        "source": f"team-{number % 5}/shared.md",
                        "title": f"Document {number}",
                        "team": f"team-{number % 5}",
                    }
                )
            )
    file.write_bytes(b"\n".join(lines))
    return len(lines)
