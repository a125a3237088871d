"""Which evidence of the base is which evidence of the candidate. Pure functions.

`vector:` and `content:` keys are unstable: indexing the same documents again gives the same text another row
id, and moving a file another source. Where one of them is on either side, equal text is the same evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streams.comparison.sides import Item

UNSTABLE_PREFIXES = ("vector:", "content:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One piece of evidence that both sides have."""

    base: Item
    candidate: Item

    @property
    def renamed(self) -> bool:
        """Whether the same text has another, unstable key."""
        return self.base.key != self.candidate.key

    @property
    def rewritten(self) -> bool:
        """Whether the same key has another text."""
        return self.base.text != self.candidate.text

    @property
    def resized(self) -> bool:
        """Whether the same text was shortened otherwise."""
        return not self.rewritten and self.base.content != self.candidate.content


def is_unstable(key: str) -> bool:
    """Return whether a key may change though the evidence does not."""
    return key.startswith(UNSTABLE_PREFIXES)


def align(base: Sequence[Item], candidate: Sequence[Item]) -> tuple[Pair, ...]:
    """Pair the evidence of both sides, each piece at most once.

    Stable keys pair by key alone. An unstable key pairs with its own if the text is the same, else with any
    key that has the same text, else with its own.

    Args:
        base: In rank order.
        candidate: In rank order.

    Returns:
        The pairs, in the base's order.
    """
    if [(item.key, item.text) for item in base] == [(item.key, item.text) for item in candidate]:
        return tuple([Pair(base=own, candidate=other) for own, other in zip(base, candidate, strict=True)])
    pairs: list[Pair] = []
    for same in (_same_name, _same_text, _same_key):
        pairs += _matched(same, _left([pair.base for pair in pairs], base), candidate, pairs)
    return tuple(sorted(pairs, key=lambda pair: pair.base.rank))


def _matched(
    same: Callable[[Item, Item], bool], base: Sequence[Item], candidate: Sequence[Item], pairs: Sequence[Pair]
) -> list[Pair]:
    left = _left([pair.candidate for pair in pairs], candidate)
    found: list[Pair] = []
    for item in base:
        match = next((other for other in left if same(item, other)), None)
        if match is not None:
            left.remove(match)
            found.append(Pair(base=item, candidate=match))
    return found


def _left(taken: Sequence[Item], items: Sequence[Item]) -> list[Item]:
    ranks = {item.rank for item in taken}
    return [item for item in items if item.rank not in ranks]


def _same_name(base: Item, candidate: Item) -> bool:
    return base.key == candidate.key and (not is_unstable(base.key) or base.text == candidate.text)


def _same_text(base: Item, candidate: Item) -> bool:
    return base.text == candidate.text and (is_unstable(base.key) or is_unstable(candidate.key))


def _same_key(base: Item, candidate: Item) -> bool:
    return base.key == candidate.key
