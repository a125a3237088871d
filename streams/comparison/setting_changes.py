"""What was set otherwise on the two sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from pipeline.model import Budget, Limits
from streams.comparison.sides import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A limit, a budget or an index that differs.

    Attributes:
        name: Its name in the recording, such as `return_n` or `index`.
        base: Its value in the base.
        candidate: Its value in the candidate.
        requests: In how many requests.
    """

    name: str
    base: str
    candidate: str
    requests: int


def setting_changes(base: Side, candidate: Side) -> Iterator[tuple[str, str, str]]:
    """Yield name and values of each setting that both sides know and have otherwise."""
    yield from _changed(base.limits, candidate.limits)
    yield from _changed(base.budget, candidate.budget)
    if base.index is not None and candidate.index is not None and base.index != candidate.index:
        yield "index", base.index, candidate.index


def _changed(
    base: Limits | Budget | None, candidate: Limits | Budget | None
) -> Iterator[tuple[str, str, str]]:
    if base is None or candidate is None or base == candidate:
        return
    for field in fields(base):
        values = getattr(base, field.name), getattr(candidate, field.name)
        if values[0] != values[1]:
            yield field.name, str(values[0]), str(values[1])
