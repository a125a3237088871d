"""When a worker lives, when it is ready, and what it is not blamed for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import structlog

from pipeline.circuit import CircuitState
from streams.observability.health import longest_stall, why_not_live, why_not_ready
from streams.observability.monitor import Monitor
from streams.observability.positions import NOT_STARTED, Membership, Position
from streams.observability.state import WorkerState
from streams.settings import loading
from streams.stage.stage import LookupStage

P, Q = ("lookup.requests", 0), ("lookup.requests", 1)
LONGEST = 70.0
READY = WorkerState(seen_at=100, joined=True, circuits={"search": "closed", "embedder": "closed"})


class FakeStage:
    """What a monitor sees of a stage.

    Attributes:
        in_work: Requests in work, by partition.
        draining: As a stage's.
        held_up: As a stage's.
        circuits: By engine.
    """

    def __init__(self) -> None:
        self.in_work: dict[tuple[str, int], int] = {}
        self.draining = False
        self.held_up = False
        self.circuits: dict[str, CircuitState] = {"search": "closed"}

    @property
    def in_flight(self) -> int:
        """As a stage's."""
        return sum(self.in_work.values())

    def unacknowledged(self) -> dict[tuple[str, int], int]:
        """As a stage's."""
        return self.in_work

    def circuit_states(self) -> dict[str, CircuitState]:
        """As a stage's."""
        return self.circuits


class Watched:
    """A monitor with a clock of its own.

    Attributes:
        stage: What it sees of the stage.
        membership: What it sees of the group.
        monitor: What is tested.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self.stage = FakeStage()
        self.membership = Membership(joined=True, connected=True, positions={P: at(0, 0, 0), Q: at(0, 0, 0)})
        self.monitor = Monitor(now=lambda: self._now)
        self.monitor.watch(cast("LookupStage", self.stage), lambda: self.membership)

    def move(self, partition: tuple[str, int], position: Position) -> None:
        """Let the consumer be elsewhere."""
        self.membership = replace(
            self.membership, positions={**self.membership.positions, partition: position}
        )

    def after(self, seconds: int) -> WorkerState:
        """Return what is known when so many seconds have passed, with a look in each."""
        for _ in range(seconds):
            self._now += 1
            self.monitor.look()
        return self.monitor.state

    def age(self, partition: tuple[str, int] = P) -> float:
        """Return the age that is shown of a partition."""
        ages = {(each.topic, each.partition): each for each in self.monitor.state.partitions}
        return ages[partition].uncommitted_age_s


def at(committed: int | None, read: int | None, end: int | None) -> Position:
    """Return a position."""
    return Position(committed=committed, read=read, end=end)


# Verdicts


def test_worker_that_was_seen_just_now_and_moves_is_live_and_ready() -> None:
    """Nothing is wrong with it."""
    assert why_not_live(READY, 101, longest_stall_s=LONGEST) is None
    assert why_not_ready(READY, 101, longest_stall_s=LONGEST) is None


def test_worker_whose_loop_stands_still_is_not_live() -> None:
    """The loop shows itself every second; after 30 s without it is stuck."""
    assert why_not_live(READY, 130, longest_stall_s=LONGEST) is None
    assert why_not_live(READY, 131, longest_stall_s=LONGEST) == "the event loop has not run for 31 s"


def test_worker_whose_offsets_stand_still_is_not_live() -> None:
    """Up to as long as a request may take they may."""
    still = replace(READY, stalled_s=LONGEST)
    assert why_not_live(still, 101, longest_stall_s=LONGEST) is None
    stuck = replace(READY, stalled_s=LONGEST + 1)
    reason = "no offset has moved for 71 s although there is work"
    assert why_not_live(stuck, 101, longest_stall_s=LONGEST) == reason
    assert why_not_ready(stuck, 101, longest_stall_s=LONGEST) == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"joined": False}, "no partitions are assigned yet"),
        ({"leaving": True}, "the worker is leaving"),
        ({"circuits": {"search": "open", "embedder": "closed"}}, "the search cannot be reached"),
        ({"circuits": {"embedder": "half_open"}}, "the embedder cannot be reached"),
        (
            {"circuits": {"embedder": "open", "search": "open"}},
            "the embedder and the search cannot be reached",
        ),
    ],
)
def test_worker_that_cannot_answer_is_live_and_not_ready(change: dict[str, Any], reason: str) -> None:
    """Killing it would help nobody."""
    state = replace(READY, **change)
    assert why_not_ready(state, 101, longest_stall_s=LONGEST) == reason
    assert why_not_live(state, 101, longest_stall_s=LONGEST) is None


def test_longest_stall_is_what_the_deadlines_add_up_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searching, publishing and a margin; a worker that waits for its search may search 21 times."""
    monkeypatch.setenv("LOOKUP_CONFIG", "")
    assert longest_stall(loading.load()) == 10 + 30 + 30
    waiting = loading.load(overrides={"stage.when-search-is-down": "wait", "search.timeout": 2})
    assert longest_stall(waiting) == 21 * 2 + 30 + 30


# What the monitor sees


def test_monitor_counts_lag_and_what_is_uncommitted() -> None:
    """Together they are the group's lag."""
    watched = Watched()
    watched.move(P, at(10, 14, 20))
    watched.move(Q, at(None, None, None))
    watched.stage.in_work = {Q: 3}
    first, second = watched.after(1).partitions
    assert (first.partition, first.lag, first.uncommitted) == (0, 6, 4)
    assert (second.partition, second.lag, second.uncommitted) == (1, 0, 3)


def test_monitor_shows_a_starting_worker_as_live_and_not_ready() -> None:
    """Before there is a stage, and before there is a consumer."""
    monitor = Monitor(now=lambda: 5.0)
    assert monitor.state == WorkerState(seen_at=5)
    monitor.watch(cast("LookupStage", FakeStage()), lambda: NOT_STARTED)
    assert not monitor.state.joined
    assert why_not_live(monitor.state, 5, longest_stall_s=LONGEST) is None


def test_age_grows_while_requests_are_in_work_and_nothing_is_committed() -> None:
    """And begins anew with each commit; an idle partition has none."""
    watched = Watched()
    watched.stage.in_work = {P: 1}
    watched.move(P, at(0, 1, 1))
    watched.after(10)
    assert (watched.age(P), watched.age(Q)) == (10, 0)
    watched.move(P, at(1, 2, 2))
    watched.after(1)
    assert watched.age(P) == 0
    watched.stage.in_work = {}
    watched.after(10)
    assert watched.age(P) == 0


def test_age_is_forgotten_with_the_partition() -> None:
    """When it comes back it is another's work that it begins with."""
    watched = Watched()
    watched.stage.in_work = {P: 1}
    watched.after(10)
    both = watched.membership.positions
    watched.membership = replace(watched.membership, positions={Q: both[Q]})
    watched.after(1)
    watched.membership = replace(watched.membership, positions=both)
    watched.after(2)
    assert watched.age(P) == 1


def test_stall_is_one_partition_that_stands_still_while_others_move() -> None:
    """A request that never ends holds its partition's offset, whatever the rest of the worker does."""
    watched = Watched()
    watched.stage.in_work = {P: 1, Q: 1}
    for second in range(100):
        watched.move(Q, at(second, second + 1, 1_000))
        watched.after(1)
    assert watched.monitor.state.stalled_s == 100


def test_stall_is_all_partitions_with_records_and_none_that_moves() -> None:
    """A consumer that reads no more has nothing in work, and still the records wait."""
    watched = Watched()
    watched.move(P, at(5, 5, 9))
    assert watched.after(100).stalled_s == 99


def test_stall_is_commits_that_come_to_an_end() -> None:
    """Everything read and acknowledged, nothing committed."""
    watched = Watched()
    watched.move(P, at(5, 9, 9))
    assert watched.after(100).stalled_s == 99


def test_stall_is_not_a_partition_that_waits_its_turn() -> None:
    """While others are worked on and move, records that are not in work may wait in the buffers."""
    watched = Watched()
    watched.move(Q, at(0, 5, 5))
    watched.stage.in_work = {P: 1}
    for second in range(100):
        watched.move(P, at(second, second + 1, 1_000))
        watched.after(1)
    assert watched.monitor.state.stalled_s < 2


def test_stall_is_not_having_nothing_to_do() -> None:
    """Offsets stand still for days where no requests come."""
    assert Watched().after(1_000).stalled_s == 0


Obstacle = Callable[[Watched, bool], None]


def waiting_for_the_search(watched: Watched, on: bool) -> None:  # noqa: FBT001 - a switch
    """Turn it on or off."""
    watched.stage.held_up = on


def draining(watched: Watched, on: bool) -> None:  # noqa: FBT001 - a switch
    """Turn it on or off."""
    watched.stage.draining = on


def without_brokers(watched: Watched, on: bool) -> None:  # noqa: FBT001 - a switch
    """Turn it on or off."""
    watched.membership = replace(watched.membership, connected=not on)


def without_partitions(watched: Watched, on: bool) -> None:  # noqa: FBT001 - a switch
    """Turn it on or off."""
    watched.membership = replace(watched.membership, joined=not on)


@pytest.mark.parametrize("obstacle", [waiting_for_the_search, draining, without_brokers, without_partitions])
def test_stall_is_not_what_something_else_holds_up(obstacle: Obstacle) -> None:
    """An outage is no reason to be killed, however long; when it is over the clock starts."""
    watched = Watched()
    watched.stage.in_work = {P: 1}
    watched.move(P, at(0, 1, 5))
    watched.after(60)
    obstacle(watched, True)
    assert watched.after(3_600).stalled_s == 0
    obstacle(watched, False)
    assert watched.after(10).stalled_s == 10
    assert watched.age(P) > 3_600


# Looking again and again


async def test_monitor_goes_on_when_it_cannot_see() -> None:
    """What it cannot see is logged once, and does not count as being stuck."""
    seen = 0

    def membership() -> Membership:
        nonlocal seen
        seen += 1
        raise AttributeError("Faust has changed")

    monitor = Monitor(interval_s=0)
    with structlog.testing.capture_logs() as logs:
        with pytest.raises(AttributeError):
            monitor.watch(cast("LookupStage", FakeStage()), membership)
        looking = asyncio.create_task(monitor.run())
        while seen < 3:  # noqa: ASYNC110 - it looks in each turn of the loop
            await asyncio.sleep(0)
        looking.cancel()
    assert [entry["event"] for entry in logs] == ["monitor_failed"]
    assert why_not_live(monitor.state, monitor.state.seen_at, longest_stall_s=LONGEST) is None
    assert why_not_ready(monitor.state, monitor.state.seen_at, longest_stall_s=LONGEST) is not None
