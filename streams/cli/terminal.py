"""What people see: text that any terminal takes, and consoles that know whether they are one."""

from __future__ import annotations

import codecs
import os
import sys
from io import TextIOWrapper

from rich.console import Console

ENCODING_ERRORS = "lookup-stage"
"""Name of the error handler that `take_any_text` gives to the standard streams."""

_PLAIN = {"→": "->", "•": "*", "…": "...", "\u2013": "-", "\u2014": "-"}
_UNWRAPPED_COLUMNS = 100_000
"""More than any line has: what reads a pipe wants lines as they are."""


def take_any_text() -> None:
    """Let standard output and standard error print what their encoding lacks, in characters that it has."""
    codecs.register_error(ENCODING_ERRORS, _in_plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=ENCODING_ERRORS)


def is_terminal(*, error: bool = False) -> bool:
    """Return whether standard output, or standard error, is a terminal, whatever the environment wishes."""
    stream = sys.stderr if error else sys.stdout
    return stream is not None and stream.isatty()


def console() -> Console:
    """Return a console on standard output, which wraps lines on a terminal or to `COLUMNS` only."""
    wraps = is_terminal() or os.environ.get("COLUMNS")
    return Console() if wraps else Console(width=_UNWRAPPED_COLUMNS)


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join(map(_plain, characters)), error.end


def _plain(character: str) -> str:
    return _PLAIN.get(character) or character.encode("ascii", "backslashreplace").decode()
