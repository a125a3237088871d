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

# Milvus reads the digits before it applies the sign, so the lowest 64-bit integer is beyond it.
_HIGHEST_INTEGER = 2**63 - 1


def filter_expression(
    conditions: Sequence[Condition],
    *,
    layout: MetadataLayout,
    metadata_field: str,
    declared: Collection[str] = (),
) -> str:
    """Write conditions as an expression that holds where all of them do.

    Args:
        conditions: What must hold of a row's metadata; none give the empty expression, which holds always.
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
    """Write a string as a quoted literal.

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
    access = _access(field, layout, metadata_field, declared)
    # Milvus Lite knows `in` for fields of the schema only, Milvus for values of one type only.
    return _joined([f"{access} == {_literal(value)}" for value in condition.any_of], "or")


def _access(field: str, layout: MetadataLayout, metadata_field: str, declared: Collection[str]) -> str:
    if layout == "field":
        return f'{metadata_field}["{field}"]'
    # A dynamic field written bare could be a keyword: `true == true` holds of every row.
    return field if field in declared else f'$meta["{field}"]'


def _joined(terms: Sequence[str], operator: str) -> str:
    """Join terms as a balanced tree: a chain of 50 is nested more deeply than Milvus can read."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_joined(terms[:middle], operator)} {operator} {_joined(terms[middle:], operator)})"


def _literal(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return string_literal(value) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    if isinstance(value, float) and not value.is_integer():
        if not math.isfinite(value):
            raise SearchRejected("a filter value is not a finite number")
        return repr(value)
    if abs(value) <= _HIGHEST_INTEGER:
        # Also for whole floats: Milvus compares integers exactly with integer literals only, and 64-bit
        # fields of the schema take no others.
        return str(int(value))
    if isinstance(value, int):
        raise SearchRejected("a filter value is an integer of more than 64 bits")
    return repr(value)
