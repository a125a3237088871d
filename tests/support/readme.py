"""The README's code blocks, each with the marker that says who runs it.

The line before a block is `<!-- run: NAME -->` where the gate runs it, `<!-- test: NAME -->` where a test
does. A block without a language is output or a drawing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<runner>\w+): (?P<name>[\w-]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        runner: `run` for the gate, `test` for a test, `None` without a marker.
        name: The marker's name, or `None`.
        language: Empty for output and drawings.
        text: What is inside.
        line: Where it begins, from 1.
    """

    runner: str | None
    name: str | None
    language: str
    text: str
    line: int


def blocks() -> list[Block]:
    """Return all blocks in order."""
    text = README.read_text(encoding="utf-8")
    return [
        Block(
            runner=match["runner"],
            name=match["name"],
            language=match["language"],
            text=match["text"],
            line=text.count("\n", 0, match.start()) + 1,
        )
        for match in _BLOCK.finditer(text)
    ]


def text_of(name: str) -> str:
    """Return the text of the block that a test runs."""
    (found,) = [block.text for block in blocks() if (block.runner, block.name) == ("test", name)]
    return found
