"""How values are made of which every lookup makes dozens."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["value"]

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    from dataclasses import dataclass

    def value(*, frozen, **options):  # noqa: ANN001, ANN003, ANN201 - the type checker reads the other branch
        """Makes a dataclass that the type checker holds frozen, and the interpreter does not.

        The interpreter's own check costs two thirds of making a value.
        """
        return dataclass(unsafe_hash=frozen, **options)
