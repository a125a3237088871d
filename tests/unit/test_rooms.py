"""The picture of the rooms is that of the code."""

from __future__ import annotations

from tests.pictures.rooms import PARTS, PICTURE, PURPOSES, draw, imports, streams_rows


def test_picture_is_that_of_the_code() -> None:
    """`python -m tests.pictures.rooms` draws it anew after a room or an import has come or gone."""
    assert PICTURE.read_text(encoding="utf-8") == draw()


def test_every_room_is_drawn_once() -> None:
    """The layers name every room that imports something, and each room has its purpose."""
    rooms = [room for row in streams_rows() for room in row]
    assert sorted([*rooms, *PARTS, "core"]) == sorted(PURPOSES)
    assert imports().keys() - PURPOSES.keys() - {""} == set()


def test_imports_are_seen() -> None:
    """A room's imports are those of all its modules, and `pipeline` is one thing to the stage."""
    found = imports()
    assert {"kafka", "wire", "pipeline"} <= found["stage"]
    assert "core" in found["adapters"]
    assert not found.get("core")
