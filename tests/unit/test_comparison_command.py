"""`lookup-stage compare` as people and CI run it."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
import pytest

from streams import cli
from tests.builders import answer, hit, recording
from tests.comparisons import written

HITS = [hit(f"doc{place}", 0, score=0.9 - place / 10) for place in range(4)]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder with two files of two requests each, of which one lost one of four pieces."""
    monkeypatch.chdir(tmp_path)
    kept = recording(answer(*HITS), request_id="kept")
    written(Path("base.jsonl"), [kept, recording(answer(*HITS), request_id="lost")])
    written(Path("candidate.jsonl.zst"), [kept, recording(answer(*HITS[:3]), request_id="lost")])


def run(*arguments: str) -> int:
    """Run the command on the two files and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", "base.jsonl", "candidate.jsonl.zst", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 0),
        (("--fail-under", "jaccard=0.87"), 0),
        (("--fail-under", "jaccard=0.88"), 1),
        (("--fail-under", "top1=1", "--fail-under", "retained=0.9"), 1),
        (("--fail-under", "top1=1", "--fail-under", "retained=0.87"), 0),
    ],
)
def test_thresholds_set_the_exit_code(
    arguments: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any it is 0 whatever was found."""
    assert run(*arguments) == code
    assert "1 piece of evidence lost" in capsys.readouterr().out


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--fail-under", "jacard=0.9"), "must be NAME=SHARE"),
        (("--fail-under", "ndcg=0.9"), "ndcg needs --qrels"),
        (("--qrels", "not-there"), "not-there: cannot be read"),
        (("--html", "not/there.html"), "not/there.html: cannot be written"),
        (("--junit", "."), "is a directory"),
        (("--depth", "0"), "0 is not in the range"),
    ],
)
def test_wrong_use_is_one_line_and_exits_2(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, naming what is wrong and what is allowed."""
    assert run(*arguments) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert complaint in line


@pytest.mark.usefixtures("files")
def test_a_file_that_is_cut_short_exits_2_or_is_compared_up_to_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With --keep-going the intact lines count, and the warning stays."""
    base = Path("base.jsonl")
    base.write_bytes(base.read_bytes()[:-5])
    assert run() == 2
    assert "base.jsonl: line 2: is cut short" in capsys.readouterr().err
    assert run("--keep-going") == 0
    shown = capsys.readouterr()
    assert "requests in both: 1," in shown.out
    assert "line 2: is cut short; the lines before it are compared" in shown.err


@pytest.mark.usefixtures("files")
def test_all_reports_are_written_at_once(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """JSON to standard output and nothing else there; JUnit and HTML to files."""
    Path("qrels").write_text("lost 0 doc3 1\nkept 0 doc3 1\n", encoding="utf-8")
    options = ("--json", "--junit", "junit.xml", "--html", "report.html", "--qrels", "qrels")
    assert run(*options, "--fail-under", "recall=0.6") == 1
    summary = orjson.loads(capsysbinary.readouterr().out)["summary"]
    assert summary["relevance"]["measures"][1] == {
        "name": "recall@10",
        "base": 1.0,
        "candidate": 0.5,
        "better": 0,
        "worse": 1,
        "p_value": pytest.approx(0.5),
    }
    assert "recall is 0.5000, must be at least 0.6" in Path("junit.xml").read_text(encoding="utf-8")
    assert "recall@10" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("files")
def test_judgements_need_an_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without ir-measures the command says how to get it, before it reads anything."""
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    Path("qrels").write_text("lost 0 doc3 1\n", encoding="utf-8")
    assert run("--qrels", "qrels") == 2
    assert "pip install 'lookup-stage[qrels]'" in capsys.readouterr().err


def test_help_names_every_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    """As they are checked."""
    from streams.comparison.thresholds import MEASURES

    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", "--help"])
    assert ended.value.code == 0
    shown = "".join(capsys.readouterr().out.split())
    assert all(name in shown for name in MEASURES)
