"""What is known of a worker at one moment, as plain values that any thread may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.circuit import CircuitState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """How far a worker is in one of its partitions.

    Attributes:
        topic: Its topic.
        partition: Its number.
        lag: Records that were not read yet, as far as the brokers have told.
        uncommitted: Records read and not yet committed.
        uncommitted_age_s: Seconds since its committed offset last moved while requests of it were in work.
    """

    topic: str
    partition: int
    lag: int
    uncommitted: int
    uncommitted_age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """A worker as it was when last looked at.

    Attributes:
        seen_at: When, in seconds of the monotonic clock.
        joined: Whether it is in its group, with the partitions it was given.
        leaving: Whether it finishes what it has before it gives partitions away or ends.
        in_flight: Requests in work.
        circuits: State of each engine's circuit.
        partitions: Those assigned to it.
        stalled_s: Seconds for which no offset moved although there was work and nothing stood in its way.
    """

    seen_at: float
    joined: bool = False
    leaving: bool = False
    in_flight: int = 0
    circuits: Mapping[str, CircuitState] = field(default_factory=dict)
    partitions: tuple[PartitionState, ...] = ()
    stalled_s: float = 0.0
