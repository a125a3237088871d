"""The guard: which cited ids stand in the projected evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.guard import CitationCheck, CitedDocument, check_citations
from pipeline.model import Evidence, Limits, Outcome, PathHits, SearchHit
from pipeline.outcome import conclude
from streams.wire.results import LookupResult, decode_result, encode_result
from tests import strategies
from tests.builders import answer, budget, hit, limits


def outcome(*hits: SearchHit, return_n: int = 5) -> Outcome:
    """Conclude the hits of one path."""
    return conclude([answer(*hits)], limits=limits(return_n=return_n), budget=budget())


FOUND = outcome(
    hit("docA", 2, score=0.9),
    hit("docB", 0, score=0.8),
    hit("docA", 7, score=0.7),
    hit(score=0.6, row_id=42),
    hit("docA", 8, score=0.5),
    hit("docC", None, score=0.4, row_id="c"),
)


def test_ids_are_projected_or_not() -> None:
    """A chunk that was shown is, one that was dropped or never found is not; as cited, each once."""
    cited = ["docB#chunk-0", "docA#chunk-8", "docA#chunk-2", "docZ#chunk-0", "docB#chunk-0", "vector:42"]
    assert check_citations(FOUND, cited) == CitationCheck(
        projected=("docB#chunk-0", "docA#chunk-2", "vector:42"),
        not_projected=("docA#chunk-8", "docZ#chunk-0"),
    )


def test_bare_document_id_names_its_projected_chunks() -> None:
    """Of a document that is cited as a whole, the chunks that were shown are named in rank order."""
    assert check_citations(FOUND, ["docC", "docZ", "docA"]) == CitationCheck(
        documents=(
            CitedDocument(doc_id="docC", chunks=("vector:c",)),
            CitedDocument(doc_id="docA", chunks=("docA#chunk-2", "docA#chunk-7")),
        ),
        not_projected=("docZ",),
    )


def test_id_that_is_key_and_document_counts_as_the_key() -> None:
    """A document may be called what another document's chunk is called."""
    found = outcome(hit("a", 0), hit("a#chunk-0", 1))
    assert check_citations(found, ["a#chunk-0"]) == CitationCheck(projected=("a#chunk-0",))


@pytest.mark.parametrize("near", ["", " ", "docA#chunk-2 ", "DOCA#CHUNK-2", "docA#chunk-02", "docA#", "doca"])
def test_id_that_only_looks_alike_is_not_projected(near: str) -> None:
    """Ids are opaque; nothing blank is one."""
    assert check_citations(FOUND, [near]) == CitationCheck(not_projected=(near,))


@pytest.mark.parametrize("status", ["empty", "failed", "expired", "rejected"])
def test_nothing_is_projected_in_a_result_without_evidence(status: str) -> None:
    """Whatever is cited beside a result without evidence is not backed by it."""
    result = decode_result(b'{"request_id": "r-1", "status": "%b"}' % status.encode())
    assert check_citations(result, ["docA#chunk-2", "docA"]).not_projected == ("docA#chunk-2", "docA")


def test_no_ids_are_no_citations() -> None:
    """An answer that cites nothing has nothing to check."""
    assert check_citations(FOUND, []) == CitationCheck()


@pytest.mark.parametrize("wrong", [["docA", 42], [None], [b"docA"], "docA", b"docB"])
def test_ids_that_are_no_strings_are_an_error(wrong: object) -> None:
    """A number is no id, and one string is not several."""
    with pytest.raises(TypeError, match="cited"):
        check_citations(FOUND, wrong)  # type: ignore[arg-type]


def test_guard_takes_results_from_the_topic() -> None:
    """What was decoded from the topic is checked as what was never on it."""
    result = LookupResult(request_id="r-1", status="ok", evidence=FOUND.evidence)
    cited = ["docA", "docB#chunk-0", "docZ"]
    assert check_citations(decode_result(encode_result(result)), cited) == check_citations(FOUND, cited)


CITED = st.lists(st.one_of(st.sampled_from(["docA", "docA#chunk-0", "docA#chunk-1", "vector:1"]), st.text()))


@given(strategies.paths(encodable=True), strategies.widths(), CITED, st.data())
def test_guard_sorts_every_id_into_one_of_three(
    paths: Sequence[PathHits], widths: Limits, invented: list[str], data: st.DataObject
) -> None:
    """Each cited id is in exactly one of the three, in order, and the chunks of a document are its own."""
    answers = [answer(*path.hits, query=path.query) for path in paths]
    concluded = conclude(answers, limits=widths, budget=budget())
    shown = [name for item in concluded.evidence for name in (item.document_id, item.doc_id) if name]
    cited = data.draw(st.permutations([*invented, *shown]))
    check = check_citations(concluded, cited)
    documents = [document.doc_id for document in check.documents]
    distinct = list(dict.fromkeys(cited))
    assert sorted([*check.projected, *documents, *check.not_projected]) == sorted(distinct)
    for part in (check.projected, documents, check.not_projected):
        assert list(part) == [name for name in distinct if name in part]
    assert not set(check.not_projected) & set(shown)
    for document in check.documents:
        assert document.chunks == _keys_of(concluded.evidence, document.doc_id)
        assert document.chunks


@given(CITED)
def test_guard_does_not_look_past_the_evidence(cited: list[str]) -> None:
    """With less evidence nothing more is projected."""
    whole = check_citations(FOUND, cited)
    less = check_citations(replace(FOUND, evidence=FOUND.evidence[:2]), cited)
    assert set(less.projected) <= set(whole.projected)
    assert set(less.not_projected) >= set(whole.not_projected)


def _keys_of(evidence: tuple[Evidence, ...], doc_id: str) -> tuple[str, ...]:
    return tuple(item.document_id for item in evidence if item.doc_id == doc_id)
