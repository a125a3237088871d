"""The README, the runbook and the pages of the site: their code blocks, links and headings.

The line before a code block is `<!-- run: NAME -->` if the gate runs it, `<!-- test: NAME -->` if a test
does. A block without a language is output or a drawing. A block may stand on several pages, the same on each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RUNBOOK = ROOT / "deploy" / "RUNBOOK.md"
CHANGELOG = ROOT / "CHANGELOG.md"
SITE = ROOT / "deploy" / "docs"
PAGES = (README, RUNBOOK, CHANGELOG, *sorted(SITE.rglob("*.md")))

_BLOCK = re.compile(
    r"(?:^<!-- (?P<runner>\w+): (?P<name>[\w-]+) -->\n)?^```(?P<language>[\w{}-]*).*?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        page: The file it is in.
        line: Where it begins, from 1.
        runner: `run` for the gate, `test` for a test, `None` without a marker.
        name: The marker's name, or `None`.
        language: Empty for output and drawings; in braces for a directive of the site.
        text: What is inside.
    """

    page: Path
    line: int
    runner: str | None
    name: str | None
    language: str
    text: str

    @property
    def runnable(self) -> bool:
        """Whether it is code."""
        return self.language != "" and not self.language.startswith("{")


def named(page: Path) -> str:
    """Return a page's path from the top of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(*pages: Path) -> list[Block]:
    """Return the blocks of some pages in order; of all pages if none is named."""
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start()) + 1,
            runner=match["runner"],
            name=match["name"],
            language=match["language"],
            text=match["text"],
        )
        for page in pages or PAGES
        for text in [page.read_text(encoding="utf-8")]
        for match in _BLOCK.finditer(text)
    ]


def text_of(name: str) -> str:
    """Return the text of the block that a test runs."""
    [found] = {block.text for block in blocks() if (block.runner, block.name) == ("test", name)}
    return found


def prose(page: Path) -> str:
    """Return a page without its blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Return where a page's links and pictures lead."""
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
