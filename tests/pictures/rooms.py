"""Draw the rooms of the two packages: `python -m tests.pictures.rooms` writes `deploy/pictures/rooms.svg`.

Which room stands above which is read from the layers in `pyproject.toml`, what it imports from the source.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from html import escape
from typing import TypeAlias

from tests.unit.test_architecture import ROOT, imports_of, modules

PICTURE = ROOT / "deploy" / "pictures" / "rooms.svg"

PURPOSES = {
    "cli": "the commands",
    "comparison": "what changed between two recordings, and why",
    "contract": "JSON Schemas and the AsyncAPI document",
    "demo": "broker, index and worker on one machine",
    "worker": "all parts put together, run in Faust",
    "client": "for agents in Python",
    "indexing": "documents into chunks, chunks into Milvus",
    "observability": "metrics, health, logs and traces",
    "replay": "recordings answered again",
    "stage": "requests in flight, answered and acknowledged in order",
    "recordings": "the format and its files",
    "wire": "requests and their rules, results, dead letters",
    "kafka": "connections, topics, reading and publishing records",
    "output": "whole files, safe text for terminals",
    "settings": "the model, its sources, loading",
    "adapters": "Milvus; retries, circuit, shared calls",
    "embedders": "WordLlama, OpenAI-compatible endpoints",
    "testing": "suites for ports, a port in memory",
    "core": "identity, post-processing, projection, ports",
}
"""What each room is for; a room that is not here cannot be drawn."""

PARTS = ("adapters", "embedders", "testing")
"""Rooms of `pipeline` beside its core."""

NOT_DRAWN = ("moved",)
"""Old names of modules are no room."""

TITLE = "The rooms of the two packages; each imports only from rooms below it"
WIDTH, MARGIN, GAP = 980, 10, 12
ROW_GAP, PADDING = 14, 12
LINE, NAME_LINE = 16, 22
CHARACTER = 6.3
"""Width of a character of the small text, in pixels."""

STYLE = """\
    svg { --ink: #1f2328; --faint: #59636e; --line: #818b98; --paper: #ffffff; --stage: #f6f8fa;
          --room: #ddf4ff; --pure: #dafbe1; font-family: system-ui, -apple-system, "Segoe UI", sans-serif }
    @media (prefers-color-scheme: dark) {
      svg { --ink: #f0f6fc; --faint: #9198a1; --line: #656c76; --paper: #0d1117; --stage: #151b23;
            --room: #12304f; --pure: #12351f }
    }
    text { fill: var(--ink); font-size: 12px }
    .faint { fill: var(--faint) }
    .name { font-family: ui-monospace, SFMono-Regular, Menlo, monospace; font-size: 14px; font-weight: 600 }
    rect { stroke: var(--line); stroke-width: 1 }
    .page { fill: var(--paper); stroke: none }
    .package { fill: var(--stage); stroke-dasharray: 4 3 }
    .streams { fill: var(--room) }
    .pipeline { fill: var(--pure) }"""

Rows: TypeAlias = Sequence[Sequence[str]]


def streams_rows() -> Rows:
    """Return the rooms of the stage, from the top row down, as the layers are declared."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [layers] = [
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == ["streams"]
    ]
    return [row.split(" | ") for row in layers]


def imports() -> dict[str, set[str]]:
    """Return what each room imports: rooms of its own package, and `pipeline`."""
    found: dict[str, set[str]] = {}
    for name in modules("streams", "pipeline"):
        room = _room(name.removesuffix(".py").replace("/", "."))
        imported = {_seen_from(room, other) for other in imports_of(name)}
        found.setdefault(room, set()).update(imported - {room, ""})
    return found


def draw() -> str:
    """Return the picture as SVG."""
    drawing = _Drawing(imports())
    drawing.package("streams", "streams: the stage on Kafka", streams_rows())
    drawing.package(
        "pipeline", "pipeline: knows no Kafka", [["testing"], ["adapters", "embedders"], ["core"]]
    )
    size = f'viewBox="0 0 {WIDTH} {drawing.y}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">',
            f'  <title id="title">{TITLE}</title>',
            f"  <style>\n{STYLE}\n  </style>",
            f'  <rect class="page" width="{WIDTH}" height="{drawing.y}" rx="10"/>',
            *drawing.lines,
            "</svg>\n",
        ]
    )


class _Drawing:
    """The picture as far as it is drawn, from the top down."""

    def __init__(self, imported: dict[str, set[str]]) -> None:
        self._imported = imported
        self.lines: list[str] = []
        self.y = MARGIN

    def package(self, name: str, title: str, rows: Rows) -> None:
        """Draw a frame with rows of rooms in it."""
        frame = len(self.lines)
        top = self.y
        self._text(MARGIN + PADDING, top + 20, title, "faint")
        self.y += 30
        for row in rows:
            self._row(name, row)
        height = self.y - top
        self.lines.insert(
            frame,
            f'  <rect class="package" x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{height}"'
            ' rx="10"/>',
        )
        self.y += MARGIN

    def _row(self, package: str, rooms: Sequence[str]) -> None:
        inner = WIDTH - 2 * (MARGIN + PADDING)
        width = (inner - GAP * (len(rooms) - 1)) // len(rooms)
        texts = [list(self._texts(room, int((width - 2 * PADDING) / CHARACTER))) for room in rooms]
        height = NAME_LINE + PADDING + LINE * max(map(len, texts))
        for number, (room, lines) in enumerate(zip(rooms, texts, strict=True)):
            x = MARGIN + PADDING + number * (width + GAP)
            self.lines.append(
                f'  <rect class="{package}" x="{x}" y="{self.y}" width="{width}" height="{height}" rx="6"/>'
            )
            self._text(x + PADDING, self.y + NAME_LINE, room, "name")
            for line, (text, style) in enumerate(lines, start=1):
                self._text(x + PADDING, self.y + NAME_LINE + 2 + line * LINE, text, style)
        self.y += height + ROW_GAP

    def _texts(self, room: str, width: int) -> Iterator[tuple[str, str]]:
        yield from ((line, "") for line in textwrap.wrap(PURPOSES[room], width))
        others = ", ".join(sorted(self._imported.get(room, ())))
        yield from ((line, "faint") for line in textwrap.wrap(f"imports {others}" if others else "", width))

    def _text(self, x: int, y: int, text: str, style: str) -> None:
        class_ = f' class="{style}"' if style else ""
        self.lines.append(f'  <text x="{x}" y="{y}"{class_}>{escape(text)}</text>')


def _room(name: str) -> str:
    """Return the room that a dotted name is in; empty for names outside and the packages' own."""
    package, *rest = name.split(".")
    if package == "streams":
        return "" if not rest or rest[0].startswith("__") or rest[0] in NOT_DRAWN else rest[0]
    if package != "pipeline":
        return ""
    return rest[0] if rest and rest[0] in PARTS else "core"


def _seen_from(room: str, other: str) -> str:
    """Return what a room calls what it imports: the stage does not tell the parts of `pipeline` apart."""
    inside = room in {"core", *PARTS}
    return "pipeline" if other.startswith("pipeline.") and not inside else _room(other)


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
