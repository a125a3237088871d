"""Looks at a worker every second, from inside its event loop, and remembers what other threads may ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping

import structlog

from streams.observability.positions import NOT_STARTED, Membership, Position
from streams.observability.state import PartitionState, WorkerState
from streams.stage.in_flight import Partition
from streams.stage.stage import LookupStage

log = structlog.get_logger(__name__)

LOOK_INTERVAL_S = 1.0


class Standstill:
    """Measures for how long something has not moved although it should."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._mark: Hashable = None
        self._since = 0.0

    def seconds(self, now: float, mark: Hashable, *, should_move: bool) -> float:
        """Return the seconds for which the mark has been the same while it should have moved."""
        if not should_move or mark != self._mark:
            self._mark, self._since = mark, now
        return now - self._since


class Monitor:
    """Keeps the latest state of a worker.

    That it keeps looking is itself a sign of life: it cannot while the event loop is stuck.

    Attributes:
        state: What was seen last; it is replaced, never changed.
    """

    def __init__(
        self, *, now: Callable[[], float] = time.monotonic, interval_s: float = LOOK_INTERVAL_S
    ) -> None:
        """Know nothing yet but that the worker is starting.

        Args:
            now: Seconds of a clock that only goes forward.
            interval_s: Seconds between two looks.
        """
        self._now = now
        self._interval_s = interval_s
        self._stage: LookupStage | None = None
        self._membership: Callable[[], Membership] = lambda: NOT_STARTED
        self._ages: dict[Partition, Standstill] = {}
        self._stalls: dict[Hashable, Standstill] = {}
        self.state = WorkerState(seen_at=now())

    def watch(self, stage: LookupStage, membership: Callable[[], Membership]) -> None:
        """Look at a stage from now on, and at what gives its consumer's membership."""
        self._stage, self._membership = stage, membership
        self.look()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        failing = False
        while True:
            try:
                self.look()
                failing = False
            except Exception:
                # What cannot be seen is no reason to stop answering, nor to be taken for stuck.
                if not failing:
                    log.exception("monitor_failed")
                failing = True
                self.state = WorkerState(seen_at=self._now())
            await asyncio.sleep(self._interval_s)

    def look(self) -> None:
        """Look once."""
        now, stage = self._now(), self._stage
        if stage is None:
            self.state = WorkerState(seen_at=now)
            return
        membership = self._membership()
        in_work = stage.unacknowledged()
        self.state = WorkerState(
            seen_at=now,
            joined=membership.joined,
            leaving=stage.draining,
            in_flight=stage.in_flight,
            circuits=stage.circuit_states(),
            partitions=self._partitions(now, membership.positions, in_work),
            stalled_s=self._stalled(now, membership, in_work, excused=stage.draining or stage.held_up),
        )

    def _partitions(
        self, now: float, positions: Mapping[Partition, Position], in_work: Mapping[Partition, int]
    ) -> tuple[PartitionState, ...]:
        self._ages = {partition: self._ages.get(partition) or Standstill() for partition in positions}
        return tuple(
            PartitionState(
                topic=partition[0],
                partition=partition[1],
                lag=position.lag,
                uncommitted=_uncommitted(position, in_work.get(partition, 0)),
                uncommitted_age_s=self._ages[partition].seconds(
                    now, position.committed, should_move=partition in in_work
                ),
            )
            for partition, position in sorted(positions.items())
        )

    def _stalled(
        self, now: float, membership: Membership, in_work: Mapping[Partition, int], *, excused: bool
    ) -> float:
        """Return the longest standstill: of one partition with requests in work, or of all with records."""
        excused = excused or not (membership.joined and membership.connected)
        positions = membership.positions
        waiting = any(position.lag or _uncommitted(position, 0) for position in positions.values())
        marks: dict[Hashable, tuple[Hashable, bool]] = {
            partition: (position.committed, partition in in_work) for partition, position in positions.items()
        }
        marks[None] = (tuple(sorted((key, at.committed or 0) for key, at in positions.items())), waiting)
        self._stalls = {key: self._stalls.get(key) or Standstill() for key in marks}
        return max(
            self._stalls[key].seconds(now, mark, should_move=should_move and not excused)
            for key, (mark, should_move) in marks.items()
        )


def _uncommitted(position: Position, in_work: int) -> int:
    """Count what was read and is not committed; where nothing is, at least what is in work."""
    if position.read is None or position.committed is None:
        return in_work
    return max(position.read - position.committed, 0)
