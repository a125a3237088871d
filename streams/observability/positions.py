"""How far Faust's consumer is in each partition, as it knows anyway: no request is sent for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import faust

from streams.stage.in_flight import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Offsets of one partition; each is that of the next record.

    Attributes:
        read: Up to where records were fetched and handed to Faust; `None` before that is known.
        committed: Up to where they are committed; `None` where nothing is.
        end: The partition's end, as the brokers last told; `None` before they did.
    """

    read: int | None
    committed: int | None
    end: int | None

    @property
    def lag(self) -> int:
        """Records not read yet."""
        return 0 if self.end is None or self.read is None else max(self.end - self.read, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a worker's consumer knows of its group and its brokers.

    Attributes:
        joined: Whether it has the partitions that it was given, if any.
        connected: Whether it is connected with any broker.
        positions: Those of its partitions.
    """

    joined: bool
    connected: bool
    positions: dict[Partition, Position]


NOT_STARTED = Membership(joined=False, connected=False, positions={})


def membership(app: faust.App) -> Membership:
    """Look at the consumer inside an app, which neither Faust nor aiokafka let one see.

    The consumer runs in a thread of its own. Nothing is changed here, and each value is read in one step.
    """
    consumer: Any = app.consumer
    client = consumer._thread._consumer  # noqa: SLF001 - see above
    group = None if client is None else client._subscription  # noqa: SLF001 - see above
    if group is None or group.subscription is None or group.subscription.assignment is None:
        return NOT_STARTED
    assignment = group.subscription.assignment
    connections = list(client._client._conns.values())  # noqa: SLF001 - see above
    return Membership(
        joined=not (app.rebalancing or group.reassignment_in_progress),
        connected=any(connection.connected() for connection in connections),
        positions={
            (tp.topic, tp.partition): _position(
                assignment.state_value(tp),
                consumer._committed_offset.get(tp),  # noqa: SLF001 - see above
            )
            for tp in assignment.tps
        },
    )


def _position(state: Any, committed: int | None) -> Position:
    return Position(
        read=state.position if state.has_valid_position else None, committed=committed, end=state.highwater
    )
