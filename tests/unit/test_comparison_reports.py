"""A comparison for programs and for people."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import orjson
from junitparser import JUnitXml
from rich.console import Console

from streams.comparison.comparing import Comparison, ComparisonOptions, Listener, compare_files
from streams.comparison.reports.as_json import JsonReport
from streams.comparison.reports.cards import Card, cards
from streams.comparison.reports.charts import HEIGHT, bars
from streams.comparison.reports.junit import junit_xml
from streams.comparison.reports.page import html_page
from streams.comparison.reports.terminal import print_comparison
from streams.comparison.reports.words import share
from streams.comparison.thresholds import check
from streams.recordings.recording import Recording
from tests.builders import answer, budget, failure, hit, limits, recording
from tests.comparisons import all_compared, compared, written

HITS = [hit(f"doc{place}", 0, score=0.9 - place / 10, content=f"Part {place}.") for place in range(4)]
HOSTILE = (
    "</script></style></title><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7*7 }} \x00\x1b[31m"
)


def looked_up(request_id: str, *, without: int = 0) -> Recording:
    """Record a lookup whose last few hits are not retrieved."""
    return recording(answer(*HITS[: len(HITS) - without]), request_id=request_id)


def one_of_two_changed(folder: Path) -> Comparison:
    """Compare two requests, of which one lost its last piece."""
    return all_compared(
        folder, [looked_up("r-1"), looked_up("r-2")], [looked_up("r-1", without=1), looked_up("r-2")]
    )


# JSON


def json_of(folder: Path, base: list[Recording], candidate: list[Recording]) -> Mapping[str, Any]:
    """Compare and return the JSON."""
    output = io.BytesIO()
    report = JsonReport(output)
    files = written(folder / "base.jsonl", base), written(folder / "candidate.jsonl", candidate)
    comparison = compare_files(*files, ComparisonOptions(), Listener(difference=report.add))
    report.close(comparison, check(comparison, {"jaccard": 0.9}))
    parsed: Mapping[str, Any] = orjson.loads(output.getvalue())
    return parsed


def test_json_has_every_request_that_differs_and_a_summary(tmp_path: Path) -> None:
    """What is the same to the byte is only counted."""
    found = json_of(
        tmp_path,
        [looked_up("r-1"), looked_up("r-2"), looked_up("r-3")],
        [looked_up("r-1", without=1), looked_up("r-2"), looked_up("r-3", without=2)],
    )
    assert [one["request_id"] for one in found["requests"]] == ["r-1", "r-3"]
    assert found["requests"][0]["lost"] == [
        {"document_id": "doc3#chunk-0", "reason": "not_retrieved", "merged_into": None}
    ]
    assert found["requests"][0]["kept"][0]["ranks"] == [1, 1]
    summary = found["summary"]
    assert summary["totals"]["changes"] == {"identical": 1, "reordered": 0, "changed": 2, "not_compared": 0}
    assert summary["totals"]["lost"] == {"not_retrieved": 3}
    assert summary["checks"] == [{"name": "jaccard", "threshold": 0.9, "value": 0.75, "passed": False}]
    assert summary["base"]["counts"]["recordings"] == 3


def test_json_of_equal_files_has_no_requests(tmp_path: Path) -> None:
    """It is a JSON document all the same."""
    found = json_of(tmp_path, [looked_up("r-1")], [looked_up("r-1")])
    assert found["requests"] == []
    assert found["summary"]["totals"]["identical_results"] == 1


# JUnit


def test_junit_has_a_case_for_each_threshold(tmp_path: Path) -> None:
    """One that fails says by how much, and which requests are the worst."""
    comparison = one_of_two_changed(tmp_path)
    xml = junit_xml(comparison, check(comparison, {"jaccard": 0.98, "status": 1.0}))
    [suite] = JUnitXml.fromstring(xml.encode())
    assert (suite.tests, suite.failures) == (2, 1)
    failed, passed = suite
    assert (failed.name, passed.is_passed) == ("jaccard is at least 0.98", True)
    [result] = failed.result
    assert result.message == "jaccard is 0.8750, must be at least 0.98"
    assert "r-1: changed, 1 lost, 0 new" in result.text


def test_junit_without_thresholds_passes_and_says_what_was_found(tmp_path: Path) -> None:
    """A report that no threshold judges is no failure."""
    [suite] = JUnitXml.fromstring(junit_xml(one_of_two_changed(tmp_path), ()).encode())
    [case] = suite
    assert case.is_passed
    assert "1 piece of evidence lost: not retrieved any more." in case.system_out


def test_junit_holds_what_xml_cannot(tmp_path: Path) -> None:
    """Control characters of an id are replaced, markup is escaped."""
    base = [recording(answer(*HITS), request_id=HOSTILE)]
    comparison = all_compared(tmp_path, base, [recording(answer(*HITS[1:]), request_id=HOSTILE)])
    root = ET.fromstring(junit_xml(comparison, check(comparison, {"jaccard": 1.0})))
    [failed] = root.iter("failure")
    assert "<img src=x onerror=alert(1)>" in (failed.text or "")


# Terminal


def printed(comparison: Comparison, thresholds: Mapping[str, float]) -> str:
    """Return what the terminal shows."""
    output = io.StringIO()
    print_comparison(comparison, check(comparison, thresholds), Console(file=output, width=120))
    return output.getvalue()


def test_the_terminal_shows_overlap_findings_worst_requests_and_checks(tmp_path: Path) -> None:
    """In this order."""
    shown = printed(one_of_two_changed(tmp_path), {"jaccard": 0.98, "status": 1})
    places = [
        shown.index(text)
        for text in (
            "requests in both: 2, compared: 2 (1 identical, 0 reordered, 1 changed)",
            "by evidence",
            "0.8750",
            "1 piece of evidence lost: not retrieved any more.",
            "worst requests",
            "FAILED jaccard is 0.8750, must be at least 0.98",
            "passed status is 1.0000",
        )
    ]
    assert places == sorted(places)


def test_ids_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    """Escapes are shown, not obeyed."""
    for request_id in ("r-\x1b[31m", "r-\r\n"):
        base = [
            recording(answer(*HITS), request_id=request_id),
            recording(answer(), request_id=f"{request_id}2"),
        ]
        candidate = [recording(answer(*HITS[1:]), request_id=request_id)]
        shown = printed(all_compared(tmp_path, base, candidate), {})
        assert request_id not in shown
        assert shown.count(request_id.encode("unicode_escape").decode()) == 2


def test_a_share_that_is_not_whole_does_not_look_whole() -> None:
    """One request in a million is seen."""
    assert (share(1.0), share(0.999999), share(0.5), share(None)) == ("1.0000", "0.9999", "0.5000", "-")


# Cards


def notes(column: tuple[Card, ...]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return key, kind and notes of each card."""
    return [(card.item.key, card.kind, card.notes) for card in column]


def test_cards_mark_what_went_what_came_and_what_moved() -> None:
    """Each side in its own order, with the reason of a loss and the rank on the other side."""
    came = hit("docX", 0, score=0.95)
    found = compared(
        recording(answer(*HITS[:2])), recording(answer(came, HITS[0], HITS[1]), widths=limits(return_n=2))
    )
    base, candidate = cards(found)
    assert notes(base) == [
        ("doc0#chunk-0", "moved", ("rank 2 in the candidate",)),
        ("doc1#chunk-0", "lost", ("lost: over return-n",)),
    ]
    assert notes(candidate) == [
        ("docX#chunk-0", "new", ("new",)),
        ("doc0#chunk-0", "moved", ("rank 1 in the base",)),
    ]


def test_cards_mark_the_words_that_differ() -> None:
    """And only those."""
    base = recording(answer(hit("docA", 0, content="Stop the old worker first.")))
    candidate = recording(answer(hit("docA", 0, content="Stop the new worker first.")))
    [own], [other] = cards(compared(base, candidate))
    assert own.spans == (("Stop the ", False), ("old ", True), ("worker first.", False))
    assert other.spans == (("Stop the ", False), ("new ", True), ("worker first.", False))
    assert (own.kind, own.notes) == ("text", ("other text",))


def test_cards_of_a_text_that_was_shortened_otherwise_say_so() -> None:
    """It is the same text."""
    long = hit("docA", 0, content="A word and another. " * 40)
    [own], [_] = cards(
        compared(recording(answer(long)), recording(answer(long), room=budget(max_chars_per_item=50)))
    )
    assert own.notes == ("shortened otherwise",)


def test_cards_of_requests_that_were_not_compared_mark_nothing() -> None:
    """A failed search says nothing of the evidence."""
    base, candidate = cards(compared(recording(answer(*HITS)), recording(failure())))
    assert {card.kind for card in base} == {"kept"}
    assert candidate == ()


# Charts


def test_bars_show_a_single_request_and_nothing_where_there_is_none() -> None:
    """The highest bar is as high as the chart; one request in a million still has a bar."""
    found = bars([0, 1, 1_000_000])
    assert [bar.height for bar in found] == [0.0, 1.0, HEIGHT]
    assert [bar.label for bar in found] == ["0.00 to 0.50", "0.50 to 1.00", "exactly 1"]
    assert all(bar.height == 0.0 for bar in bars([0, 0, 0]))


# Page


def test_the_page_holds_hostile_text_as_text(tmp_path: Path) -> None:
    """In ids, queries, documents, titles and evidence: escaped, and there once more in no script."""
    bad = hit(HOSTILE, 0, content=HOSTILE, source=HOSTILE, title=HOSTILE)
    base = recording(answer(bad, *HITS), request_id=HOSTILE, queries=[HOSTILE])
    candidate = recording(answer(*HITS), request_id=HOSTILE, queries=[HOSTILE])
    page = html_page(all_compared(tmp_path, [base], [candidate]), ())
    assert "&lt;/script&gt;" in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<img" not in page
    assert "{{ 7*7 }}" in page


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    """Its policy forbids it, and it names no address."""
    page = html_page(one_of_two_changed(tmp_path), ())
    assert "default-src 'none'" in page
    assert not any(text in page for text in ("http:", "https:", "src=", "href=", "url("))


def test_the_page_shows_no_more_requests_than_were_kept(tmp_path: Path) -> None:
    """Its size depends on how many were asked for, not on the files."""
    base = [looked_up(f"r-{number}") for number in range(30)]
    candidate = [looked_up(f"r-{number}", without=1) for number in range(30)]
    page = html_page(all_compared(tmp_path, base, candidate, ComparisonOptions(worst=7)), ())
    assert page.count('<tr class="detail"') == 7
    none = html_page(all_compared(tmp_path, base, candidate, ComparisonOptions(worst=0)), ())
    assert "changed most" not in none
