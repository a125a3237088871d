"""What a consumer delivers of fetched bytes: every offset is accounted for, whatever the bytes are."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher as library
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ConfigurationError
from streams.kafka import record_batches
from streams.kafka.records import UndecodableHeaders, consumed_record
from streams.kafka.tolerant_fetcher import MAX_READS, _RecordSet, _TolerantRecords, check_aiokafka
from tests.support.batches import (
    ATTRIBUTES_AT,
    CODECS,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Row,
    batch,
    compressed,
    legacy,
    marker,
    record,
    sealed,
    varint,
)

TP = TopicPartition("lookup.requests", 3)
LAST = 1_000


@dataclass(slots=True)
class Partition:
    """A partition as brokers send it: all batches from the one on that has the position.

    Attributes:
        data: Its batches.
        position: Offset of the next record.
        end: Offset behind the last one.
        fetches: How often it was fetched.
        frames: What is sent for a position in the place of `data`: brokers know where damaged batches lie.
    """

    data: bytes
    position: int = 0
    end: int = LAST
    fetches: int = 0
    aborted: tuple[tuple[int, int], ...] = ()
    isolation: int = library.READ_COMMITTED
    frames: dict[int, bytes] = field(default_factory=dict)

    def read(self, *, until: int) -> list[Any]:
        """Fetch until an offset is reached."""
        reads: dict[TopicPartition, tuple[int, int]] = {}
        messages: list[Any] = []
        while self.position < until:
            messages += self.fetch(reads)
            assert self.fetches < 10_000, "the partition is blocked"
        return messages

    def fetch(self, reads: dict[TopicPartition, tuple[int, int]]) -> list[Any]:
        """Fetch once."""
        self.fetches += 1
        state = SimpleNamespace(highwater=self.end)
        assignment = SimpleNamespace(state_value=lambda _tp: state)
        subscriptions = SimpleNamespace(subscription=SimpleNamespace(assignment=assignment))
        records = _TolerantRecords(
            SimpleNamespace(_subscriptions=subscriptions),
            reads,
            TP,
            _RecordSet(self._from_position()),
            list(self.aborted),
            self.position,
            None,
            None,
            True,
            self.isolation,
        )
        messages = []
        for message in records:
            messages.append(message)
            assert records.next_fetch_offset == message.offset + 1
        assert records.next_fetch_offset >= self.position
        self.position = records.next_fetch_offset
        return messages

    def _from_position(self) -> bytes:
        if self.position in self.frames:
            return self.frames[self.position]
        at = 0
        while len(self.data) - at > 27:
            base, length = struct.unpack_from(">qi", self.data, at)
            last = base + struct.unpack_from(">i", self.data, at + 23)[0] if self.data[at + 16] >= 2 else base
            if last >= self.position or length < 14:
                break
            at += 12 + length
        return self.data[at:]


def good(*offsets: int, base: int = 0) -> list[tuple[int, bytes]]:
    """Return what records of `rows` are read as."""
    return [(offset, b"v%d" % (offset - base)) for offset in offsets]


def rows(count: int) -> list[Row]:
    """Return records with their number as value."""
    return [Row(value=b"v%d" % number) for number in range(count)]


def values(messages: list[Any]) -> list[tuple[int, bytes]]:
    """Return offsets and values of what was decoded."""
    return [
        (each.offset, each.value) for each in messages if not isinstance(each.headers, UndecodableHeaders)
    ]


def left_out(messages: list[Any]) -> list[tuple[int, int, str]]:
    """Return first and last offset of what was not, and why."""
    records = [consumed_record(each, timestamp_ms=each.timestamp) for each in messages]
    return [
        (each.undecodable.first_offset, each.offset, each.undecodable.reason)
        for each in records
        if each.undecodable is not None
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(codec: str) -> None:
    """Records come with offset, time, key, value and headers, however they are compressed."""
    row = Row(key=b"", value=b"v" * 500, headers=[(b"a", b"1"), (b"a", None)])
    (first, second) = Partition(batch(row, Row(value=None), base=7, codec=codec), position=7).read(until=9)
    assert (first.offset, first.timestamp, first.key, first.value) == (7, 1_000, b"", b"v" * 500)
    assert first.headers == (("a", b"1"), ("a", None))
    assert (second.offset, second.key, second.value) == (8, None, None)


@pytest.mark.parametrize("codec", CODECS)
def test_header_name_that_is_not_utf8_is_replaced(codec: str) -> None:
    """The record is read like any other, and so are those around it."""
    odd = Row(key=b"k", value=b"v1", headers=[(b"\xff\xfe", b"1"), (b"ok", b"\xff")])
    data = batch(Row(value=b"v0"), odd, Row(value=b"v2"), codec=codec) + batch(Row(value=b"v0"), base=3)
    messages = Partition(data).read(until=4)
    assert values(messages) == [*good(0, 1, 2), (3, b"v0")]
    assert messages[1].headers == (("\ufffd\ufffd", b"1"), ("ok", b"\xff"))
    assert (messages[1].key, messages[1].timestamp) == (b"k", 1_000)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (record(Row(value=b"x", key=b"k"), 1, count=-3), "cannot have -3 headers"),
        (record(Row(value=b"x", key=b"k"), 1, count=2), "a number of the record has no end"),
        (record(Row(value=b"x", key=b"k"), 1, more=b"more"), "4 bytes too many"),
        (
            varint(9) + b"\x00\x00" + varint(1) + varint(1) + b"k" + varint(60) + b"abc",
            "cannot have 60 bytes",
        ),
    ],
)
@pytest.mark.parametrize("codec", CODECS)
def test_record_that_does_not_decode_is_left_out_alone(codec: str, wrong: bytes, why: str) -> None:
    """Where its end is known, the records around it are read."""
    plain = record(Row(value=b"v0"), 0) + wrong + record(Row(value=b"v2"), 2)
    data = batch(payload=None if codec == "none" else compressed(codec, plain), codec=codec, last=2, count=3)
    data = batch(payload=plain, last=2, count=3) if codec == "none" else data
    messages = Partition(data).read(until=3)
    assert values(messages) == good(0, 2)
    ((first, last, reason),) = left_out(messages)
    assert (first, last) == (1, 1)
    assert why in reason
    assert messages[1].key == b"k"
    assert messages[1].value in wrong


def test_records_behind_one_without_an_end_are_left_out_together() -> None:
    """Nothing can be told apart from there on; what was before is read."""
    plain = record(Row(value=b"v0"), 0) + varint(5_000) + b"rest"
    messages = Partition(batch(payload=plain, last=4, count=5) + batch(*rows(1), base=5)).read(until=6)
    assert values(messages) == [(0, b"v0"), (5, b"v0")]
    assert [each[:2] for each in left_out(messages)] == [(1, 4)]
    assert messages[1].value == varint(5_000) + b"rest"


@pytest.mark.parametrize(("offset", "stretch"), [(LAST, (1, 2)), (0, (1, 2)), (-1, (1, 2)), (2**40, (1, 2))])
def test_record_with_an_offset_of_another_batch_moves_no_position(
    offset: int, stretch: tuple[int, int]
) -> None:
    """An offset far ahead would pass all that lies between; one that was is no record either."""
    data = batch(Row(value=b"v0"), Row(value=b"x", offset=offset), Row(value=b"v2")) + batch(*rows(1), base=3)
    messages = Partition(data).read(until=4)
    assert values(messages) == [(0, b"v0"), (3, b"v0")]
    assert [each[:2] for each in left_out(messages)] == [stretch]


@pytest.mark.parametrize("codec", CODECS)
def test_first_record_with_an_offset_before_its_batch_is_not_passed_silently(codec: str) -> None:
    """It is none of those that were read before: it is left out, with those behind it."""
    data = batch(Row(value=b"x", offset=-1), Row(value=b"v1"), base=2, codec=codec) + batch(*rows(1), base=4)
    messages = Partition(data, position=2).read(until=5)
    assert values(messages) == [(4, b"v0")]
    assert [each[:2] for each in left_out(messages)] == [(2, 3)]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_batch_with_broken_compressed_data_is_left_out_whole(codec: str) -> None:
    """Its offsets and its bytes are told, and the next batch is read."""
    broken = batch(codec=codec, payload=b"\x00\x01 broken", last=4, count=5)
    partition = Partition(broken + batch(*rows(2), base=5))
    messages = partition.read(until=7)
    assert values(messages) == [(5, b"v0"), (6, b"v1")]
    ((first, last, reason),) = left_out(messages)
    assert (first, last) == (0, 4)
    assert reason.startswith(f"the {codec} data of the batch is broken")
    assert (messages[0].key, messages[0].value) == (None, broken)
    assert partition.fetches == 1


def test_batch_of_an_unknown_codec_is_left_out_whole() -> None:
    """So is one of a codec that is not invented yet."""
    messages = Partition(batch(*rows(3), attributes=6)).read(until=3)
    assert left_out(messages) == [(0, 2, "the compression codec 6 is not known")]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_batch_that_is_too_large_decompressed_is_left_out(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few bytes of it may claim all memory there is."""
    monkeypatch.setattr(record_batches, "MAX_PAYLOAD_BYTES", 100_000)
    small = [Row(value=b"v0" + b"\x00" * 90_000)]
    large = [Row(value=b"\x00" * 110_000)]
    data = batch(*small, codec=codec) + batch(*large, base=1, codec=codec)
    messages = Partition(data).read(until=2)
    assert [offset for offset, _ in values(messages)] == [0]
    assert left_out(messages) == [(1, 1, "the batch has more than 100000 bytes when decompressed")]


def test_compressed_data_of_several_frames_is_read_whole() -> None:
    """Producers may flush in the middle of a batch."""
    halves = record(Row(value=b"v0"), 0), record(Row(value=b"v1"), 1)
    compress = zstandard.ZstdCompressor().compress
    for codec, data in (
        ("zstd", b"".join(map(compress, halves))),
        ("gzip", b"".join(compressed("gzip", half) for half in halves)),
    ):
        messages = Partition(batch(codec=codec, payload=data, last=1, count=2)).read(until=2)
        assert values(messages) == good(0, 1)


def flipped(data: bytes, at: int) -> bytes:
    """Return bytes with one bit turned."""
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def test_batch_with_a_wrong_checksum_is_left_out_after_it_was_fetched_again() -> None:
    """It may have been damaged on its way; on the disk it stays damaged."""
    broken = flipped(batch(*rows(3), base=2), 70)
    partition = Partition(batch(*rows(2)) + broken + batch(*rows(1), base=5))
    messages = partition.read(until=6)
    assert values(messages) == [(0, b"v0"), (1, b"v1"), (5, b"v0")]
    assert left_out(messages) == [(2, 4, "the checksum of the batch is wrong")]
    assert messages[2].value == broken
    assert partition.fetches == 1 + MAX_READS + 1


def test_batch_that_was_damaged_on_its_way_is_read() -> None:
    """The second fetch brings it whole."""
    whole = batch(*rows(3))
    partition = Partition(flipped(whole, 70))
    reads: dict[TopicPartition, tuple[int, int]] = {}
    assert partition.fetch(reads) == []
    partition.data = whole
    assert values(partition.fetch(reads)) == good(0, 1, 2)


@pytest.mark.parametrize("magic", [3, 77, 255])
def test_batch_of_an_unknown_format_is_left_out(magic: int) -> None:
    """Its place is known, its records are not; what follows is read."""
    strange = bytearray(batch(*rows(1)))
    strange[16] = magic
    messages = Partition(bytes(strange) + batch(*rows(1), base=1)).read(until=2)
    assert left_out(messages) == [(0, 0, f"the message format {magic} is not known")]
    assert values(messages) == [(1, b"v0")]


@pytest.mark.parametrize("length", [-1, 0, 13, 2**31 - 1])
def test_batch_with_an_impossible_length_passes_one_offset_at_a_time(length: int) -> None:
    """How far it goes cannot be told, and good records may follow."""
    broken = struct.pack(">qi", 0, length) + batch(*rows(1))[12:]
    partition = Partition(broken)
    messages = partition.read(until=1)
    ((first, last, _reason),) = left_out(messages)
    assert (first, last) == (0, 0)
    assert messages[0].value == broken


@pytest.mark.parametrize("base", [LAST, 2**40, -5])
def test_batch_with_offsets_of_another_place_moves_no_position(base: int) -> None:
    """The checksum does not go over the base offset: a wrong one must not pass what lies between."""
    whole = batch(*rows(2))
    partition = Partition(struct.pack(">q", base) + whole[8:])
    partition.read(until=1)
    assert partition.position == 1
    partition.data = whole
    assert values(partition.read(until=2)) == [(1, b"v1")]


@pytest.mark.parametrize("base", [-5, 0, 4, 7])
def test_batch_with_offsets_of_another_place_passes_no_good_one(base: int) -> None:
    """Good batches follow one that claims to lie elsewhere: no offset is passed silently."""
    moved, good_ones = struct.pack(">q", base) + batch(*rows(2), base=2)[8:], batch(*rows(6), base=4)
    partition = Partition(good_ones, position=2, frames=dict.fromkeys((2, 3), moved + good_ones))
    messages = partition.read(until=10)
    assert values(messages) == good(*range(4, 10), base=4)
    assert [(first, last) for first, last, _ in left_out(messages)] == [(2, 2), (3, 3)]


@pytest.mark.parametrize("last", [-1, -3])
def test_batch_that_claims_to_end_before_it_begins_passes_no_offset_silently(last: int) -> None:
    """Its checksum may be right: what was written wrong is sealed, too."""
    wrong = batch(*rows(2), base=2, last=last) + batch(*rows(1), base=4)
    partition = Partition(b"", position=2, frames=dict.fromkeys((2, 3), wrong))
    messages = partition.read(until=4)
    assert [(first, last) for first, last, _ in left_out(messages)] == [(2, 2), (3, 3)]


def test_damaged_number_of_offsets_is_not_believed() -> None:
    """A batch that claims more offsets than records passes one, and the rest is fetched again."""
    whole = batch(*rows(2))
    broken = whole[:23] + struct.pack(">i", 500) + whole[27:]
    partition = Partition(broken + batch(*rows(1), base=2))
    messages = partition.read(until=1)
    assert (partition.position, left_out(messages)) == (1, [(0, 0, "the checksum of the batch is wrong")])


def test_batch_that_is_cut_off_is_read_by_the_next_fetch() -> None:
    """Brokers send what fits: the last batch of a fetch is no damage."""
    first, second = batch(*rows(2)), batch(*rows(2), base=2)
    partition = Partition(first + second[:-3])
    assert values(partition.fetch({})) == good(0, 1)
    partition.data = first + second
    assert values(partition.fetch({})) == good(2, 3, base=2)


def test_compacted_offsets_are_passed() -> None:
    """Offsets without a record, at the end of a batch or all of it, hold nothing up."""
    data = batch(Row(value=b"v0", offset=1), last=9) + batch(base=10, last=4, count=0)
    partition = Partition(data + batch(*rows(1), base=15))
    assert values(partition.read(until=16)) == [(1, b"v0"), (15, b"v0")]
    assert partition.fetches == 1


def test_log_append_time_is_the_time_of_every_record() -> None:
    """The broker sets one time for the batch, be its records decoded by aiokafka or not."""
    odd = Row(value=b"v1", headers=[(b"\xff", b"")])
    messages = Partition(batch(Row(value=b"v0"), odd, attributes=LOG_APPEND_TIME)).read(until=2)
    assert [each.timestamp for each in messages] == [2_000, 2_000]


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_read(magic: int) -> None:
    """So they are beside a newer one in the same fetch, and with a wrong checksum left out."""
    data = legacy(0, b"v0", magic=magic) + legacy(1, b"x", magic=magic, crc=5) + batch(*rows(1), base=2)
    messages = Partition(data).read(until=3)
    assert values(messages) == [(0, b"v0"), (2, b"v0")]
    assert left_out(messages) == [(1, 1, "the checksum of the batch is wrong")]


def test_aborted_transaction_is_left_out() -> None:
    """Its records are no requests, be they decodable or not, and what others write in between is read."""
    inside = partial(batch, attributes=TRANSACTIONAL, producer=7)
    data = (
        inside(*rows(1), base=0)
        + inside(codec="zstd", payload=b"broken", base=1, last=1, count=2)
        + batch(*rows(1), base=3)
        + marker(4, 7, commit=False)
        + inside(*rows(1), base=5)
        + marker(6, 7, commit=True)
    )
    partition = Partition(data, aborted=((7, 0),))
    assert values(partition.read(until=7)) == [(3, b"v0"), (5, b"v0")]
    dirty = Partition(data, aborted=((7, 0),), isolation=library.READ_UNCOMMITTED)
    assert [offset for offset, _ in values(dirty.read(until=7))] == [0, 3, 5]


@given(st.integers(min_value=0, max_value=2**32), st.sampled_from(CODECS), st.booleans())
def test_whatever_is_damaged_every_offset_is_accounted_for(seed: int, codec: str, seal: bool) -> None:  # noqa: FBT001 - given by Hypothesis
    """Good batches are read, nothing raises, and the offsets of the bad one are read or left out, once."""
    choose = random.Random(seed)
    bad = bytearray(batch(*rows(4), base=2, codec=codec))
    for _ in range(choose.randint(1, 5)):
        bad[choose.randrange(ATTRIBUTES_AT, len(bad))] = choose.randrange(256)
    bad[23:27] = struct.pack(">i", 3)  # which brokers check
    bad[21] = 0
    bad[22] &= 0x0F
    damaged = sealed(bytes(bad)) if seal else bytes(bad)
    messages = Partition(batch(*rows(2)) + damaged + batch(*rows(2), base=6)).read(until=8)
    seen = [offset for offset, _ in values(messages)]
    missing = [offset for first, last, _ in left_out(messages) for offset in range(first, last + 1)]
    assert sorted(seen + missing) == list(range(8))
    assert {0, 1, 6, 7} <= set(seen)


def test_function_that_makes_other_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An aiokafka whose fetcher is made otherwise ends the start with one line, not a partition later."""
    monkeypatch.setattr(library.Fetcher, "_proc_fetch_request", lambda self: None)  # noqa: ARG005 - never called
    with pytest.raises(
        ConfigurationError,
        match=r"^aiokafka 0\.14\S* is not supported: .* does not use MemoryRecords and PartitionRecords$",
    ):
        check_aiokafka()
