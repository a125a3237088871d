"""Python looks for garbage among what requests make, and seldom."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from streams.worker.garbage_collection import NEW_OBJECTS, search_seldom


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_what_is_there_is_not_searched_again() -> None:
    """Libraries stay for as long as the worker does."""
    gc.unfreeze()
    search_seldom()
    assert gc.get_freeze_count() > 0
    assert len(gc.get_objects()) < gc.get_freeze_count()
    assert gc.get_threshold()[0] == NEW_OBJECTS
    assert gc.isenabled()


def test_garbage_of_later_is_still_found() -> None:
    """A cycle that a failed request leaves behind goes."""
    search_seldom()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() >= 1
