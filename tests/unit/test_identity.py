"""Which chunk a hit is."""

from __future__ import annotations

import json
import math
from collections import ChainMap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.identity import EVIDENCE_KEY, evidence_key, identify, metadata_object, usable_id, usable_index
from pipeline.model import Dropped, PathHits, SearchHit
from pipeline.processor import process
from tests import strategies
from tests.builders import block, hit, hit_with, limits
from tests.strategies import LONE_SURROGATE, MAX_INTEGER_DIGITS

TOO_LONG = 10**MAX_INTEGER_DIGITS

IDS = pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("docA", "docA", id="string"),
        pytest.param(" \tdocA\n", "docA", id="padded string"),
        pytest.param("a b", "a b", id="inner white space"),
        pytest.param("0", "0", id="string zero"),
        pytest.param(0, "0", id="zero"),
        pytest.param(-7, "-7", id="negative integer"),
        pytest.param(42.0, "42", id="integral float"),
        pytest.param(-0.0, "0", id="negative zero"),
        pytest.param(2**63 - 1, "9223372036854775807", id="64 bits"),
        pytest.param(2**64, "18446744073709551616", id="more than 64 bits"),
    ],
)
NO_IDS = pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param("", id="empty"),
        pytest.param(" \t\n\u2003", id="blank"),
        pytest.param(True, id="true"),
        pytest.param(False, id="false"),
        pytest.param(42.5, id="fraction"),
        pytest.param(math.nan, id="nan"),
        pytest.param(math.inf, id="infinity"),
        pytest.param(["docA"], id="list"),
        pytest.param({"docId": "docA"}, id="object"),
        pytest.param(TOO_LONG, id="too long to write down"),
    ],
)
INDEXES = pytest.mark.parametrize(
    ("value", "index"),
    [
        pytest.param(0, 0, id="zero"),
        pytest.param("0", 0, id="string zero"),
        pytest.param(0.0, 0, id="float zero"),
        pytest.param(-0.0, 0, id="negative zero"),
        pytest.param(7, 7, id="integer"),
        pytest.param("7", 7, id="digits"),
        pytest.param("007", 7, id="leading zeros"),
        pytest.param(7.0, 7, id="integral float"),
        pytest.param(2**63, 2**63, id="more than 63 bits"),
        pytest.param("9" * MAX_INTEGER_DIGITS, TOO_LONG - 1, id="as many digits as can be read"),
    ],
)
NO_INDEXES = pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param(True, id="true"),
        pytest.param(False, id="false"),
        pytest.param(-1, id="negative"),
        pytest.param(-1.0, id="negative float"),
        pytest.param("-1", id="negative digits"),
        pytest.param("+1", id="signed digits"),
        pytest.param(0.5, id="fraction"),
        pytest.param(math.nan, id="nan"),
        pytest.param(-math.inf, id="negative infinity"),
        pytest.param("1.0", id="digits with a point"),
        pytest.param("1_000", id="digits with an underscore"),
        pytest.param(" 1", id="padded digits"),
        pytest.param("", id="empty"),
        pytest.param("²", id="superscript"),
        pytest.param("٣", id="Arabic digit"),
        pytest.param("one", id="word"),
        pytest.param([1], id="list"),
        pytest.param({"0": 1}, id="object"),
        pytest.param("9" * (MAX_INTEGER_DIGITS + 1), id="more digits than can be read"),
        pytest.param(TOO_LONG, id="too long to write down"),
    ],
)


@IDS
def test_usable_id_is_a_string_or_a_whole_number(value: object, text: str) -> None:
    """A string that is not blank, an integer and an integral float are ids."""
    assert usable_id(value) == text


@NO_IDS
def test_usable_id_is_nothing_else(value: object) -> None:
    """Booleans, null, other floats, lists, objects and blank strings are no ids."""
    assert usable_id(value) is None


@pytest.mark.parametrize("value", ["DOCA", "a\u0308", "\u00e4", "docA#chunk-1", "\ufb01"])
def test_usable_id_is_opaque(value: str) -> None:
    """An id must find its document again: no case folding, no Unicode normalisation."""
    assert usable_id(value) == value


@INDEXES
def test_usable_index_is_a_whole_number_from_zero(value: object, index: int) -> None:
    """An integer ≥ 0, an integral float ≥ 0 and a string of ASCII digits are indexes."""
    found = usable_index(value)
    assert found == index
    assert type(found) is int


@NO_INDEXES
def test_usable_index_is_nothing_else(value: object) -> None:
    """Whatever is negative, not whole, not a number or not ASCII digits is no index."""
    assert usable_index(value) is None


@given(index=st.integers(min_value=0))
def test_usable_index_does_not_depend_on_the_spelling(index: int) -> None:
    """An integer and its digits are one index, and so is the float where it is exact."""
    assert usable_index(index) == usable_index(str(index)) == index
    if index < 2**53:
        assert usable_index(float(index)) == index


@IDS
@pytest.mark.parametrize("field", ["docId", "doc_id"])
def test_doc_id_comes_from_either_field(field: str, value: object, text: str) -> None:
    """`docId` and `doc_id` name the document."""
    assert block(hit_with(metadata={field: value})).doc_id == text


@NO_IDS
def test_doc_id_is_the_first_usable(value: object) -> None:
    """A `docId` that is none does not hide a `doc_id` that is one."""
    assert block(hit_with(metadata={"docId": value, "doc_id": "docB"})).doc_id == "docB"
    assert block(hit_with(metadata={"docId": "docA", "doc_id": "docB"})).doc_id == "docA"
    assert block(hit_with(metadata={"docId": value, "doc_id": value})).doc_id is None


@INDEXES
@pytest.mark.parametrize("field", ["chunkIndex", "chunk_index"])
def test_chunk_index_comes_from_either_field(field: str, value: object, index: int) -> None:
    """`chunkIndex` and `chunk_index` name the chunk."""
    found = block(hit_with(metadata={"docId": "docA", field: value}))
    assert found.chunk_index == index
    assert found.document_id == f"docA#chunk-{index}"


@NO_INDEXES
def test_chunk_index_is_the_first_usable(value: object) -> None:
    """A `chunkIndex` that is none does not hide a `chunk_index` that is one, not even a 0."""
    assert block(hit_with(metadata={"chunkIndex": value, "chunk_index": 0})).chunk_index == 0
    assert block(hit_with(metadata={"chunkIndex": 0, "chunk_index": 2})).chunk_index == 0
    assert block(hit_with(metadata={"chunkIndex": value, "chunk_index": value})).chunk_index is None


@pytest.mark.parametrize(
    ("row_id", "key"),
    [
        pytest.param("row-7", "vector:row-7", id="string"),
        pytest.param(0, "vector:0", id="zero"),
        pytest.param(-7, "vector:-7", id="negative"),
        pytest.param(9_007_199_254_740_993, "vector:9007199254740993", id="not a double"),
        pytest.param(2**63 - 1, "vector:9223372036854775807", id="64 bits"),
    ],
)
def test_vector_id_is_kept_exactly(row_id: str | int, key: str) -> None:
    """64-bit ids survive, to the last digit."""
    assert block(hit(row_id=row_id)).document_id == key


@pytest.mark.parametrize(
    "row_id",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param(" \t", id="blank"),
        pytest.param(True, id="true"),
        pytest.param(7.0, id="float"),
        pytest.param(TOO_LONG, id="too long to write down"),
    ],
)
def test_vector_id_is_a_string_or_an_integer(row_id: object) -> None:
    """What is neither a string that is not blank nor an integer does not name a row."""
    assert block(hit_with(id=row_id)).document_id.startswith("content:")


def test_evidence_key_is_the_vector_id_where_only_the_document_is_known() -> None:
    """A known document without a chunk index is not a key, but it stays known."""
    found = block(hit("docA", row_id=7))
    assert found.document_id == "vector:7"
    assert found.doc_id == "docA"


def test_evidence_key_is_the_vector_id_where_only_the_chunk_index_is_known() -> None:
    """A chunk index without a document is not a key, but it stays known."""
    found = block(hit(None, 0, row_id=7))
    assert found.document_id == "vector:7"
    assert found.chunk_index == 0


def test_evidence_key_prefers_document_and_chunk_to_the_vector_id() -> None:
    """The row in which a chunk is stored does not matter where document and chunk are known."""
    assert block(hit("docA", 0, row_id=7)).document_id == "docA#chunk-0"


def test_evidence_key_of_last_resort_is_a_digest_of_source_and_content() -> None:
    """SHA-256 over source, NUL and content, 32 hexadecimal digits: the same on every host."""
    keys = {
        block(hit(content="Restart it.", source="a.md")).document_id,
        block(hit("docA", content="Restart it.", source="a.md")).document_id,
    }
    assert keys == {"content:069d7b8858767098a6aea13de30801eb"}
    assert block(hit(content="Restart it.")).document_id == "content:a44a3991026f40995a40ff40e9152237"


def test_evidence_key_of_last_resort_tells_sources_and_contents_apart() -> None:
    """It is equal only for equal text of one source."""
    found = [
        hit(content="Restart it."),
        hit(content="Restart it. "),
        hit(content="restart it."),
        hit(content="Restart it.", source="a.md"),
        hit("docA", content="Restart it."),
    ]
    assert len({block(one).document_id for one in found}) == len(found)


def test_evidence_key_of_last_resort_takes_text_that_is_not_utf8() -> None:
    """A lone surrogate does not keep a chunk from having a key."""
    assert block(hit(content=LONE_SURROGATE)).document_id.startswith("content:")


@given(
    docs=st.tuples(st.text(min_size=1), st.text(min_size=1)),
    chunks=st.tuples(st.integers(min_value=0), st.integers(min_value=0)),
)
def test_evidence_key_tells_documents_and_chunks_apart(
    docs: tuple[str, str], chunks: tuple[int, int]
) -> None:
    """Two keys are equal only where document and chunk are, whatever the ids look like."""
    one, other = (
        evidence_key(doc_id=doc, chunk_index=chunk, vector_id=None, source=None, content="")
        for doc, chunk in zip(docs, chunks, strict=True)
    )
    assert (one == other) == (docs[0] == docs[1] and chunks[0] == chunks[1])


@pytest.mark.parametrize("content", ["", " ", "\t\r\n", "\u00a0\u2003", None, 5, b"bytes"])
def test_identify_rejects_blank_content(content: object) -> None:
    """A hit without text is rejected, whatever its score, and can still be named."""
    found = hit_with(content=content, score=None, metadata={"docId": "docA", "chunkIndex": 0})
    assert identify(found, 1, 3) == Dropped(
        document_id="docA#chunk-0", reason="empty_content", query=1, rank=3
    )


@pytest.mark.parametrize(
    "score",
    [
        pytest.param(None, id="none"),
        pytest.param(math.nan, id="nan"),
        pytest.param(math.inf, id="infinity"),
        pytest.param(-math.inf, id="negative infinity"),
        pytest.param(True, id="true"),
        pytest.param(False, id="false"),
        pytest.param("0.5", id="string"),
        pytest.param(10**400, id="too large for a float"),
    ],
)
def test_identify_rejects_a_score_that_is_not_a_finite_number(score: object) -> None:
    """A hit that cannot be ranked is rejected."""
    found = hit_with(score=score, id=7)
    assert identify(found, 0, 1) == Dropped(document_id="vector:7", reason="invalid_score", query=0, rank=1)


@pytest.mark.parametrize("score", [0, 0.0, -0.0, -1.5, 1, 2**53, 5e-324])
def test_identify_takes_every_finite_score(score: float) -> None:
    """Zero and negative scores are scores; the candidate has it as a float."""
    reason = block(hit(score=score)).hit_reasons[0]
    assert reason.score == score
    assert type(reason.score) is float


def test_identify_keeps_the_content_as_it_is() -> None:
    """Content is not stripped, folded or normalised."""
    assert block(hit(content=" Ä \n")).content == " Ä \n"


def test_identify_keeps_query_and_rank() -> None:
    """The reason says which query found the hit and at which place."""
    reason = block(hit(score=0.25), query=2, rank=4).hit_reasons[0]
    assert (reason.query, reason.rank, reason.score) == (2, 4, 0.25)


@pytest.mark.parametrize("value", [None, "", " ", 5, True, ["a.md"]])
def test_source_is_the_document_where_there_is_none(value: object) -> None:
    """`source` is metadata `source`, else the document's id, else `None`."""
    assert block(hit("docA", source="a.md")).source == "a.md"
    assert block(hit("docA", source=value)).source == "docA"
    assert block(hit(source=value)).source is None


@pytest.mark.parametrize("field", ["title", "breadcrumb"])
def test_title_and_breadcrumb_are_text_or_absent(field: str) -> None:
    """What is not text, or blank, is absent."""
    assert getattr(block(hit_with(metadata={field: "Disk full"})), field) == "Disk full"
    for value in (None, "", " ", 5, True, ["Disk full"]):
        assert getattr(block(hit_with(metadata={field: value})), field) is None


@given(metadata=strategies.metadata_objects())
def test_metadata_may_be_an_object_or_its_text(metadata: dict[str, object]) -> None:
    """The same metadata as an object, as another mapping and as JSON text name the same chunk."""
    forms: list[Any] = [metadata, ChainMap(metadata), json.dumps(metadata)]
    found = [block(hit_with(id=7, metadata=form)) for form in forms]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("docA", id="not JSON"),
        pytest.param('{"docId": "docA"', id="cut off"),
        pytest.param("null", id="null"),
        pytest.param('["docId", "docA"]', id="array"),
        pytest.param('"docId"', id="string"),
        pytest.param("7", id="number"),
        pytest.param('{"docId":' * 100_000, id="deep"),
        pytest.param("[" * 100_000, id="deep array"),
        pytest.param('{"size": ' + "9" * (MAX_INTEGER_DIGITS + 1) + "}", id="unreadable integer"),
        pytest.param([("docId", "docA")], id="pairs"),
        pytest.param(b'{"docId": "docA"}', id="bytes"),
    ],
)
def test_metadata_that_is_no_object_is_empty(metadata: Any) -> None:
    """Text that is not the JSON of an object holds no metadata, and the hit is not lost."""
    assert metadata_object(metadata) == {}
    found = block(hit_with(id=7, metadata=metadata))
    assert (found.document_id, found.doc_id, found.source) == ("vector:7", None, None)


@given(found=strategies.hits(), query=st.integers(min_value=0, max_value=7), rank=st.integers(min_value=1))
def test_identify_identifies_or_rejects_any_hit(found: SearchHit, query: int, rank: int) -> None:
    """Any hit comes to a candidate with content and score, or to a rejection; each has a key."""
    identified = identify(found, query, rank)
    assert identified == identify(found, query, rank)
    if not isinstance(identified, Dropped):
        [shown] = process([PathHits(query=query, hits=(found,))], limits()).blocks
        assert identified[1:3] == (query, rank)
        assert shown.content.strip()
        assert math.isfinite(shown.score)
        assert identified[EVIDENCE_KEY] == shown.document_id
    else:
        assert (identified.query, identified.rank) == (query, rank)
        assert identified.reason in {"empty_content", "invalid_score"}
        assert identified.document_id.strip()


@given(found=strategies.sound_hits())
def test_identify_rejects_no_hit_with_content_and_score(found: SearchHit) -> None:
    """Nothing about ids or metadata can make a hit be rejected."""
    assert not isinstance(identify(found, 0, 1), Dropped)
