"""Values of a filter, as the fields of a schema hold them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.milvus_client import DataType
from pipeline.adapters.milvus_values import as_held
from pipeline.errors import SearchRejected
from pipeline.model import Scalar
from pipeline.testing.search_port import field_is

FIELD = "some"
KEEPS = {DataType.BOOL: "boolean", DataType.VARCHAR: "string"}
NUMBERS = (
    DataType.INT8,
    DataType.INT16,
    DataType.INT32,
    DataType.INT64,
    DataType.FLOAT,
    DataType.DOUBLE,
)


def held(kind: DataType, *values: Scalar) -> Sequence[Scalar]:
    """Return the values as a field of the type holds them."""
    [condition] = as_held([field_is(FIELD, *values)], {FIELD: kind, "other": DataType.BOOL})
    assert condition.field == FIELD
    return condition.any_of


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (DataType.INT8, [1.0, -128, 127, 128, -129, 1.5], [1, -128, 127]),
        (DataType.INT16, [32_767, 32_768, -32_768.0, -32_769.0], [32_767, -32_768]),
        (DataType.INT32, [2**31 - 1, 2**31, -(2**31), 1e300], [2**31 - 1, -(2**31)]),
        (DataType.INT64, [2**53 + 1, -(2**63), 2**63, 2.0**63, 10**400], [2**53 + 1, -(2**63)]),
        (DataType.INT64, [float("inf"), float("nan"), 0.5], []),
        (DataType.FLOAT, [0.1, 16_777_217, 5e-324], [0.10000000149011612, 16_777_216.0, 0.0]),
        (DataType.FLOAT, [3.4028234663852886e38, 3.5e38, -1e300, 10**400], [3.4028234663852886e38]),
        (DataType.DOUBLE, [0.1, 2**53 + 1, 10**30, 10**400], [0.1, 2.0**53, 1e30]),
        (DataType.BOOL, [True, False], [True, False]),
        (DataType.VARCHAR, ["", " a ", "1"], ["", " a ", "1"]),
    ],
)
def test_number_is_as_the_field_holds_it(
    kind: DataType, values: list[Scalar], expected: list[Scalar]
) -> None:
    """Rounded for floats, whole for integers, and left out where the type has no such number."""
    found = held(kind, *values)
    assert [(type(value), value) for value in found] == [(type(value), value) for value in expected]


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_number_for_a_float_field_is_the_nearest(value: float) -> None:
    """As a processor rounds it; what is beyond the largest is no number of the type."""
    nearest = ctypes.c_float(value).value
    assert held(DataType.FLOAT, value) == ((nearest,) if math.isfinite(nearest) else ())


@pytest.mark.parametrize("value", [True, "text", 1, 1.5])
@pytest.mark.parametrize("kind", [*NUMBERS, *KEEPS])
def test_value_of_another_type_is_refused(kind: DataType, value: Scalar) -> None:
    """The message names the field, its type, and both kinds of values, in the same words each time."""
    takes = KEEPS.get(kind, "number")
    given = {bool: "boolean", str: "string"}.get(type(value), "number")
    if takes == given:
        held(kind, value)
        return
    examples: dict[str, Scalar] = {"boolean": True, "string": "x", "number": 1}
    with pytest.raises(SearchRejected) as caught:
        held(kind, examples[takes], value)
    assert str(caught.value) == (
        f"the filter field 'some' has type {kind.name}, which can equal a {takes}, not a {given}"
    )


@pytest.mark.parametrize(
    "kind", [kind for kind in DataType if kind not in (*NUMBERS, *KEEPS)], ids=lambda kind: kind.name
)
def test_type_without_single_values_is_refused(kind: DataType) -> None:
    """Lists, objects, vectors, and whatever type there may be that nobody has looked at."""
    with pytest.raises(SearchRejected) as caught:
        held(kind, "x")
    assert str(caught.value) == (
        f"the filter field 'some' has type {kind.name}, which cannot be compared with a value"
    )


def test_field_outside_the_schema_keeps_its_values() -> None:
    """JSON compares by the type of what is there."""
    condition = field_is("dynamic", 1.0, "x", True, 0.1)
    assert as_held([condition], {FIELD: DataType.INT8}) == (condition,)
