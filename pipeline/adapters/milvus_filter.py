"""Conditions as a Milvus filter expression, such that no value can change what the expression says.

Values stand in the expression as literals: the oldest servers supported know no filter templates. Only forms
that Milvus 2.3 and Milvus Lite 3.2 both take are used; where the two differ, the comments say how.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

from pipeline.errors import SearchRejected
from pipeline.model import Condition, Scalar

MetadataLayout: TypeAlias = Literal["field", "flat"]
"""`field`: the metadata is one JSON field of the row; `flat`: every other field of the row is metadata."""

# The engines escape no more than these alike. Everything else stands as it is: both refuse \u escapes of some
# characters, and take control characters, NUL among them, raw.
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})

_NAME = re.compile(r"[\w.-]+")

_HIGHEST_INTEGER = 2**63 - 1
_LOWEST_INTEGER = -(2**63)


def filter_expression(
    conditions: Sequence[Condition],
    *,
    layout: MetadataLayout,
    metadata_field: str,
    declared: Collection[str] = (),
) -> str:
    """Return an expression that holds where all conditions do.

    Args:
        conditions: What must hold of a row; none give the empty expression, which holds always. Values for
            declared fields are as those hold them (see `milvus_values`).
        layout: Where the metadata is.
        metadata_field: The JSON field, with layout `field`.
        declared: With layout `flat`, the fields that the collection's schema names; others are dynamic.

    Raises:
        SearchRejected: A field's name or a value cannot be written for the engine.
    """
    if not conditions:
        return ""
    return _joined([_membership(each, layout, metadata_field, declared) for each in conditions], "and")


def string_literal(value: str) -> str:
    """Return a string as a quoted literal.

    Raises:
        SearchRejected: The string holds half of a surrogate pair, which no UTF-8 text can.
    """
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise SearchRejected("a filter value is not valid Unicode") from error
    return f'"{value.translate(_ESCAPES)}"'


def _membership(
    condition: Condition, layout: MetadataLayout, metadata_field: str, declared: Collection[str]
) -> str:
    field = condition.field
    if not _NAME.fullmatch(field):
        raise SearchRejected(f"the filter field {field!r} may have letters, digits, '_', '-' and '.' only")
    if not condition.any_of:
        raise SearchRejected(f"the filter field {field!r} has no values")
    # A dynamic field written bare could be a keyword: `true == true` holds of every row.
    typed = layout == "flat" and field in declared
    access = field if typed else f'{metadata_field if layout == "field" else "$meta"}["{field}"]'
    literal = _literal if typed else _json_literal
    # Milvus Lite knows `in` for fields of the schema only, Milvus for values of one type only.
    return _joined([f"{access} == {literal(value)}" for value in condition.any_of], "or")


def _joined(terms: Sequence[str], operator: str) -> str:
    """Join terms as a balanced tree: a chain of 50 is nested more deeply than Milvus can read."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_joined(terms[:middle], operator)} {operator} {_joined(terms[middle:], operator)})"


def _json_literal(value: Scalar) -> str:
    # In JSON both engines compare integers exactly with integer literals only, so a whole float is written as
    # one where it has 64 bits.
    if isinstance(value, float) and value.is_integer() and abs(value) <= _HIGHEST_INTEGER:
        return _integer(int(value))
    return _literal(value)


def _literal(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return string_literal(value)
    if isinstance(value, int):
        return _integer(value)
    if not math.isfinite(value):
        raise SearchRejected("a filter value is not a finite number")
    return repr(value)


def _integer(value: int) -> str:
    if not _LOWEST_INTEGER <= value <= _HIGHEST_INTEGER:
        raise SearchRejected("a filter value is an integer of more than 64 bits")
    # Milvus reads the digits before it applies the sign, so the lowest integer is beyond it.
    return str(value) if value != _LOWEST_INTEGER else f"({value + 1} - 1)"
