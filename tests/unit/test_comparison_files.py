"""Two files compared: joining, counting, and what is found over all requests."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from streams.comparison.comparing import Comparison, ComparisonOptions, Listener, compare_files
from streams.comparison.differences import Difference
from streams.comparison.findings import findings
from streams.comparison.relevance import Judgements, read_qrels
from streams.comparison.thresholds import MEASURES, check, threshold
from streams.recordings.recording import Recording, RecordingUnreadable
from tests.builders import answer, failure, hit, limits, recording
from tests.comparisons import all_compared, written
from tests.strategies import LONE_SURROGATE

HITS = [hit(f"doc{place}", 0, score=0.9 - place / 10) for place in range(4)]


def looked_up(request_id: str, *, without: int = 0) -> Recording:
    """Record a lookup whose last few hits are not retrieved."""
    return recording(answer(*HITS[: len(HITS) - without]), request_id=request_id)


# Joining


def test_requests_are_joined_by_id_in_whatever_order(tmp_path: Path) -> None:
    """The order of the files does not matter."""
    ids = [f"r-{number}" for number in range(9)]
    comparison = all_compared(
        tmp_path, [looked_up(one) for one in ids], [looked_up(one) for one in reversed(ids)]
    )
    assert comparison.totals.requests == comparison.totals.identical_results == len(ids)


def test_requests_of_one_file_only_are_counted_and_named(tmp_path: Path) -> None:
    """They are in no measure."""
    comparison = all_compared(
        tmp_path,
        [looked_up("both"), looked_up("base-1"), looked_up("base-2")],
        [looked_up("candidate-1"), looked_up("both")],
    )
    assert comparison.totals.requests == 1
    assert comparison.base_counts.alone == 2
    said = findings(comparison)
    assert "2 requests only in the base: base-1, base-2." in said
    assert "1 request only in the candidate: candidate-1." in said


def test_a_redelivered_request_counts_once(tmp_path: Path) -> None:
    """Recorded twice with the same result."""
    twice = [looked_up("r-1"), looked_up("r-1")]
    comparison = all_compared(tmp_path, twice, twice)
    assert (comparison.totals.requests, comparison.base_counts.repeated) == (1, 1)
    assert "1 recording of the base repeats another with the same result." in findings(comparison)


def test_of_several_results_of_one_request_the_last_counts(tmp_path: Path) -> None:
    """And the report says so, with the request's id."""
    comparison = all_compared(
        tmp_path,
        [looked_up("r-1", without=2), looked_up("r-1"), looked_up("r-2")],
        [looked_up("r-1"), looked_up("r-2", without=1), looked_up("r-2")],
    )
    assert comparison.totals.identical_results == 2
    assert [counts.replaced_ids for counts in (comparison.base_counts, comparison.candidate_counts)] == [
        ("r-1",),
        ("r-2",),
    ]


def test_each_request_is_told_of_as_it_is_compared(tmp_path: Path) -> None:
    """In the base's order, with the steps of the work."""
    heard: list[Difference] = []
    steps: list[str] = []
    base = written(tmp_path / "base.jsonl", [looked_up("b"), looked_up("a")])
    listener = Listener(difference=heard.append, progress=lambda what, _done, _total: steps.append(what))
    compare_files(base, base, ComparisonOptions(), listener)
    assert [one.base.request_id for one in heard] == ["b", "a"]
    assert list(dict.fromkeys(steps)) == ["reading the base", "reading the candidate", "comparing"]


def test_what_utf_8_cannot_hold_does_not_hide_why_evidence_went(tmp_path: Path) -> None:
    """Results have a replacement for a lone surrogate in a document's id, the hits have the surrogate."""
    odd = hit(f"doc{LONE_SURROGATE}", 0, score=0.1, content=f"text {LONE_SURROGATE}")
    base = recording(answer(*HITS[:2], odd))
    candidate = recording(answer(*HITS[:2], odd), widths=limits(return_n=2))
    assert all_compared(tmp_path, [base], [base]).totals.identical_results == 1
    assert all_compared(tmp_path, [base], [candidate]).totals.lost == {"over_return_n": 1}


def test_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    """Ten times as many requests, all of them changed, need no more memory than a page of an index or two."""
    few, many = (_peak_bytes(tmp_path, count) for count in (40, 400))
    assert many - few < 256 * 1_024


def _peak_bytes(folder: Path, count: int) -> int:
    base = written(folder / "base.jsonl", (looked_up(f"r-{number}") for number in range(count)))
    candidate = written(
        folder / "new.jsonl", (looked_up(f"r-{number}", without=1) for number in range(count))
    )
    tracemalloc.start()
    try:
        assert compare_files(base, candidate, ComparisonOptions(worst=5)).totals.changes["changed"] == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Files that cannot be read


def test_a_file_that_is_cut_short_names_the_line(tmp_path: Path) -> None:
    """Unless somebody listens, in which case the lines before it are compared."""
    base = written(tmp_path / "base.jsonl", [looked_up("r-1"), looked_up("r-2")])
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(base.read_bytes()[:-9])
    with pytest.raises(RecordingUnreadable, match=r"cut\.jsonl: line 2: is cut short"):
        compare_files(base, cut, ComparisonOptions())
    heard: list[RecordingUnreadable] = []
    comparison = compare_files(base, cut, ComparisonOptions(), Listener(unreadable=heard.append))
    assert (comparison.totals.requests, len(heard)) == (1, 1)


def test_a_line_without_a_result_of_a_lookup_is_named(tmp_path: Path) -> None:
    """File, line and field."""
    broken = replace(looked_up("r-1"), result={"request_id": "r-1", "status": "ok", "evidence": 5})
    file = written(tmp_path / "broken.jsonl", [looked_up("r-0"), broken])
    with pytest.raises(
        RecordingUnreadable, match=r"broken\.jsonl: line 2: is not a recording: result\.evidence"
    ):
        compare_files(file, file, ComparisonOptions())


# Totals


def test_the_worst_requests_come_first_and_no_more_than_asked_for(tmp_path: Path) -> None:
    """A changed status, then the share of lost evidence; what did not change is never among them."""
    base = [looked_up(f"r-{lost}") for lost in range(4)] + [looked_up("r-failed")]
    candidate = [looked_up(f"r-{lost}", without=lost) for lost in range(4)]
    candidate.append(recording(failure(), request_id="r-failed"))
    comparison = all_compared(tmp_path, base, candidate, ComparisonOptions(worst=3))
    assert [one.base.request_id for one in comparison.worst] == ["r-failed", "r-3", "r-2"]
    everything = all_compared(tmp_path, base, candidate)
    assert [one.base.request_id for one in everything.worst] == ["r-failed", "r-3", "r-2", "r-1"]
    assert all_compared(tmp_path, base, candidate, ComparisonOptions(worst=0)).worst == ()


def test_changes_of_status_are_counted_and_not_compared(tmp_path: Path) -> None:
    """By what they were and what they are."""
    base = [looked_up("r-1"), looked_up("r-2")]
    comparison = all_compared(tmp_path, base, [looked_up("r-1"), recording(failure(), request_id="r-2")])
    totals = comparison.totals
    assert (totals.compared, totals.statuses_kept, totals.lost) == (1, 1, {})
    assert "1 request went from ok to failed." in findings(comparison)


def test_a_document_is_not_gone_where_it_is_found_for_another_request(tmp_path: Path) -> None:
    """Nor where its chunks were only cut."""
    base = [looked_up("r-1"), looked_up("r-2")]
    elsewhere = all_compared(tmp_path, base, [looked_up("r-1", without=1), looked_up("r-2")])
    assert elsewhere.gone.count == 0
    cut = recording(answer(*HITS), request_id="r-1", widths=limits(return_n=3))
    assert all_compared(tmp_path, base[:1], [cut]).gone.count == 0
    gone = all_compared(tmp_path, base, [looked_up("r-1", without=1), looked_up("r-2", without=1)]).gone
    assert [(document.doc_id, document.requests) for document in gone.most_used] == [("doc3", 2)]


# Thresholds


def compared_with_one_loss(tmp_path: Path, judgements: Judgements | None = None) -> Comparison:
    """Compare four requests, of which one lost one of four pieces."""
    base = [looked_up(f"r-{number}") for number in range(4)]
    candidate = [looked_up("r-0", without=1), *base[1:]]
    return all_compared(tmp_path, base, candidate, ComparisonOptions(judgements=judgements))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jaccard", (0.75 + 3) / 4),
        ("document-jaccard", (0.75 + 3) / 4),
        ("rbo", 1.0),
        ("top1", 1.0),
        ("document-top1", 1.0),
        ("identical", 0.75),
        ("retained", 15 / 16),
        ("status", 1.0),
        ("joined", 1.0),
    ],
)
def test_thresholds_look_at_shares(tmp_path: Path, name: str, value: float) -> None:
    """Each passes at its value and fails just above it."""
    comparison = compared_with_one_loss(tmp_path)
    [at] = check(comparison, {name: value})
    [above] = check(comparison, {name: value + 1e-9})
    assert at.value == value
    assert (at.passed, above.passed) == (True, False)


def test_a_threshold_on_nothing_fails(tmp_path: Path) -> None:
    """Where no request could be compared, nobody may call it good."""
    comparison = all_compared(tmp_path, [looked_up("r-1")], [looked_up("r-2")])
    assert findings(comparison)[0] == "No request is in both files."
    names = [name for name in MEASURES if name not in {"ndcg", "recall", "mrr"}]
    assert not any(one.passed for one in check(comparison, dict.fromkeys(names, 0.0)) if one.name != "joined")
    [joined] = check(comparison, {"joined": 0.5})
    assert joined.value == 0.0


@pytest.mark.parametrize("text", ["jacard=0.9", "jaccard", "jaccard=", "jaccard=1.5", "jaccard=nan", "=0.5"])
def test_a_threshold_that_is_none_names_what_is_allowed(text: str) -> None:
    """One line with the names."""
    with pytest.raises(ConfigurationError, match=r"--fail-under .* must be NAME=SHARE .*jaccard, rbo, top1"):
        threshold(text, judged=True)


def test_a_threshold_on_relevance_needs_judgements() -> None:
    """Without qrels there is nothing to hold it against."""
    with pytest.raises(ConfigurationError, match="ndcg needs --qrels"):
        threshold("ndcg=0.3", judged=False)
    assert threshold("ndcg=0.3", judged=True) == ("ndcg", 0.3)


# Relevance


def qrels(tmp_path: Path, text: str) -> Judgements:
    """Read judgements."""
    file = tmp_path / "qrels.txt"
    file.write_text(text, encoding="utf-8")
    return read_qrels(file)


def test_relevance_by_document_has_known_values(tmp_path: Path) -> None:
    """One relevant document at rank 4, lost in one of two requests: reciprocal rank 1/4, then nothing."""
    judgements = qrels(tmp_path, "r-0 0 doc3 1\nr-1 0 doc3 1\nr-9 0 doc3 1\n")
    relevance = compared_with_one_loss(tmp_path, judgements).relevance
    assert relevance is not None
    assert (relevance.level, relevance.requests, relevance.missing) == ("document", 2, 1)
    ndcg, recall, mrr = relevance.measures
    assert (recall.name, recall.base, recall.candidate) == ("recall@10", 1.0, 0.5)
    assert (mrr.base, mrr.candidate) == (0.25, 0.125)
    assert (ndcg.better, ndcg.worse) == (0, 1)
    assert ndcg.p_value == pytest.approx(0.5)


def test_relevance_by_chunk_where_every_id_is_a_key(tmp_path: Path) -> None:
    """Another chunk of a relevant document is then not relevant."""
    judgements = qrels(tmp_path, "r-0 0 doc3#chunk-1 1\nr-0 0 doc0#chunk-0 2\n")
    relevance = compared_with_one_loss(tmp_path, judgements).relevance
    assert relevance is not None
    assert relevance.level == "chunk"
    assert [(one.base, one.candidate, one.p_value) for one in relevance.measures[1:]] == [
        (0.5, 0.5, None),
        (1.0, 1.0, None),
    ]


def test_judgements_of_other_requests_measure_nothing(tmp_path: Path) -> None:
    """And a threshold on them fails."""
    comparison = compared_with_one_loss(tmp_path, qrels(tmp_path, "r-9 0 doc3 1\n"))
    assert comparison.relevance is not None
    assert (comparison.relevance.requests, comparison.relevance.measures) == (0, ())
    assert not check(comparison, {"ndcg": 0.0})[0].passed


@pytest.mark.parametrize(
    "line", ["r-0 0 doc3", "r-0 0 doc3 high", "query_id doc_id relevance", "r-0 0 a b 1"]
)
def test_a_line_that_is_no_judgement_is_named(tmp_path: Path, line: str) -> None:
    """File, line, and what it must be."""
    with pytest.raises(
        ConfigurationError, match=r"qrels\.txt: line 2: .* (must be an integer|fields, must have 4)"
    ):
        qrels(tmp_path, f"r-0 0 doc3 1\n{line}\n")


def test_no_judgements_are_an_error(tmp_path: Path) -> None:
    """An empty file, and none at all."""
    with pytest.raises(ConfigurationError, match="no judgements"):
        qrels(tmp_path, "\n")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_qrels(tmp_path / "not-there")
