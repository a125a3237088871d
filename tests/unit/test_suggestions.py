"""Suggestions for misspelt names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.settings.suggestions import nearest

FIELDS = ("query", "queries", "filter", "retrieve_k", "return_n", "tenant", "hints")
SETTINGS = ("RAG_TOP_K", "RAG_RETRIEVE_K", "KAFKA_BOOTSTRAP_SERVERS", "KAFKA_GROUP_ID", "MILVUS_URI")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("qeury", "query"),
        ("quer", "query"),
        ("filters", "filter"),
        ("retreive_k", "retrieve_k"),
        ("retrieveK", "retrieve_k"),
        ("RETURN-N", "return_n"),
        ("tenant_id", "tenant"),
    ],
)
def test_misspelt_field_is_recognised(written: str, meant: str) -> None:
    """Transposed, missing and added letters, and other ways to join words."""
    assert nearest(written, FIELDS) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [("RAG_TOPK", "RAG_TOP_K"), ("KAFKA_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS"), ("MILVUS_URL", "MILVUS_URI")],
)
def test_misspelt_setting_is_recognised(written: str, meant: str) -> None:
    """Upper case and words left out."""
    assert nearest(written, SETTINGS) == meant


@pytest.mark.parametrize("written", ["", "q", "session", "user", "trace_id", "x" * 100_000])
def test_name_that_is_far_from_all_is_left_alone(written: str) -> None:
    """A field of somebody's own is no misspelling."""
    assert nearest(written, FIELDS) is None


def test_nothing_known_is_near_nothing() -> None:
    """Without known names there is none to suggest."""
    assert nearest("query", ()) is None


@given(st.sampled_from(FIELDS))
def test_known_name_is_nearest_to_itself(name: str) -> None:
    """Of equal and like names the equal one is chosen."""
    assert nearest(name, FIELDS) == name


@given(st.text("abk_-", max_size=6), st.lists(st.text("abk_-", max_size=6), unique=True), st.data())
def test_order_of_known_names_makes_no_difference(
    written: str, known: list[str], data: st.DataObject
) -> None:
    """Equal arguments give equal suggestions."""
    assert nearest(written, known) == nearest(written, data.draw(st.permutations(known)))
