"""What a condition means, for adapters whose engine does not decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from pipeline.model import Condition

Predicate: TypeAlias = Callable[[Mapping[str, object]], bool]
"""Whether something holds of a row's metadata."""


def predicate(conditions: Iterable[Condition]) -> Predicate:
    """Return a check of whether every condition holds of a row's metadata.

    Values are compared as JSON compares them: `true` is not `1`, `"5"` is not `5`, `1` is `1.0`, and numbers
    are exact. A field that is absent, null, a list, an object or not a number equals nothing.

    Args:
        conditions: Read once; a check of a row costs the same for one value as for a thousand.
    """
    wanted = [(each.field, frozenset(map(_key, each.any_of)) - {None}) for each in conditions]
    return lambda metadata: all(_key(metadata.get(field)) in keys for field, keys in wanted)


def _key(value: object) -> object:
    """Return what is the same for equal values only, or `None` for a value that equals nothing."""
    if isinstance(value, bool):
        return (value,)  # by itself it would be the number
    if isinstance(value, str | int):
        return value
    return value if isinstance(value, float) and value == value else None  # noqa: PLR0124 - NaN is not
