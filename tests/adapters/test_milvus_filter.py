"""Conditions as filter expressions: what they look like, what is refused, and that values stay values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymilvus import DataType, MilvusClient

from pipeline.adapters.conditions import predicate
from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.adapters.milvus_filter import MetadataLayout, filter_expression, string_literal
from pipeline.errors import SearchRejected
from pipeline.model import Condition, Scalar
from pipeline.testing.search_port import NASTY, field_is
from tests.adapters.milvus import connected, unique_name

# Whatever a filter language could trip over, more often than chance would have it.
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.text(alphabet="\"'\\()[]{}=!<>&|$%_,.-+ \n\r\t\0or1ntrue", max_size=30),
    st.text(max_size=30),
)
NUMBERS = st.one_of(
    st.integers(min_value=1 - 2**53, max_value=2**53 - 1), st.floats(allow_nan=False, allow_infinity=False)
)


def written(*conditions: Condition, layout: MetadataLayout = "field", declared: Sequence[str] = ()) -> str:
    """Return the expression, with `meta` as the JSON field."""
    return filter_expression(conditions, layout=layout, metadata_field="meta", declared=declared)


def test_no_conditions_are_no_expression() -> None:
    """Without conditions nothing is filtered."""
    assert written() == ""


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\n\r\t", r'"\n\r\t"'),
        ("é \x00\x7f", '"é \x00\x7f"'),
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (1.0, "1"),
        (-0.0, "0"),
        (-2.5, "-2.5"),
        (1e300, "1e+300"),
        (2**63 - 1, "9223372036854775807"),
        (1 - 2**63, "-9223372036854775807"),
        (-(2**63), "(-9223372036854775807 - 1)"),
        (-(2.0**63), "-9.223372036854776e+18"),
        (2.0**63, "9.223372036854776e+18"),
    ],
)
def test_literal_is_exact(value: Scalar, literal: str) -> None:
    """Each type has its own form, and no digit is lost."""
    assert written(field_is("field", value)) == f'meta["field"] == {literal}'


def test_values_are_alternatives_and_conditions_are_not() -> None:
    """Values are joined with `or`, conditions with `and`, and parentheses keep them apart."""
    expression = written(field_is("a", 1, 2), field_is("b", "x"))
    assert expression == '((meta["a"] == 1 or meta["a"] == 2) and meta["b"] == "x")'


def test_long_lists_are_not_nested_deeply() -> None:
    """Milvus reads some 50 levels: a thousand values must not be as many."""
    expression = written(*[field_is("a", *range(1_000))] * 30)
    deepest = depth = 0
    for character in expression:
        depth += {"(": 1, ")": -1}.get(character, 0)
        deepest = max(deepest, depth)
    assert depth == 0
    assert deepest <= 16


def test_flat_layout_names_declared_fields_and_looks_others_up() -> None:
    """A dynamic field is never written bare: it could be a keyword, such as `true`."""
    expression = written(field_is("true", 1), field_is("docId", "x"), layout="flat", declared=["docId"])
    assert expression == '($meta["true"] == 1 and docId == "x")'


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (1.0, "1.0"),
        (2.0**53, "9007199254740992.0"),
        (2.0**63, "9.223372036854776e+18"),
        (1, "1"),
        (-(2**63), "(-9223372036854775807 - 1)"),
        ("1", '"1"'),
        (True, "true"),
    ],
)
def test_literal_for_a_declared_field_has_the_fields_type(value: Scalar, literal: str) -> None:
    """Milvus Lite refuses large integers for fields of floats, Milvus refuses floats for integer fields."""
    assert written(field_is("field", value), layout="flat", declared=["field"]) == f"field == {literal}"


def test_declared_names_mean_nothing_where_the_metadata_is_one_field() -> None:
    """A field of the schema beside the JSON field may have a name that the JSON has too."""
    assert written(field_is("owner", 1.0), declared=["owner"]) == 'meta["owner"] == 1'


@pytest.mark.parametrize("name", ["docId", "a-b.c_d", "ключ", "日本", "9"])
def test_name_of_letters_digits_and_some_signs_is_taken(name: str) -> None:
    """Letters of any script are letters."""
    assert written(field_is(name, 1)) == f'meta["{name}"] == 1'


@pytest.mark.parametrize(
    "name", ["", " ", "a b", 'a"]', "a\\", "a/b", "a\n", "$meta", "a[0]", "\ud800", "a~"]
)
def test_other_name_is_rejected(name: str) -> None:
    """The message names the field."""
    with pytest.raises(SearchRejected, match=re.escape(repr(name))):
        written(field_is(name, 1))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "not a finite number"),
        (float("inf"), "not a finite number"),
        (2**63, "more than 64 bits"),
        (-(2**63) - 1, "more than 64 bits"),
        pytest.param(10**5_000, "more than 64 bits", id="more digits than Python prints"),
        ("half \ud800", "not valid Unicode"),
    ],
)
def test_value_that_the_engines_cannot_take_is_rejected(value: Scalar, message: str) -> None:
    """What cannot be written exactly is not written at all."""
    with pytest.raises(SearchRejected, match=message):
        written(field_is("field", value))


def test_condition_without_values_is_rejected() -> None:
    """A condition that nothing can meet must not turn into none."""
    with pytest.raises(SearchRejected, match="'field' has no values"):
        written(field_is("field"))


@given(TEXTS)
def test_string_ends_where_its_quotes_end(value: str) -> None:
    """However nasty a value, its literal is one quoted string: no quote in it is bare, no escape unknown."""
    assert re.fullmatch(r'"(?:[^"\\\n\r\t]|\\["\\nrt])*"', string_literal(value))


class Probe:
    """A collection whose rows each hold one value."""

    def __init__(self, collection: MilvusCollection, client: Any) -> None:
        """Initialize with an empty collection."""
        self._name = collection.collection
        self._client = client

    def fill(self, values: Sequence[Scalar]) -> None:
        """Replace the rows: one a value, with its place as the id."""
        self._client.delete(self._name, filter="id >= 0")
        rows = [{"id": index, "vector": [1.0, 0.0], "meta": {"v": each}} for index, each in enumerate(values)]
        self._client.upsert(self._name, rows)

    def matching(self, expression: str) -> list[int]:
        """Return the places of the values that an expression holds of."""
        rows = self._client.query(
            self._name, filter=expression, output_fields=["id"], consistency_level="Strong"
        )
        return sorted(row["id"] for row in rows)


def probing(uri: str) -> Iterator[Probe]:
    """Yield a probe in whatever Milvus."""
    collection = MilvusCollection(uri=uri, collection=unique_name())
    schema = MilvusClient.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)
    schema.add_field("meta", DataType.JSON)
    index = MilvusClient.prepare_index_params()
    index.add_index("vector", index_type="FLAT", metric_type="L2")
    with connected(collection) as client:
        client.create_collection(collection.collection, schema=schema, index_params=index)
        yield Probe(collection, client)
        client.drop_collection(collection.collection)


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probe]:
    """Yield a probe in Milvus Lite."""
    directory: Path = tmp_path_factory.mktemp("lite")
    yield from probing(str(directory / "probe.db"))


@pytest.fixture(scope="module")
def standalone(milvus_uri: str) -> Iterator[Probe]:
    """Yield a probe in a Milvus server."""
    yield from probing(milvus_uri)


def check_that_values_stay_values(probe: Probe, stored: list[Scalar], wanted: list[Scalar]) -> None:
    """Return the engine finds just the rows whose value is one of those wanted."""
    probe.fill(stored)
    for group in (wanted[:1], wanted):
        condition = field_is("v", *group)
        expected = [index for index, value in enumerate(stored) if predicate([condition])({"v": value})]
        assert probe.matching(written(condition)) == expected
        assert probe.matching(written(condition, field_is("none", 1))) == []


@given(stored=st.lists(TEXTS | NUMBERS, min_size=1, max_size=8), data=st.data())
def test_no_value_changes_the_filter_in_milvus_lite(
    lite: Probe, stored: list[Scalar], data: st.DataObject
) -> None:
    """Whatever the values, a condition is equality with them and nothing else."""
    wanted = data.draw(st.lists(st.sampled_from(stored) | TEXTS | NUMBERS, min_size=1, max_size=8))
    check_that_values_stay_values(lite, stored, wanted)


@pytest.mark.milvus
@settings(max_examples=15)  # each takes a second: the server's clock ticks slowly
@given(stored=st.lists(TEXTS | NUMBERS, min_size=1, max_size=20), data=st.data())
def test_no_value_changes_the_filter_in_a_milvus_server(
    standalone: Probe, stored: list[Scalar], data: st.DataObject
) -> None:
    """The same in the server."""
    wanted = data.draw(st.lists(st.sampled_from(stored) | TEXTS | NUMBERS, min_size=1, max_size=20))
    check_that_values_stay_values(standalone, stored, wanted)
