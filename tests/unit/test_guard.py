"""The guard: which cited ids stand in the projected evidence, and which of them a text cites."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.guard import CitationCheck, CitedDocument, check_citations, extract_citations
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


# Citations in text


def cites(text: str, *hits: SearchHit) -> tuple[str, ...]:
    """Return what a text cites of the evidence that hits become."""
    return extract_citations(text, outcome(*hits) if hits else FOUND)


@pytest.mark.parametrize(
    "text",
    [
        "docA#chunk-2",
        "Free the disk first [docA#chunk-2].",
        "Free the disk first (docA#chunk-2), then restart.",
        "[[docA#chunk-2]]",
        "{docA#chunk-2}",
        "<docA#chunk-2>",
        '<cite id="docA#chunk-2"/>',
        "【docA#chunk-2】",
        "\uff08docA#chunk-2\uff09と「再起動」",
        "《docA#chunk-2》、\u3014x\u3015",
        "'docA#chunk-2', \"x\"",
        "“docA#chunk-2” and \u2018x\u2019 and «y»",
        "`docA#chunk-2`",
        "**docA#chunk-2**",
        "_docA#chunk-2_",
        "~~docA#chunk-2~~",
        "[^docA#chunk-2]",
        "[@docA#chunk-2]",
        "[Free the disk](docA#chunk-2)",
        "[Free the disk](#docA#chunk-2 'title')",
        "[Free the disk](./docA#chunk-2)",
        "[Free the disk](docA%23chunk-2)",
        "[docA#chunk-2](https://kb.example/pages?id=9)",
        "[1]: docA#chunk-2",
        "Source: docA#chunk-2.",
        "source:docA#chunk-2;",
        "[doc_id=docA#chunk-2]",
        "docA#chunk-2: free the disk!",
        "docA#chunk-2...",
        "docA#chunk-2's advice",
        "docA#chunk-2—free the disk",
        "docA#chunk-2\nfree the disk",
        "• docA#chunk-2",
        "| docA#chunk-2 |",
        "docA\\#chunk-2",
        "docA#chunk\u20112",
        "磁盘已满时docA#chunk-2说明了方法。",
        "docA#chunk-2에서",
    ],
)
def test_citation_is_found_in_the_forms_that_models_write(text: str) -> None:
    """Whatever stands around an id, it is the same id."""
    assert cites(text) == ("docA#chunk-2",)


@pytest.mark.parametrize(
    "text",
    [
        "[docA#chunk-2, docB#chunk-0]",
        "[docA#chunk-2; docB#chunk-0]",
        "[docA#chunk-2;docB#chunk-0]",
        "(docA#chunk-2,docB#chunk-0)",
        "【docA#chunk-2、docB#chunk-0】",
        "[docA#chunk-2][docB#chunk-0]",
        "docA#chunk-2 and docB#chunk-0, see docA#chunk-2",
        '["docA#chunk-2", "docB#chunk-0"]',
        "docA#chunk-2|docB#chunk-0",
    ],
)
def test_citations_are_found_in_lists(text: str) -> None:
    """Several in one bracket are several, each once, in the order in which they are mentioned first."""
    assert cites(text) == ("docA#chunk-2", "docB#chunk-0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "docA#chunk-20",
        "docA#chunk-1",
        "docA#chunk-",
        "xdocA#chunk-2",
        "my-docA#chunk-2",
        "old/docA#chunk-2",
        "docA#chunk-2.5",
        "docA#chunk-2-b",
        "docA#chunk-2_b",
        "docA#chunk-2/b",
        "docA#chunk-2:b",
        "docA%23chunk-20",
        "docA#chunk-2\u0301",
        "docA#chunk-\uff12",
        "DOCA#CHUNK-2",
        "docA #chunk-2x docA.md docA-old docAé docA_2 docA/b",
        "vector:421 vector:4 42 c",
    ],
)
def test_what_only_contains_an_id_does_not_cite_it(text: str) -> None:
    """An id is a whole token, and its letters are equal."""
    found = cites(text)
    assert found == (("docA",) if text.startswith("docA #") else ())


def test_ids_that_begin_alike_are_not_confused() -> None:
    """The longest that fits is meant."""
    hits = (hit("doc", 1, score=0.9), hit("doc", 12, score=0.8), hit("doc 1", 1, score=0.7))
    assert cites("[doc#chunk-12]", *hits) == ("doc#chunk-12",)
    assert cites("[doc#chunk-1]", *hits) == ("doc#chunk-1",)
    assert cites("[doc#chunk-123]", *hits) == ()
    assert cites("[doc 1#chunk-1], doc 1 and doc", *hits) == ("doc 1#chunk-1", "doc 1", "doc")


def test_whole_document_is_cited_by_its_id() -> None:
    """A chunk's key is no mention of its document, nor is the key of a chunk that was not shown."""
    assert cites("As docA says [docB#chunk-0].") == ("docA", "docB#chunk-0")
    assert cites("[docA#chunk-99]") == ()
    assert cites("docC, vector:c") == ("docC", "vector:c")


@pytest.mark.parametrize(
    ("doc_id", "written"),
    [
        ("a+b(c)*", "[a+b(c)*]"),
        ("a.b", "(a.b)"),
        ("[x]", "see [x] there"),
        ("^$|", "^$|."),
        ("C:\\docs\\a", "`C:\\docs\\a`"),
        ("my runbook", "[my runbook]"),
        ("my runbook", "my\nrunbook"),
        ("my runbook", "[x](my%20runbook)"),
        ("ops/disk full", "[x](ops/disk%20full)"),
        ("ops/disk", "[x](ops%2Fdisk)"),
        ("a_b*c", "a\\_b\\*c"),
        ("größe", "„größe“"),
        ("日本語", "【日本語】"),
        ("手順", "runbook手順\uff082\uff09"),
        ("😀", "see 😀."),
        ("urn:x:1", "<urn:x:1>"),
        ("%41", "%41"),
        ("\ud800", "\ud800"),
        ("-a-", "(-a-)"),
    ],
)
def test_ids_of_any_characters_are_found(doc_id: str, written: str) -> None:
    """Signs of patterns, spaces, other scripts, and how links and Markdown write them."""
    assert cites(f"{written} ...", hit(doc_id, 0)) == (doc_id,)
    assert cites("nothing of the kind", hit(doc_id, 0)) == ()


def test_id_in_a_script_without_spaces_is_a_whole_word() -> None:
    """Its neighbours of the same script may make it another word."""
    assert cites("運用手順書", hit("運用手順", 0)) == ()
    assert cites("新運用手順", hit("運用手順", 0)) == ()


def test_id_that_another_ones_spelling_equals_is_itself() -> None:
    """What is written exactly goes before what is percent-encoded."""
    hits = (hit("a b", 0, score=0.9), hit("a%20b", 0, score=0.8))
    assert cites("a%20b and a b", *hits) == ("a%20b", "a b")


def test_nothing_is_cited_of_no_evidence() -> None:
    """Nor by a text without ids."""
    assert extract_citations("docA#chunk-2", outcome()) == ()
    assert cites("Nothing was found.") == ()


def test_extracted_citations_can_be_checked() -> None:
    """What is found is in the evidence, as a chunk or as a document."""
    check = check_citations(FOUND, extract_citations("docA [docB#chunk-0] and docZ#chunk-0", FOUND))
    assert check.projected == ("docB#chunk-0",)
    assert [document.doc_id for document in check.documents] == ["docA"]
    assert check.not_projected == ()


def test_large_texts_take_time_in_proportion() -> None:
    """No text makes the search go back again and again."""
    hits = tuple(hit(f"a{'-a' * number}", number, score=1 - number / 1_000) for number in range(100))
    found = outcome(*hits, return_n=100)
    for piece in ("a-", "a ", "a-a#chunk-", "\\-", "docA ", "aaaa"):
        began = time.process_time()
        extract_citations(piece * (300_000 // len(piece)), found)
        assert time.process_time() - began < 5


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4, unique=True), st.data())
def test_every_id_between_brackets_is_found(names: list[str], data: st.DataObject) -> None:
    """Whatever characters they have."""
    hits = [hit(name, number, score=1 - number / 10) for number, name in enumerate(names)]
    found = outcome(*hits)
    ids = [item.document_id for item in found.evidence]
    cited = data.draw(st.permutations(ids))
    text = "".join(f"⟦{each}⟧ " for each in cited)
    assert set(cited) <= set(extract_citations(text, found))


def _keys_of(evidence: tuple[Evidence, ...], doc_id: str) -> tuple[str, ...]:
    return tuple(item.document_id for item in evidence if item.doc_id == doc_id)
