"""Python's search for cyclic garbage, of which a request makes none."""

from __future__ import annotations

import gc

NEW_OBJECTS = 20_000
"""Objects made and not yet gone after which to search among the new: Python's 700 are a few requests."""


def search_seldom() -> None:
    """Leave everything there is out of further searches, and search when there is more to find.

    Libraries and connections stay for as long as the worker does. To go through them again and again took a
    quarter of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
