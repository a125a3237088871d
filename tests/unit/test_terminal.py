"""What people see on terminals of any width, and what pipes get."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from streams.cli import terminal
from streams.cli.evidence import print_result
from streams.comparison.reports.terminal import print_comparison
from streams.wire.results import decode_result
from tests.builders import answer, hit, recording
from tests.comparisons import all_compared
from tests.support.pages import text_of


def test_evidence_cannot_act_on_the_terminal() -> None:
    """What strangers wrote into documents is shown, not obeyed."""
    members = orjson.loads(text_of("result"))
    members["evidence"][0] |= {"content": "a\x1b[2J\x07b", "document_id": "\x1b]0;x\x07", "source": "\x9b1m"}
    shown = StringIO()
    print_result("\x1bc why?", decode_result(orjson.dumps(members)), Console(file=shown, width=200))
    assert not {"\x1b", "\x07", "\x9b"} & set(shown.getvalue())
    assert r"a\x1b[2J\x07b" in shown.getvalue()


@pytest.mark.parametrize("width", [10, 20, 30, 40, 60, 80, 200])
def test_figures_of_a_comparison_are_whole_on_every_terminal(tmp_path: Path, width: int) -> None:
    """Nothing is cut: where a table does not fit its rows stand below each other."""
    hits = [hit(f"doc{place}", 0, score=0.9 - place / 10) for place in range(4)]
    base, candidate = (recording(answer(*some), request_id="r-1") for some in (hits, hits[:3]))
    shown = StringIO()
    print_comparison(all_compared(tmp_path, [base], [candidate]), (), Console(file=shown, width=width))
    text = shown.getvalue()
    assert "…" not in text
    assert "0.7500" in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(("columns", "wraps"), [(None, False), ("30", True)])
def test_pipes_get_lines_that_are_not_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str | None, *, wraps: bool
) -> None:
    """Unless `COLUMNS` asks for it."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    terminal.console().print(" ".join(["word"] * 100))
    assert (len(capsys.readouterr().out.splitlines()) > 1) == wraps
