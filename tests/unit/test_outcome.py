"""From the answers of the paths to the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.model import Budget, Ledger, Limits, Outcome, PathHits, PathReport, Problem, SearchHit
from pipeline.outcome import PathAnswer, conclude
from tests import strategies
from tests.builders import UNAVAILABLE, answer, budget, failure, hit, limits, path
from tests.oracle import expected, observed

TIMEOUT = Problem(code="search_timeout", message="the search did not answer in time")

ANY_LIMITS = strategies.widths()
ANY_BUDGET = strategies.budgets()


def concluded(*answers: PathAnswer, widths: Limits | None = None, allowed: Budget | None = None) -> Outcome:
    """Conclude under the product's default limits and budget."""
    return conclude(answers, limits=widths or limits(), budget=allowed or budget())


def answers_of(found: Sequence[PathHits]) -> list[PathAnswer]:
    """Return the answers of paths that all succeeded."""
    return [PathAnswer(query=one.query, hits=one) for one in found]


def any_answers(*, encodable: bool = False) -> st.SearchStrategy[list[PathAnswer]]:
    """Return the answers of paths of which some failed."""
    problems = st.lists(st.sampled_from([None, None, None, UNAVAILABLE, TIMEOUT]), min_size=3, max_size=3)
    return st.builds(
        lambda found, errors: [
            PathAnswer(query=one.query, hits=one) if error is None else failure(one.query, error)
            for one, error in zip(found, errors, strict=False)
        ],
        strategies.paths(encodable=encodable),
        problems,
    )


def plain(answers: Sequence[PathAnswer]) -> list[dict[str, Any]]:
    """Return the answers as the oracle takes them."""
    return [
        {
            "query": one.query,
            "hits": [
                {"id": of.id, "content": of.content, "metadata": of.metadata, "score": of.score}
                for of in one.hits.hits
            ],
        }
        for one in answers
    ]


# Status


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        pytest.param([answer(hit())], "ok", id="one path with evidence"),
        pytest.param([answer(), answer(hit(), query=1)], "ok", id="evidence of one path is enough"),
        pytest.param([answer()], "empty", id="no hits"),
        pytest.param([answer(hit(content=" "))], "empty", id="only rejected hits"),
        pytest.param([answer(hit()), failure(1)], "partial", id="one of two failed"),
        pytest.param([failure(0), answer(query=1)], "partial", id="one failed, the other has no hits"),
        pytest.param([failure(0)], "failed", id="the only one failed"),
        pytest.param([failure(0), failure(1)], "failed", id="all failed"),
    ],
)
def test_status_says_how_the_paths_went(answers: list[PathAnswer], status: str) -> None:
    """`ok` and `empty` need every path's answer, `failed` is for none, `partial` for some."""
    assert concluded(*answers).status == status


def test_error_is_the_first_paths_where_all_failed() -> None:
    """A failed lookup has one error, the first path's."""
    assert concluded(failure(0, TIMEOUT), failure(1, UNAVAILABLE)).error == TIMEOUT


def test_error_is_none_where_a_path_answered() -> None:
    """A partial lookup names the errors of its paths, and has none of its own."""
    outcome = concluded(failure(0, TIMEOUT), answer(hit(), query=1))
    assert outcome.error is None
    assert outcome.paths == (
        PathReport(query=0, status="failed", hits=0, error=TIMEOUT),
        PathReport(query=1, status="ok", hits=1, error=None),
    )


def test_failed_paths_leave_the_others_evidence() -> None:
    """What the other paths found is there."""
    outcome = concluded(answer(hit("docA", 0)), failure(1), answer(hit("docB", 0), query=2))
    assert [item.document_id for item in outcome.evidence] == ["docA#chunk-0", "docB#chunk-0"]
    assert outcome.ledger == Ledger(retrieved=2, projected=2)


# Ledger and drops


def test_ledger_says_what_became_of_every_hit() -> None:
    """Each reason has its own figure; both ways of being rejected are one."""
    hits = [
        hit("docA", 0, score=0.9, content="x" * 10),
        hit("docA", 0, score=0.8),
        hit("docA", 1, score=0.7),
        hit("docB", 0, score=0.6, content="y" * 10),
        hit("docC", 0, score=0.5),
        hit(content=""),
        hit(score=None),
    ]
    outcome = concluded(
        answer(*hits),
        widths=limits(return_n=2, max_chunks_per_document=1),
        allowed=budget(max_total_chars=12),
    )
    assert outcome.ledger == Ledger(
        retrieved=7,
        rejected=2,
        duplicates=1,
        over_document_cap=1,
        over_return_n=1,
        over_budget=1,
        projected=1,
    )
    assert [(drop.rank, drop.reason, drop.merged_into) for drop in outcome.dropped] == [
        (2, "duplicate", "docA#chunk-0"),
        (3, "over_document_cap", None),
        (4, "over_budget", None),
        (5, "over_return_n", None),
        (6, "empty_content", None),
        (7, "invalid_score", None),
    ]


@given(answers=any_answers(), widths=ANY_LIMITS, allowed=ANY_BUDGET)
def test_ledger_balances(answers: list[PathAnswer], widths: Limits, allowed: Budget) -> None:
    """`retrieved` is the sum of all the others, and they are what the outcome shows."""
    outcome = conclude(answers, limits=widths, budget=allowed)
    retrieved, *others = astuple(outcome.ledger)
    assert retrieved == sum(others) == sum(report.hits for report in outcome.paths)
    assert outcome.ledger.projected == len(outcome.evidence)
    assert retrieved - outcome.ledger.projected == len(outcome.dropped)


@given(answers=any_answers(), widths=ANY_LIMITS, allowed=ANY_BUDGET)
def test_dropped_is_in_the_order_of_the_hits(
    answers: list[PathAnswer], widths: Limits, allowed: Budget
) -> None:
    """By query and rank, each hit at most once."""
    places = [(drop.query, drop.rank) for drop in conclude(answers, limits=widths, budget=allowed).dropped]
    assert places == sorted(set(places))


# Evidence


@given(answers=any_answers(), widths=ANY_LIMITS, allowed=ANY_BUDGET)
@settings(max_examples=6 * settings().max_examples)
def test_conclude_agrees_with_the_rules(answers: list[PathAnswer], widths: Limits, allowed: Budget) -> None:
    """An independent computation from the rules alone comes to the same evidence and ledger."""
    outcome = conclude(answers, limits=widths, budget=allowed)
    succeeded = [one for one in answers if one.error is None]
    assert observed(asdict(outcome)) == expected(
        plain(succeeded), limits=asdict(widths), budget=asdict(allowed)
    )


@given(found=strategies.sound_hits(), widths=ANY_LIMITS, allowed=ANY_BUDGET)
def test_conclude_never_returns_nothing_for_a_valid_hit(
    found: SearchHit, widths: Limits, allowed: Budget
) -> None:
    """Where a hit has content and a score there is evidence, however narrow limits and budget."""
    outcome = concluded(answer(found), widths=widths, allowed=allowed)
    assert outcome.status == "ok"
    assert len(outcome.evidence) == 1


@given(answers=any_answers(encodable=True), widths=ANY_LIMITS, allowed=ANY_BUDGET)
def test_conclude_gives_the_same_bytes_each_time(
    answers: list[PathAnswer], widths: Limits, allowed: Budget
) -> None:
    """Equal answers, equal bytes: also after a round trip of the hits through new objects."""
    again = [replace(one, hits=path(*map(replace, one.hits.hits), query=one.query)) for one in answers]
    one, other = (
        orjson.dumps(conclude(given_, limits=widths, budget=allowed)) for given_ in (answers, again)
    )
    assert one == other


@given(found=strategies.paths(), widths=ANY_LIMITS, allowed=ANY_BUDGET, data=st.data())
def test_conclude_does_not_depend_on_the_order_of_the_paths(
    found: tuple[PathHits, ...], widths: Limits, allowed: Budget, data: st.DataObject
) -> None:
    """Permuting the answers changes nothing but the order of the reports."""
    shuffled = data.draw(st.permutations(answers_of(found)))
    one = conclude(answers_of(found), limits=widths, budget=allowed)
    other = conclude(shuffled, limits=widths, budget=allowed)
    assert replace(other, paths=one.paths) == one


@given(found=strategies.paths(), widths=ANY_LIMITS, allowed=ANY_BUDGET, data=st.data())
def test_conclude_with_fewer_results_gives_a_prefix(
    found: tuple[PathHits, ...], widths: Limits, allowed: Budget, data: st.DataObject
) -> None:
    """A smaller `return_n` gives the first evidence of a larger one, byte for byte."""
    fewer = data.draw(st.integers(min_value=1, max_value=widths.return_n))
    few = conclude(answers_of(found), limits=replace(widths, return_n=fewer), budget=allowed).evidence
    many = conclude(answers_of(found), limits=widths, budget=allowed).evidence
    assert few == many[: len(few)]


# The oracle itself


def test_oracle_by_hand() -> None:
    """The independent computation is right about a case worked out by hand."""
    paths = [
        {
            "query": 0,
            "hits": [
                {
                    "id": 1,
                    "content": "one two three",
                    "metadata": {"docId": "a", "chunkIndex": 0},
                    "score": 0.9,
                },
                {"id": 2, "content": "four", "metadata": '{"doc_id": "a", "chunk_index": "1"}', "score": 0.5},
                {"id": 3, "content": " ", "metadata": None, "score": 0.4},
            ],
        },
        {
            "query": 1,
            "hits": [
                {"id": 9, "content": "older", "metadata": {"docId": "a", "chunkIndex": 0.0}, "score": 0.6},
                {"id": 4, "content": "five", "metadata": None, "score": 0.0},
                {"id": None, "content": "six", "metadata": None, "score": -1},
            ],
        },
    ]
    assert expected(
        paths,
        limits={"return_n": 2, "max_chunks_per_document": 1},
        budget={"max_items": 5, "max_chars_per_item": 9, "max_total_chars": 11, "min_chars_per_item": 4},
    ) == {
        "evidence": [
            {
                "document_id": "a#chunk-0",
                "content": "one two",
                "truncated": True,
                "score": 0.9,
                "hit_reasons": [
                    {"query": 0, "rank": 1, "score": 0.9},
                    {"query": 1, "rank": 1, "score": 0.6},
                ],
            },
            {
                "document_id": "vector:4",
                "content": "five",
                "truncated": False,
                "score": 0.0,
                "hit_reasons": [{"query": 1, "rank": 2, "score": 0.0}],
            },
        ],
        "ledger": {
            "retrieved": 6,
            "rejected": 1,
            "duplicates": 1,
            "over_document_cap": 1,
            "over_return_n": 1,
            "over_budget": 0,
            "projected": 2,
        },
    }
