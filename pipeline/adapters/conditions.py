"""What a condition means, for adapters whose engine does not decide it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.model import Condition, Scalar


def satisfies(metadata: Mapping[str, object], conditions: Iterable[Condition]) -> bool:
    """Return whether every condition holds of a row's metadata; an absent field equals nothing."""
    return all(
        any(_equal(metadata.get(condition.field), value) for value in condition.any_of)
        for condition in conditions
    )


def _equal(found: object, wanted: Scalar) -> bool:
    """Compare as JSON does: `true` is not `1`, `"5"` is not `5`, `1` is `1.0`."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(wanted, str):
        return isinstance(found, str) and found == wanted
    return isinstance(found, int | float) and found == wanted
