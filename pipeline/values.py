"""Dataclasses of which every lookup makes dozens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

__all__ = ["statically_frozen"]

if TYPE_CHECKING:
    from dataclasses import dataclass as statically_frozen
else:
    from dataclasses import dataclass

    def statically_frozen(*, frozen, **options):  # noqa: ANN001, ANN003, ANN201 - types: above
        """Make a dataclass that the type checker holds frozen, and the interpreter only in `python -X dev`.

        The interpreter's own check costs 0.3 µs a value, two thirds of making one.
        """
        if sys.flags.dev_mode:
            return dataclass(frozen=frozen, **options)
        return dataclass(unsafe_hash=frozen, **options)
