"""Kafka records as plain values, so that everything but the edges works without a broker."""

from __future__ import annotations

from typing import Any, TypeAlias

from pipeline.values import statically_frozen

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Header names and values in the record's order; names may repeat."""


@statically_frozen(frozen=True, slots=True, kw_only=True)
class Undecodable:
    """Why a stretch of offsets was read as bytes alone.

    Attributes:
        first_offset: First offset of the stretch; the record that stands for it has the last.
        reason: What is wrong, one line.
    """

    first_offset: int
    reason: str


class UndecodableHeaders(tuple[tuple[str, bytes | None], ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """No headers, and why there are none; carried through Kafka clients in place of a record's headers."""

    undecodable: Undecodable

    @classmethod
    def of(cls, undecodable: Undecodable) -> UndecodableHeaders:
        """Return empty headers that say why."""
        headers = cls()
        headers.undecodable = undecodable
        return headers


@statically_frozen(frozen=True, slots=True, kw_only=True)
class ConsumedRecord:
    """A record as it was read.

    Attributes:
        topic: Topic it was read from.
        partition: Partition it was read from.
        offset: Its offset there.
        timestamp_ms: Milliseconds since the epoch, as the topic keeps them.
        key: Untouched bytes, or `None`.
        value: Untouched bytes, or `None` for a tombstone.
        headers: All of them, in order.
        undecodable: Why key and value are bytes of what could not be decoded: the value is the record or the
            batch itself. `None` for a record.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    undecodable: Undecodable | None = None


@statically_frozen(frozen=True, slots=True, kw_only=True)
class ProducedRecord:
    """A record to be written.

    Attributes:
        topic: Topic it goes to.
        key: Bytes, or `None`.
        value: Bytes, or `None` for a tombstone.
        headers: All of them, in order.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


def consumed_record(message: Any, *, timestamp_ms: int) -> ConsumedRecord:
    """Accept over a message of a Kafka client; they differ only in how they keep its time."""
    headers = message.headers
    return ConsumedRecord(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        timestamp_ms=timestamp_ms,
        key=message.key,
        value=message.value,
        headers=tuple(headers or ()),
        undecodable=headers.undecodable if type(headers) is UndecodableHeaders else None,
    )
