"""What conditions mean where no engine decides it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.conditions import predicate
from pipeline.model import Scalar
from pipeline.testing.search_port import field_is

SPECIAL: list[Scalar] = [0, 1, -0.0, 1.0, True, False, "", "0", "1", "true", 2**53 + 1, 2.0**53]
SCALARS: st.SearchStrategy[Scalar] = st.one_of(
    st.sampled_from(SPECIAL), st.integers(), st.floats(allow_nan=False), st.text()
)


def as_json_compares(left: Scalar, right: Scalar) -> bool:
    """Compare the types, then the values."""
    kinds = ["number" if type(each) in (int, float) else type(each).__name__ for each in (left, right)]
    return kinds[0] == kinds[1] and left == right


@given(found=SCALARS, wanted=st.lists(SCALARS, min_size=1))
def test_condition_holds_where_a_value_is_equal_with_its_type(found: Scalar, wanted: list[Scalar]) -> None:
    """One value of several is enough, whatever the others are."""
    holds = predicate([field_is("field", *wanted)])
    assert holds({"field": found}) == any(as_json_compares(found, value) for value in wanted)


@pytest.mark.parametrize("found", [None, [], [1], {}, {"field": 1}, (1,), (True,), float("nan")])
def test_what_is_no_value_equals_nothing(found: object) -> None:
    """Null, lists, objects and what is not a number are not compared."""
    nan = float("nan")
    holds = predicate([field_is("field", 1, True, "", nan)])
    assert not holds({"field": found})
    assert not holds({"field": nan})
    assert not holds({})


def test_all_conditions_must_hold() -> None:
    """Each narrows the others; none hold of everything, and one without values of nothing."""
    row = {"a": 1, "b": "x"}
    assert predicate([field_is("a", 1, 2), field_is("b", "x")])(row)
    assert not predicate([field_is("a", 1, 2), field_is("b", "y")])(row)
    assert predicate([])(row)
    assert not predicate([field_is("a")])(row)
