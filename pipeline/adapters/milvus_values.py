"""Values of a filter, as the fields of a schema hold them.

Milvus and Milvus Lite compare a field of the schema by its type, but treat values of other types differently:
Milvus rounds a number to 32 bits for a FLOAT field, Milvus Lite does not, so that 0.1 finds nothing. Values
are converted before the expression is written, and the converted values check the hits as well.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.adapters.milvus_client import DataType
from pipeline.errors import SearchRejected
from pipeline.model import Condition, Scalar

_INTEGER_BITS = {DataType.INT8: 8, DataType.INT16: 16, DataType.INT32: 32, DataType.INT64: 64}

_EQUALS: Mapping[DataType, str] = {
    DataType.BOOL: "boolean",
    DataType.VARCHAR: "string",
    DataType.FLOAT: "number",
    DataType.DOUBLE: "number",
    **dict.fromkeys(_INTEGER_BITS, "number"),
}


def as_held(conditions: Sequence[Condition], types: Mapping[str, DataType]) -> tuple[Condition, ...]:
    """Return the conditions with each value as its field holds it.

    On FLOAT and DOUBLE fields a number is rounded to the nearest value of the type: `0.1` equals the 32-bit
    `0.1`. On integer fields a whole number is an integer. A number that no value of the type equals, such as
    1.5 or 300 on an INT8 field, is left out. A condition that is left without values is satisfied by no row.

    Args:
        conditions: Those on fields that `types` does not name stay as they are.
        types: Types of the schema's fields.

    Raises:
        SearchRejected: A field has a type that is not compared with a value, or a value is of another type
            than its field.
    """
    return tuple(
        replace(each, any_of=_held_values(each, types[each.field])) if each.field in types else each
        for each in conditions
    )


def _held_values(condition: Condition, kind: DataType) -> tuple[Scalar, ...]:
    equals = _EQUALS.get(kind)
    described = f"the filter field {condition.field!r} has type {kind.name}"
    if equals is None:
        raise SearchRejected(f"{described}, which cannot be compared with a value")
    held = []
    for value in condition.any_of:
        if (found := _type_name(value)) != equals:
            raise SearchRejected(f"{described}, which can equal a {equals}, not a {found}")
        held.append(value if isinstance(value, str | bool) else _held_number(value, kind))
    return tuple(value for value in held if value is not None)


def _type_name(value: Scalar) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _held_number(value: float, kind: DataType) -> float | None:
    """Return a number as a field of the type holds it, or `None` where no value of the type equals it."""
    if kind in _INTEGER_BITS:
        highest = 2 ** (_INTEGER_BITS[kind] - 1) - 1
        fits = (isinstance(value, int) or value.is_integer()) and -highest - 1 <= value <= highest
        return int(value) if fits else None
    try:
        number = float(value)
        if kind == DataType.FLOAT:
            [number] = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        return None
    return number
