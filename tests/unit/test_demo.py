"""The demo's own parts: questions made of headings, the summary, and what is told beside the results."""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from pipeline.errors import ConfigurationError
from pipeline.outcome import conclude
from streams.cli.demo_story import Story, tell_how_to_reach, tell_summary, tell_what_is_next
from streams.cli.evidence import print_result
from streams.demo.session import MAX_HEADING_CHARS, demo_settings, free_port, question_of, questions_about
from streams.demo.summary import summary_lines
from streams.indexing.chunks import Chunk
from streams.wire.results import LookupResult
from tests.builders import answer, budget, hit, limits


def chunk(title: str | None, breadcrumb: str | None) -> Chunk:
    """Return a chunk below headings."""
    return Chunk(doc_id="ops/tea", chunk_index=0, content="c", title=title, breadcrumb=breadcrumb)


def found(*chunks: tuple[str, int], return_n: int = 5, cap: int = 2) -> LookupResult:
    """Return the result of a lookup that finds chunks, the first best."""
    widths = limits(return_n=return_n, max_chunks_per_document=cap)
    hits = [hit(name, index, score=1 - place / 100) for place, (name, index) in enumerate(chunks)]
    outcome = conclude([answer(*hits)], limits=widths, budget=budget())
    return LookupResult(
        request_id="r-1",
        status=outcome.status,
        evidence=outcome.evidence,
        paths=outcome.paths,
        ledger=outcome.ledger,
        limits=widths,
    )


# Questions


@pytest.mark.parametrize(
    ("title", "breadcrumb", "question"),
    [
        ("Tea", "Tea > Brewing", "What does Tea say about Brewing?"),
        ("Tea", "Tea > Green > Water", "What does Tea say about Water?"),
        ("Tea", "Tea > How long may it steep?", "How long may it steep?"),
        ("Tea", "Tea", "What is said about Tea?"),
        ("Tea", None, "What is said about Tea?"),
        (None, None, "What is said about ops/tea?"),
        ("Tea", "Tea > a\n b", "What does Tea say about a b?"),
    ],
)
def test_question_is_made_of_the_innermost_heading(
    title: str | None, breadcrumb: str | None, question: str
) -> None:
    """A heading that is a question is asked as it is, a document without headings by its name."""
    assert question_of(chunk(title, breadcrumb)) == question


def test_question_of_a_giant_heading_is_short() -> None:
    """A request takes no question of any length."""
    giant = "word " * 10_000
    assert len(question_of(chunk(giant, f"{giant} > {giant}"))) < 2 * MAX_HEADING_CHARS + 50


def test_questions_are_made_of_each_document_in_turn(tmp_path: Path) -> None:
    """A dozen at most, and none twice."""
    for name in ("a", "b"):
        sections = "".join(f"## {name}{number}\n\ntext {number}\n\n" for number in range(20))
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\n{sections}")
    questions = [question for (question,) in questions_about(tmp_path)]
    assert len(questions) == len(set(questions)) == 12
    assert questions[:2] == ["What does a say about a0?", "What does b say about b0?"]


def test_folder_of_blank_documents_has_no_questions(tmp_path: Path) -> None:
    """There is nothing to show."""
    (tmp_path / "a.md").write_text("\n")
    with pytest.raises(ConfigurationError, match="blank"):
        questions_about(tmp_path)


# The summary


def test_summary_says_what_became_of_requests_and_hits() -> None:
    """Answers, pieces, what was dropped and why, and the time."""
    results = [
        found(("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 0)),
        found(("a", 0), ("c", 0), ("d", 0), return_n=2),
        LookupResult(request_id="r-3", status="failed"),
    ]
    why = [
        "1 over the document cap (at most 2 of one document)",
        "1 over return-n (at most 2 to 5 for a request)",
        "1 duplicates",
    ]
    assert summary_lines(results, elapsed_s=6.25) == [
        "2 of 3 requests answered: 2 searches found 8 hits.",
        "5 pieces of evidence from 3 documents.",
        f"3 hits dropped: {', '.join(why)}.",
        "6.2 s in all.",
    ]


def test_summary_of_one_lookup_without_losses() -> None:
    """Numbers agree with their nouns."""
    assert summary_lines([found(("a", 0))], elapsed_s=1)[:3] == [
        "1 of 1 request answered: 1 search found 1 hit.",
        "1 piece of evidence from 1 document.",
        "No hit was dropped.",
    ]


# Results as people see them


def printed(result: LookupResult) -> str:
    """Return what is printed of a result."""
    console = Console(file=io.StringIO(), width=200)
    print_result("q", result, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_empty_places_are_explained() -> None:
    """Fewer pieces than asked for, and what kept the others out."""
    many = printed(found(*(("a", index) for index in range(20))))
    assert "\n2 of 5 pieces: 18 over the document cap\n" in many
    assert "20 retrieved - 18 over the document cap = 2 projected" in many
    assert "\n1 of 5 pieces: no more were found\n" in printed(found(("a", 0)))


@pytest.mark.parametrize(
    "result",
    [
        found(*((name, 0) for name in "abcdefg")),
        found(("a", 0), ("b", 0), return_n=2),
        found(),
        LookupResult(request_id="r-1", status="failed"),
    ],
)
def test_where_no_place_is_empty_nothing_is_explained(result: LookupResult) -> None:
    """Nor where there is no evidence at all, which the status says."""
    assert "pieces:" not in printed(result)


# What is told beside the results


def told(capsys: pytest.CaptureFixture[str], question: str) -> str:
    """Return how to reach a demo."""
    settings = demo_settings("127.0.0.1:4711", Path("/nowhere"), metrics_port=4712)
    tell_how_to_reach(Story(on_stderr=False), settings, question)
    return capsys.readouterr().out


@pytest.mark.parametrize("question", ["What does Tea say?", """It's "$HOME" `x`\\ {y}?"""])
def test_ways_to_reach_a_demo_can_be_copied(capsys: pytest.CaptureFixture[str], question: str) -> None:
    """A shell and Python read the question as it is, whatever signs are in it."""
    lines = [line.strip() for line in told(capsys, question).splitlines()]
    ask = next(line for line in lines if "lookup-stage ask" in line)
    assert shlex.split(ask)[-2:] == ["ask", question]
    echo = next(line for line in lines if line.startswith("echo "))
    assert orjson.loads(shlex.split(echo)[1]) == {"request_id": "r-1", "query": question}
    assert echo.endswith(" |")
    assert any(line.startswith("kcat -P -b 127.0.0.1:4711 -t lookup.requests") for line in lines)
    assert any(line.startswith("curl --silent http://127.0.0.1:4712/metrics") for line in lines)


def test_python_lines_are_python(capsys: pytest.CaptureFixture[str]) -> None:
    """Between the marks of the shell they compile."""
    text = told(capsys, 'It\'s "here"?')
    program = text.partition("<<'END'\n")[2].partition("    END\n")[0]
    compile("\n".join(line[4:] for line in program.splitlines()), "demo", "exec")
    assert "look_up" in program


def test_summary_and_next_steps_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """What was tried already is not proposed again; beside JSON they go to standard error."""
    story = Story(on_stderr=True)
    tell_summary(story, ["Two words."])
    tell_what_is_next(story, asked=True, own_documents=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Summary\n  Two words.\n" in captured.err
    assert "--docs" in captured.err
    assert "--ask" not in captured.err


def test_status_is_shown_on_terminals_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log has no use for it, whatever colours a variable asks for."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Story(on_stderr=False).status("Working") as update:
        update("1 of 2")
        sys.stdout.write("result\n")
    assert capsys.readouterr() == ("result\n", "")


def test_free_port_is_free() -> None:
    """It can be listened on."""
    assert 0 < free_port() < 65_536
