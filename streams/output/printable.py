"""Text of strangers on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape what would act on the terminal, or begin a line, instead of being seen."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
