"""Consumers that pass what they cannot decode on, instead of giving their partition up.

aiokafka raises where a batch is damaged or a record does not decode, and raises again for ever: the position
stays. Here the record, or where records cannot be told apart the batch, is delivered as bytes with the reason
in place of its headers, and the position moves on. What was damaged on its way is fetched again first.

This is the only module that touches the inside of aiokafka's consumer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from types import FunctionType
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import READ_COMMITTED, Fetcher, PartitionRecords
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.structs import ConsumerRecord

from pipeline.errors import ConfigurationError
from pipeline.internals import Member, check_members
from streams.kafka.record_batches import (
    NO_TIMESTAMP,
    Batch,
    BatchDamaged,
    BatchUndecodable,
    SavedRecord,
    base_offset_at,
    frames,
    offsets_of,
    open_batch,
    payload_of,
    plain_batch,
    saved_records,
)
from streams.kafka.records import Undecodable, UndecodableHeaders

log = structlog.get_logger(__name__)

MAX_READS = 3
"""How often a damaged batch is fetched before it is left out: it may have been damaged on its way."""

ISOLATION = "read_committed"
"""Records of aborted transactions are no requests and no results."""

_FETCH = "_proc_fetch_request"
_REPLACED = ("MemoryRecords", "PartitionRecords")
_PARTITION_RECORDS = (
    "tp",
    "records",
    "aborted_transactions",
    "fetch_offset",
    "key_deserializer",
    "value_deserializer",
    "check_crcs",
    "isolation_level",
)
_NAMES: dict[type, tuple[str, ...]] = {
    AIOKafkaConsumer: ("_client", "_coordinator", "_fetcher", "_isolation_level", "_subscription"),
    AIOKafkaClient: ("_conns",),
    Fetcher: (_FETCH, "_retry_backoff", "_subscriptions"),
    GroupCoordinator: ("check_errors",),
    PartitionRecords: (
        "_aborted_producers",
        "_consume_aborted_up_to",
        "_consumer_record",
        "_isolation_level",
        "_records",
        "_tp",
        "_unpack_records",
        "next_fetch_offset",
    ),
}


def read_committed(consumer: AIOKafkaConsumer) -> AIOKafkaConsumer:
    """Let a consumer that is not started leave out aborted transactions; Faust has no setting for it."""
    consumer._isolation_level = ISOLATION  # noqa: SLF001 - see the module
    return consumer


def read_tolerantly(consumer: AIOKafkaConsumer) -> None:
    """Let a consumer deliver what it cannot decode, with `UndecodableHeaders`, and go on.

    Args:
        consumer: Started, with nothing assigned yet.

    Raises:
        ConfigurationError: One line: this version of aiokafka is made otherwise.
    """
    check_aiokafka()
    fetcher = consumer._fetcher  # noqa: SLF001 - see the module
    unpacked = partial(_TolerantRecords, fetcher, {})
    original: Any = getattr(Fetcher, _FETCH)
    # The function of the library, which is to make these records instead of its own.
    names = original.__globals__ | dict(zip(_REPLACED, (_RecordSet, unpacked), strict=True))
    fetch = FunctionType(original.__code__, names, _FETCH, original.__defaults__, original.__closure__)

    async def fetch_again_after_errors(assignment: Any, node_id: Any, request: Any) -> bool:
        try:
            has_news: bool = await fetch(fetcher, assignment, node_id, request)
        except Exception:
            # An answer whose frame is damaged would end the fetcher, and nobody would hear of it.
            log.exception("fetch_failed", node=node_id)
            await asyncio.sleep(fetcher._retry_backoff)  # noqa: SLF001 - see the module
            return False
        return has_news

    setattr(fetcher, _FETCH, fetch_again_after_errors)


def members() -> Iterator[Member]:
    """Yield each member of aiokafka that is relied on, here and by those who look at a consumer's state."""
    for owner, names in _NAMES.items():
        yield from (Member(owner=owner, name=name) for name in names)
    yield Member(owner=PartitionRecords, name="__init__", parameters=("self", *_PARTITION_RECORDS))


def check_aiokafka() -> None:
    """Check that aiokafka's consumer is made as this module expects.

    Raises:
        ConfigurationError: One line naming its version and what differs.
    """
    check_members("aiokafka", members())
    used: Any = getattr(Fetcher, _FETCH).__code__.co_names
    missing = [name for name in _REPLACED if name not in used]
    if missing:
        raise ConfigurationError(
            f"aiokafka {version('aiokafka')} is not supported: Fetcher.{_FETCH} does not use"
            f" {' and '.join(missing)}"
        )


class _RecordSet:
    """What a fetch brought of one partition; stands in for aiokafka's `MemoryRecords`."""

    def __init__(self, data: bytes | None) -> None:
        self.data = data or b""

    def has_next(self) -> bool:
        """Whether there is anything, be it damaged."""
        return bool(self.data)

    def size_in_bytes(self) -> int:
        """Return its size."""
        return len(self.data)


class _TolerantRecords(PartitionRecords):  # type: ignore[misc]
    """Records of one fetch of one partition, in order; what cannot be decoded is among them.

    Damaged batches are looked at only where they come first: the fetch after this one begins with them.
    """

    def __init__(
        self, fetcher: Any, reads: dict[TopicPartition, tuple[int, int]], tp: TopicPartition, *rest: Any
    ) -> None:
        """Keep what tells how far the partition goes, and how often its damaged batches were read.

        Args:
            fetcher: Whose records these are.
            reads: Offset and number of reads of the damaged batch of each partition.
            tp: The partition.
            rest: As for aiokafka's own records.
        """
        super().__init__(tp, *rest)
        self._reads = reads
        state = fetcher._subscriptions.subscription.assignment.state_value(tp)  # noqa: SLF001 - see the module
        # The offset behind the last record that consumers may see.
        self._end: int | None = state.highwater

    def _unpack_records(self) -> Iterator[ConsumerRecord[Any, Any]]:
        begin, end = self.next_fetch_offset, 0
        try:
            for frame in frames(self._records.data):
                batch, end = open_batch(frame), end + len(frame)
                if batch.producer_id is None and batch.next_offset <= self.next_fetch_offset:
                    continue  # of formats 0 and 1 brokers may send earlier ones along
                self._check_offsets(batch, base_offset_at(self._records.data, end))
                yield from self._of_batch(frame, batch)
            if self.next_fetch_offset == begin:
                raise BatchDamaged(f"no batch has the offset {begin}")  # noqa: TRY301 - as all others
        except BatchDamaged as error:
            if self.next_fetch_offset == begin:
                yield from self._damaged(begin, str(error))

    def _of_batch(self, frame: memoryview, batch: Batch) -> Iterator[ConsumerRecord[Any, Any]]:
        if self._is_left_out(batch):
            self.next_fetch_offset = batch.next_offset
            return
        try:
            if batch.is_control_batch:
                # A marker tells only its producer; what is no marker tells nothing.
                self.next_fetch_offset = batch.next_offset
                return
            yield from self._decoded(frame, batch)
        except Exception as error:  # noqa: BLE001 - whatever the library raises for these bytes
            yield from self._saved(frame, batch, f"{type(error).__name__}: {error}")
        self.next_fetch_offset = batch.next_offset

    def _is_left_out(self, batch: Batch) -> bool:
        """Whether a batch belongs to a transaction that was aborted."""
        if self._isolation_level != READ_COMMITTED or batch.producer_id is None:
            return False
        self._consume_aborted_up_to(batch.base_offset)
        aborted: set[int] = self._aborted_producers
        if batch.is_control_batch:
            # The first marker behind the beginning of an aborted transaction is its end.
            aborted.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in aborted

    def _decoded(self, frame: memoryview, batch: Batch) -> Iterator[ConsumerRecord[Any, Any]]:
        is_current = batch.producer_id is not None  # older formats do not tell where a batch begins
        previous, last = batch.base_offset - 1 if is_current else -1, batch.next_offset - 1
        for record in plain_batch(frame, batch) if is_current else batch:
            offset = record.offset
            if not previous < offset <= last:
                raise BatchUndecodable(f"a record of the batch has the offset {offset}")
            previous = offset
            if offset >= self.next_fetch_offset:
                consumed = self._consumer_record(self._tp, record)
                self.next_fetch_offset = offset + 1
                yield consumed

    def _saved(self, frame: memoryview, batch: Batch, why: str) -> Iterator[ConsumerRecord[Any, Any]]:
        last = batch.next_offset - 1
        if self.next_fetch_offset > last:
            return  # every offset is accounted for
        try:
            if batch.producer_id is None:
                raise BatchUndecodable(why)  # noqa: TRY301 - as the next
            payload = payload_of(frame, batch)
        except BatchUndecodable as error:
            first, self.next_fetch_offset = self.next_fetch_offset, last + 1
            yield self._left_out(first, last, bytes(frame), str(error))
            return
        for record in saved_records(payload, self.next_fetch_offset, why):
            self.next_fetch_offset = record.last + 1
            yield self._consumed(record)

    def _damaged(self, begin: int, why: str) -> Iterator[ConsumerRecord[Any, Any]]:
        """Leave out what was damaged too often: as many offsets as can be believed, at least one."""
        offset, reads = self._reads.get(self._tp, (begin, 0))
        reads = reads + 1 if offset == begin else 1
        if reads < MAX_READS:
            self._reads[self._tp] = begin, reads
            return
        self._reads.pop(self._tp, None)
        frame, last = self._first_damaged(begin)
        self.next_fetch_offset = last + 1
        yield self._left_out(begin, last, frame, why)

    def _first_damaged(self, begin: int) -> tuple[bytes, int]:
        """Return the bytes of the first batch and the last offset of it that can be believed."""
        data = self._records.data
        try:
            frame = next(frames(data))
        except (BatchDamaged, StopIteration):
            return data, begin
        base, last = offsets_of(frame)
        believed = base <= begin <= last and (self._end is None or last < self._end)
        return bytes(frame), last if believed else begin

    def _check_offsets(self, batch: Batch, following: int | None) -> None:
        """Check the offsets, over which the checksum does not go.

        Args:
            batch: The batch that is next.
            following: Base offset of the batch behind it, `None` where there is none.

        Raises:
            BatchDamaged: They are not of this place in the partition.
        """
        if batch.next_offset <= self.next_fetch_offset:
            raise BatchDamaged(
                f"the batch ends at the offset {batch.next_offset - 1}, before {self.next_fetch_offset}"
            )
        # A batch that is not where the one before it ends is right where compaction took records away.
        is_ahead = batch.producer_id is not None and batch.base_offset > self.next_fetch_offset
        if is_ahead and following is not None and self.next_fetch_offset <= following < batch.next_offset:
            raise BatchDamaged(
                f"the batch ends at the offset {batch.next_offset - 1}, the next one begins at {following}"
            )
        if self._end is not None and batch.next_offset > self._end:
            raise BatchDamaged(
                f"the batch ends at the offset {batch.next_offset - 1}, behind the partition's"
            )

    def _left_out(self, first: int, last: int, data: bytes, why: str) -> ConsumerRecord[Any, Any]:
        saved = SavedRecord(first=first, last=last, timestamp=NO_TIMESTAMP, key=None, value=data, fault=why)
        return self._consumed(saved)

    def _consumed(self, record: SavedRecord) -> ConsumerRecord[Any, Any]:
        headers: tuple[tuple[str, bytes | None], ...] = record.headers
        if record.fault is not None:
            reason = " ".join(record.fault.split())
            headers = UndecodableHeaders.of(Undecodable(first_offset=record.first, reason=reason))
        key, value = record.key, record.value
        sizes = (-1 if each is None else len(each) for each in (key, value))
        tp = self._tp
        return ConsumerRecord(
            tp.topic, tp.partition, record.last, record.timestamp, 0, key, value, None, *sizes, headers
        )
