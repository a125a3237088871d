"""Judgements of relevance as they come: what is read, and what is refused in one line."""

from __future__ import annotations

import subprocess
import sys
from math import log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError
from streams.comparison.comparing import ComparisonOptions
from streams.comparison.findings import findings
from streams.comparison.relevance import MAX_GRADE, _bounded, read_qrels
from tests.builders import answer, hit, recording
from tests.comparisons import all_compared

Grades = dict[str, dict[str, int]]


def grades_of(tmp_path: Path, content: bytes) -> Grades:
    """Read judgements from a file with these bytes."""
    file = tmp_path / "qrels"
    file.write_bytes(content)
    return read_qrels(file).grades


@pytest.mark.parametrize(
    ("content", "grades"),
    [
        ("\ufeffr-1 0 docA 1\n", {"r-1": {"docA": 1}}),
        ("r-1\t0\tdocA\t1\r\nr-1\t0\tdocB\t0\r\n", {"r-1": {"docA": 1, "docB": 0}}),
        ("r-1\t0\tmy runbook\t1", {"r-1": {"my runbook": 1}}),
        ("my request\tQ0\tmy runbook\t1", {"my request": {"my runbook": 1}}),
        ("r-1\t\tdocA\t1", {"r-1": {"docA": 1}}),
        ("  r-1   0\t docA  1  ", {"r-1": {"docA": 1}}),
        ("r-1 0 docA 1\t", {"r-1": {"docA": 1}}),
        ("r-1 0 docA 1\n\n \t\nr-2 0 docA 1\n\n", {"r-1": {"docA": 1}, "r-2": {"docA": 1}}),
        ("r-1 0 日本\u3000語\u2028\x85 1", {"r-1": {"日本\u3000語\u2028\x85": 1}}),
        ("r-1 0 docA 1\nr-1 0 docA 1", {"r-1": {"docA": 1}}),
        ("r-1 0 docA +2\nr-1 0 docB 1.0\nr-1 0 docC 3.", {"r-1": {"docA": 2, "docB": 1, "docC": 3}}),
        ("r-1 0 docA -2\nr-1 0 docB -1000000000", {"r-1": {"docA": 0, "docB": 0}}),
        (f"r-1 0 docA {MAX_GRADE}\nr-1 0 docB 1", {"r-1": {"docA": MAX_GRADE, "docB": 1}}),
        ("r-1 0 a 2000000000\nr-1 0 b 1000000000", {"r-1": {"a": 2, "b": 1}}),
        (f"r-1 0 a {10**40}\nr-1 0 b 1\nr-1 0 c -1", {"r-1": {"a": MAX_GRADE, "b": 1, "c": 0}}),
        (f"r-1 0 a {10**9 + 1}\nr-2 0 b 3", {"r-1": {"a": 1}, "r-2": {"b": 3}}),
    ],
)
def test_judgements_are_read(tmp_path: Path, content: str, grades: Grades) -> None:
    """Marks, tabs, line ends, spaces in ids, negative and huge grades."""
    assert grades_of(tmp_path, content.encode()) == grades


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("r-1 0 my runbook 1", "has 5 fields, must have 4: request id, iteration, document id, grade"),
        ("r-1 0 docA", "has 3 fields"),
        ("r-1\t0\tdocA\thigh", "grade = 'high': must be an integer"),
        ("r-1 0 docA 0.5", "grade = '0.5': must be an integer"),
        ("r-1 0 docA 1e9", "grade = '1e9': must be an integer"),
        ("r-1 0 docA nan", "grade = 'nan': must be an integer"),
        ("r-1 0 docA 1_000", "grade = '1_000': must be an integer"),
        ("r-1 0 docA \u0661", "must be an integer"),
        ("r-1 0 docA " + 5_000 * "9", "must be an integer of at most 100 digits"),
        ("r-1\t0\t\t1", "document id = '': must be text"),
        ("\t0\tdocA\t1", "request id = '': must be text"),
        ("r-1 0 doc\0A 1", "must be text, without NUL characters"),
        ("r-0 0 docA 2", "grade = 2 of 'docA' for 'r-0': a line before it says 1"),
    ],
)
def test_a_line_that_is_no_judgement_is_refused_in_one_line(tmp_path: Path, line: str, why: str) -> None:
    """It names file, line, field and value, and what is allowed."""
    with pytest.raises(ConfigurationError) as raised:
        grades_of(tmp_path, f"r-0 0 docA 1\n\n{line}\n".encode())
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / 'qrels'}: line 3: ")
    assert why in message
    assert "\n" not in message
    assert len(message) < 400


def test_a_file_of_another_encoding_is_refused(tmp_path: Path) -> None:
    """UTF-16, as some spreadsheets write it."""
    with pytest.raises(ConfigurationError, match="cannot be read: must be UTF-8"):
        grades_of(tmp_path, "r-1 0 docA 1\n".encode("utf-16"))


@given(st.lists(st.integers(-5, 10**30), min_size=1, max_size=20))
def test_reduced_grades_keep_their_proportions(values: list[int]) -> None:
    """To a millionth of the greatest; what is relevant stays relevant, and nothing else becomes it."""
    before = {str(number): value for number, value in enumerate(values)}
    after, greatest = _bounded(before), max(1, *values)
    most = max(1, *after.values())
    assert most <= MAX_GRADE
    for judged, grade in before.items():
        assert (after[judged] > 0) == (grade > 0)
        assert max(grade, 0) / greatest == pytest.approx(after[judged] / most, abs=1.5 / MAX_GRADE)


def test_ndcg_of_huge_grades_is_right_in_bounded_memory(tmp_path: Path) -> None:
    """Grades of which ir-measures by itself would fill the memory, or overflow."""
    qrels = tmp_path / "qrels"
    qrels.write_text("r-1 0 docA 2000000000\nr-1 0 docB 1999999999\nr-2 0 docA 99999999999999999999\n")
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "from pathlib import Path; from ir_measures import iter_calc, nDCG\n"
        "from streams.comparison.relevance import read_qrels\n"
        "run = {'docB': 2.0, 'docC': 1.5, 'docA': 1.0}\n"
        "grades = read_qrels(Path(sys.argv[1])).grades\n"
        "print(*[each.value for each in iter_calc([nDCG @ 10], grades, {'r-1': run, 'r-2': run})])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(qrels)], capture_output=True, text=True, check=True, timeout=60
    )
    gain = (1_999_999_999 + 2e9 / 2) / (2e9 + 1_999_999_999 / log2(3))
    assert [float(value) for value in done.stdout.split()] == pytest.approx([gain, 0.5], abs=1e-5)


def test_judgements_of_which_none_is_compared_are_told(tmp_path: Path) -> None:
    """Ids of another collection are a mistake that no table shows."""
    (tmp_path / "qrels").write_text("other 0 docA 1\nmore 0 docA 1\n", encoding="utf-8")
    side = [recording(answer(hit("docA", 0)), request_id="r-1")]
    options = ComparisonOptions(judgements=read_qrels(tmp_path / "qrels"))
    assert "Relevance was not measured: of 2 requests judged none could be compared." in findings(
        all_compared(tmp_path, side, side, options)
    )
