"""What the agent takes out of Faust's buffer by itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from streams.worker.agents import MOST_EVENTS_A_TURN, events_at_hand


@dataclass(frozen=True)
class Message:
    """A message of a generation of the consumer group."""

    generation_id: int = 1


@dataclass(frozen=True)
class Event:
    """An event in the buffer."""

    name: int
    message: Message = Message()


class App:
    """What is asked of Faust's app: whether messages flow, and in which generation."""

    consumer_generation_id = 1

    def __init__(self, *, flows: bool = True) -> None:
        self.flows = flows

    @property
    def flow_control(self) -> App:
        """Itself."""
        return self

    def is_active(self) -> bool:
        """Whether messages flow."""
        return self.flows


def at_hand(events: list[Event], app: App | None = None) -> list[int]:
    """Return the names of the events that are taken out of a buffer with these."""
    queue: asyncio.Queue[Event] = asyncio.Queue()
    for event in events:
        queue.put_nowait(event)
    flowing: Any = app or App()
    found: list[Any] = list(events_at_hand(flowing, queue))
    return [event.name for event in found]


def test_events_at_hand_come_in_their_order() -> None:
    """All that is buffered is taken, and an empty buffer ends it."""
    assert at_hand([Event(1), Event(2), Event(3)]) == [1, 2, 3]
    assert at_hand([]) == []


def test_events_at_hand_leave_the_event_loop_a_turn() -> None:
    """A full buffer does not keep everything else waiting."""
    assert len(at_hand([Event(number) for number in range(1_000)])) == MOST_EVENTS_A_TURN


def test_events_of_another_generation_are_left_to_the_next_owner() -> None:
    """What was read before a rebalance, or comes while Faust lets nothing flow, is not worked on."""
    assert at_hand([Event(1, Message(generation_id=0)), Event(2)]) == [2]
    assert at_hand([Event(1)], App(flows=False)) == []
