"""What changed in one request: which evidence is the same, what went, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model import Dropped, Limits, Outcome, PathHits, SearchHit
from pipeline.outcome import PathAnswer
from streams.comparison.differences import Difference, LossReason, Overlap, difference
from streams.comparison.reading import side_of
from streams.comparison.sides import fates_of
from streams.recordings.recording import Recording, RecordingUnreadable
from tests import strategies
from tests.builders import answer, budget, failure, hit, limits, recording
from tests.comparisons import compared

ALIKE = Overlap(jaccard=1.0, rbo=1.0, top1=1)

FOUR = [hit(f"doc{place}", 0, score=0.9 - place / 10, content=f"Part {place}.") for place in range(4)]


def looked_up(*hits: SearchHit, widths: Limits | None = None) -> Recording:
    """Record a lookup of one query."""
    return recording(answer(*hits), widths=widths)


def losses(difference: Difference) -> dict[str, LossReason]:
    """Return why each key was lost."""
    return {lost.item.key: lost.reason for lost in difference.lost}


# The evidence as a whole


def test_the_same_evidence_in_the_same_order_is_identical() -> None:
    """Nothing lost, nothing new, every measure 1."""
    found = compared(looked_up(*FOUR), looked_up(*FOUR))
    assert (found.change, found.lost, found.new) == ("identical", (), ())
    assert found.chunks == found.documents == ALIKE
    assert not found.differs


def test_the_same_evidence_in_another_order_is_reordered() -> None:
    """The set is the same, so Jaccard is 1; the first is another, so the top-1 changed."""
    swapped = [replace(FOUR[0], score=FOUR[1].score), replace(FOUR[1], score=FOUR[0].score), *FOUR[2:]]
    found = compared(looked_up(*FOUR), looked_up(*swapped))
    assert found.change == "reordered"
    assert found.chunks is not None
    assert (found.chunks.jaccard, found.chunks.top1) == (1.0, 0)
    assert found.chunks.rbo < 1.0


def test_other_evidence_is_changed() -> None:
    """One of four went and another came: three of five are common."""
    found = compared(looked_up(*FOUR), looked_up(*FOUR[:3], hit("docX", 0, score=0.1)))
    assert found.change == "changed"
    assert found.chunks is not None
    assert found.chunks.jaccard == 3 / 5
    assert [item.key for item in found.new] == ["docX#chunk-0"]


def test_jaccard_looks_at_the_first_items_only() -> None:
    """With a depth of 3 what happens at the fourth place is not seen."""
    found = compared(looked_up(*FOUR), looked_up(*FOUR[:3]), depth=3)
    assert found.chunks is not None
    assert found.chunks.jaccard == 1.0


def test_documents_overlap_where_another_chunk_of_the_same_document_came() -> None:
    """By evidence nothing is common, by document everything."""
    found = compared(looked_up(hit("docA", 0)), looked_up(hit("docA", 1)))
    assert found.chunks == Overlap(jaccard=0.0, rbo=0.0, top1=0)
    assert found.documents == ALIKE


# Why evidence went


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (looked_up(*FOUR[1:]), "not_retrieved"),
        (looked_up(replace(FOUR[0], content=" "), *FOUR[1:]), "empty_content"),
        (looked_up(replace(FOUR[0], score=None), *FOUR[1:]), "invalid_score"),
        (looked_up(replace(FOUR[0], score=0.1), *FOUR[1:], widths=limits(return_n=3)), "over_return_n"),
        (
            looked_up(
                hit("doc0", 1, score=0.99), *FOUR, widths=limits(retrieve_k=9, max_chunks_per_document=1)
            ),
            "over_document_cap",
        ),
        (
            recording(answer(replace(FOUR[0], score=0.1), *FOUR[1:]), room=budget(max_items=3)),
            "over_budget",
        ),
    ],
)
def test_lost_evidence_says_which_rule_took_it(candidate: Recording, reason: LossReason) -> None:
    """The candidate's own hits, concluded again, tell what became of the key."""
    assert losses(compared(looked_up(*FOUR), candidate))["doc0#chunk-0"] == reason


def test_of_several_hits_of_one_key_the_one_that_came_furthest_tells_why() -> None:
    """A key that was cut is not called a duplicate for its second hit, nor rejected for its third."""
    twice = [replace(FOUR[0], score=0.1), replace(FOUR[0], score=0.05), replace(FOUR[0], content="")]
    found = compared(looked_up(*FOUR), looked_up(*twice, *FOUR[1:], widths=limits(return_n=3)))
    assert losses(found) == {"doc0#chunk-0": "over_return_n"}


def test_a_key_that_was_merged_into_another_says_into_which() -> None:
    """Rules by which two keys are one would say so in the ledger."""
    merged = Dropped(
        document_id="doc0#chunk-0", reason="duplicate", query=0, rank=1, merged_into="doc9#chunk-0"
    )
    [fate] = fates_of((), Outcome(status="empty", dropped=(merged,)), {})
    candidate = replace(side_of(looked_up(*FOUR[1:]), explain=True), fates=(fate,))
    [lost] = difference(side_of(looked_up(*FOUR), explain=False), candidate, depth=10).lost
    assert (lost.reason, lost.merged_into) == ("duplicate", "doc9#chunk-0")


def test_evidence_that_this_version_would_have_kept_is_unexplained() -> None:
    """A result made by another version of the rules."""
    candidate = looked_up(*FOUR)
    evidence = (candidate.result or {})["evidence"]
    other = replace(candidate, result={**(candidate.result or {}), "evidence": evidence[1:]})
    assert losses(compared(looked_up(*FOUR), other)) == {"doc0#chunk-0": "unexplained"}


# Failed searches


@pytest.mark.parametrize("error", ["search_unavailable"])
def test_a_failed_search_is_a_change_of_status_and_not_lost_evidence(error: str) -> None:
    """What a search that failed would have found, nobody knows."""
    found = compared(looked_up(*FOUR), recording(failure()))
    assert (found.change, found.lost, found.new) == ("not_compared", (), ())
    assert found.status_changed
    assert (found.candidate.status, found.candidate.error) == ("failed", error)
    assert found.chunks is None


def test_a_request_of_which_one_query_failed_on_one_side_is_not_compared() -> None:
    """The missing query's evidence is missing for no fault of the index."""
    whole = recording(answer(*FOUR[:2]), answer(*FOUR[2:], query=1))
    part = recording(answer(*FOUR[:2]), failure(1))
    assert compared(whole, part).change == "not_compared"
    assert compared(part, part).change == "identical"


def test_a_request_without_result_is_not_compared() -> None:
    """Recorded from the requests topic alone."""
    alone = replace(looked_up(*FOUR), paths=None, result=None, limits=None, budget=None)
    found = compared(alone, looked_up(*FOUR))
    assert (found.change, found.base.status) == ("not_compared", None)


def test_what_is_no_result_is_named() -> None:
    """The field, and what is wrong with it."""
    broken = replace(looked_up(*FOUR), result={"request_id": "r-1", "status": "fine"})
    with pytest.raises(RecordingUnreadable, match=r"result\.status"):
        compared(broken, broken)


# Texts


def test_the_same_key_with_another_text_is_rewritten() -> None:
    """The evidence is kept; its text is not."""
    found = compared(looked_up(*FOUR), looked_up(replace(FOUR[0], content="Rewritten."), *FOUR[1:]))
    assert (found.change, found.differs) == ("identical", True)
    assert [pair.base.key for pair in found.pairs if pair.rewritten] == ["doc0#chunk-0"]


def test_the_same_text_under_a_smaller_budget_is_resized_and_not_rewritten() -> None:
    """The whole text, before it was shortened, is the same."""
    long = hit("docA", 0, content="A word and another. " * 40)
    found = compared(looked_up(long), recording(answer(long), room=budget(max_chars_per_item=100)))
    [pair] = found.pairs
    assert (pair.rewritten, pair.resized) == (False, True)


# Unstable identities


@pytest.mark.parametrize("moved", [{"row_id": 93}, {"row_id": None}, {"doc": "docA", "chunk": 3}])
def test_the_same_text_under_another_key_is_the_same_evidence_where_a_key_is_unstable(
    moved: dict[str, object],
) -> None:
    """`vector:17` went, and its text came under another row id, a content key, or a key of its own."""
    named = {"doc": moved.pop("doc", None), "chunk": moved.pop("chunk", None)}
    again = hit(named["doc"], named["chunk"], content="Part 0.", **moved)  # type: ignore[arg-type]
    found = compared(looked_up(hit(row_id=17, content="Part 0.")), looked_up(again))
    assert (found.change, found.lost, found.new) == ("identical", (), ())
    assert [pair.renamed for pair in found.pairs] == [True]


def test_the_same_text_under_another_stable_key_is_other_evidence() -> None:
    """Two chunks may say the same; they are two all the same."""
    found = compared(looked_up(hit("docA", 0, content="Same.")), looked_up(hit("docB", 0, content="Same.")))
    assert losses(found) == {"docA#chunk-0": "not_retrieved"}


def test_a_row_id_that_went_to_another_text_does_not_stand_for_it() -> None:
    """`vector:17` is now another text, and what it was is `vector:93`."""
    base = looked_up(hit(row_id=17, content="Part 0."))
    candidate = looked_up(
        hit(row_id=93, content="Part 0.", score=0.4), hit(row_id=17, content="Part 1.", score=0.3)
    )
    found = compared(base, candidate)
    assert [(pair.base.key, pair.candidate.key) for pair in found.pairs] == [("vector:17", "vector:93")]
    assert [item.key for item in found.new] == ["vector:17"]


def test_an_unstable_key_without_its_text_is_not_called_a_regression() -> None:
    """Neither key nor text was retrieved: it may be another text of the same chunk."""
    found = compared(
        looked_up(hit(row_id=17, content="Part 0.")), looked_up(hit(row_id=93, content="Part 9."))
    )
    assert losses(found) == {"vector:17": "unstable_identity"}


def test_a_text_under_an_unstable_key_that_was_cut_says_so() -> None:
    """Its text is among the candidate's hits under another key, and the ledger knows what became of it."""
    base = looked_up(hit(row_id=17, content="Part 0.", score=0.4), *FOUR[1:])
    candidate = looked_up(hit(row_id=93, content="Part 0.", score=0.1), *FOUR[1:], widths=limits(return_n=3))
    assert losses(compared(base, candidate)) == {"vector:17": "over_return_n"}


# Laws


def recordings() -> st.SearchStrategy[Recording]:
    """Return recordings of anything that a knowledge base may hold."""
    return st.builds(
        lambda found, widths, room: recording(
            *(PathAnswer(query=one.query, hits=one) for one in found), widths=widths, room=room
        ),
        strategies.paths(encodable=True),
        strategies.widths(),
        strategies.budgets(),
    )


@given(recordings())
def test_a_recording_does_not_differ_from_itself(one: Recording) -> None:
    """Whatever it holds."""
    found = compared(one, one)
    assert (found.change, found.lost, found.new, found.differs) == ("identical", (), (), False)
    assert found.chunks == found.documents == ALIKE
    assert not any(pair.renamed or pair.rewritten or pair.resized for pair in found.pairs)


@given(recordings(), recordings())
def test_every_piece_is_kept_lost_or_new_and_one_only(base: Recording, candidate: Recording) -> None:
    """Each side's evidence is accounted for once."""
    if len(base.answers) != len(candidate.answers):
        candidate = replace(candidate, paths=base.paths, result=base.result)
    found = compared(base, candidate)
    kept = [pair.base.rank for pair in found.pairs]
    assert sorted([*kept, *(lost.item.rank for lost in found.lost)]) == [
        item.rank for item in found.base.items
    ]
    assert sorted([*(pair.candidate.rank for pair in found.pairs), *(item.rank for item in found.new)]) == [
        item.rank for item in found.candidate.items
    ]


@given(recordings(), recordings())
def test_overlap_is_symmetric(base: Recording, candidate: Recording) -> None:
    """What is lost in one direction is new in the other, and the measures are the same."""
    there, back = compared(base, candidate), compared(candidate, base)
    assert there.chunks == back.chunks
    assert there.change == back.change
    assert {lost.item.key for lost in there.lost} == {item.key for item in back.new}


@given(strategies.paths(encodable=True), strategies.widths(), strategies.widths(), strategies.budgets())
def test_evidence_lost_to_another_limit_is_never_called_not_retrieved(
    found: tuple[PathHits, ...], widths: Limits, others: Limits, room: object
) -> None:
    """The hits are the same, so the ledger knows what became of each."""
    answers = [PathAnswer(query=one.query, hits=one) for one in found]
    base = recording(*answers, widths=widths, room=room)  # type: ignore[arg-type]
    candidate = recording(*answers, widths=others, room=room)  # type: ignore[arg-type]
    reasons = set(losses(compared(base, candidate)).values())
    assert reasons <= {"over_document_cap", "over_return_n", "over_budget"}
