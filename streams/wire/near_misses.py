"""Unknown fields of a request that are nearly known ones, and so were probably meant to be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

from streams.settings.suggestions import nearest
from streams.wire.requests import LookupRequest, RequestedBudget

MAX_NAME_CHARS = 64
MAX_UNKNOWN_FIELDS = 100
"""More unknown fields, or longer names, are no misspellings, and comparing them would take long."""

_EITHER = ({"query", "queries"}, {"vector", "vectors"})
"""Fields of which a request has one at most."""


def near_misses(request: Mapping[str, Any]) -> dict[str, str]:
    """Return what was probably meant by the unknown fields of a request, by their names.

    A field of the request that is set is not meant by another. Names inside `budget` have `budget.` before
    them; other objects inside a request have no known names.
    """
    budget = request.get("budget")
    found = _misspelt(request, LookupRequest.model_fields)
    if isinstance(budget, Mapping):
        inside = _misspelt(budget, RequestedBudget.model_fields)
        found |= {f"budget.{name}": f"budget.{meant}" for name, meant in inside.items()}
    return found


def suggestion(request: Mapping[str, Any], *wanted: str) -> str:
    """Return a hint to unknown fields by which one of the wanted was probably meant, or an empty text."""
    hints = [
        f"{name}: did you mean {meant}?" for name, meant in near_misses(request).items() if meant in wanted
    ]
    return f" (unknown field {', '.join(hints)})" if hints else ""


def _misspelt(fields: Mapping[str, Any], known: Collection[str]) -> dict[str, str]:
    unknown = (name for name in fields if name not in known and _can_be_misspelt(name))
    absent = set(known) - {name for name in known if fields.get(name) is not None}
    for either in _EITHER:
        if not either <= absent:
            absent -= either
    meant = {name: nearest(name, absent) for name in islice(unknown, MAX_UNKNOWN_FIELDS)}
    return {name: known_name for name, known_name in meant.items() if known_name is not None}


def _can_be_misspelt(name: str) -> bool:
    # Other characters are no slip of the fingers, and have no place in a message of one line.
    return len(name) <= MAX_NAME_CHARS and name.isascii() and name.isprintable()
