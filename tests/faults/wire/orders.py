"""What other people's clients are told to send: one order is one batch, or one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tests.faults.wire.batches import Codec

Ending: TypeAlias = Literal["plain", "commit", "abort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRecord:
    """A record as clients take it: the names of headers are text.

    Attributes:
        timestamp_ms: Milliseconds since the epoch; `None` lets the client take the time.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Records that a client sends together to one partition.

    Attributes:
        partition: The partition.
        codec: How the client compresses them.
        ending: Whether they are sent in a transaction, and what becomes of it.
        records: At least one.
    """

    partition: int
    codec: Codec
    ending: Ending
    records: tuple[ClientRecord, ...]


Delivery: TypeAlias = int | str
"""The offset of a record, or the name of the error with which the client gave it up."""
