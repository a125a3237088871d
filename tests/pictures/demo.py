"""Draws what the demo prints: `python -m tests.pictures.demo` writes `deploy/pictures/demo.svg` anew."""

from __future__ import annotations

import io
import re
from pathlib import Path

import orjson
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from streams.cli.evidence import print_result
from streams.wire.results import decode_result
from tests.support.worker import run_command

PICTURE = Path(__file__).parents[2] / "deploy" / "pictures" / "demo.svg"
QUESTION = "What does the runbook say about a stuck consumer group?"
COLUMNS = 110
TIMEOUT_S = 120.0

# Rich would have browsers fetch a font from elsewhere.
FORMAT = re.sub(r" *@font-face \{\{.*?\}\}\n*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def draw() -> str:
    """Run the demo and return a picture of its answer to its first question."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    printed = run_command("demo", "--json", "--ask", QUESTION, environment={}, timeout_s=TIMEOUT_S)
    (entry,) = orjson.loads(printed.stdout)
    print_result(QUESTION, decode_result(orjson.dumps(entry["result"])), console)
    return console.export_svg(title="lookup-stage demo", code_format=FORMAT, unique_id="demo")


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
