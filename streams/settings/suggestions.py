"""Suggestions for misspelt names: which known name was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

SIMILARITY = 0.75
"""Least share of characters, from 0 to 1, that a name and a known one must have in common, in order."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like another, or `None` if none is like it.

    Case, `-` and `_` make no difference, so `topK` is like `top_k`. Equal arguments give an equal answer,
    whatever the order of the known names.

    Args:
        name: What was written.
        known: What could have been meant.
    """
    spellings = {_plain(each): each for each in sorted(known, reverse=True)}
    found = get_close_matches(_plain(name), spellings, n=1, cutoff=SIMILARITY)
    return spellings[found[0]] if found else None


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")
