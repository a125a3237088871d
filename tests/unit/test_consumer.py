"""How much the consumer holds in memory."""

from __future__ import annotations

from streams.worker.consumer import HeldBytes


class Message:
    """Something that can go away."""


def test_held_bytes_are_full_until_half_is_free_again() -> None:
    """What is held counts until nobody refers to it; there is room again when half is free."""
    rooms: list[int] = []
    held = HeldBytes(100, lambda: rooms.append(held.total))
    first, second, third = Message(), Message(), Message()
    assert not held.hold(first, 60)
    assert held.hold(second, 50)
    assert held.hold(third, 1)
    del first
    assert (held.total, rooms) == (51, [])
    del third
    assert rooms == [50]
    assert not held.hold(Message(), 50)


def test_held_bytes_of_what_is_gone_do_not_count() -> None:
    """A message that nobody kept leaves nothing behind."""
    held = HeldBytes(10, lambda: None)
    held.hold(Message(), 8)
    assert held.total == 0
