"""The bytes of hand-made record batches, as a client library reads them."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords

from tests.faults.wire.batches import (
    NOW_MS,
    BatchHeader,
    Codec,
    Record,
    compress,
    compress_like_others,
    encode_batch,
    encode_legacy,
    encode_records,
    varint,
    well_formed,
    with_base_offset,
)
from tests.faults.wire.oddities import SENDERS, odd
from tests.faults.wire.spoiling import (
    BIT_FLIPS,
    CONTROL_BATCHES,
    FORGERIES,
    LYING_HEADERS,
    LYING_OFFSETS,
    TRUNCATIONS,
)

RECORDS = (
    Record(key=b"a", value=b"first" * 9_000, headers=((b"n", b"v"), (b"n", None), (b"", b""))),
    Record(key=None, value=None, timestamp_delta=5),
    Record(key=b"", value=b"", headers=(("ключ".encode(), b"\xff"),)),
)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("write", [compress, compress_like_others])
def test_batch_of_version_2_is_read_as_written(codec: Codec, write: Any) -> None:
    """Keys, values, headers, offsets and times come back, in every codec and its variants."""
    header = BatchHeader(count=3, attributes=codec, base_offset=40)
    (batch,) = _batches(encode_batch(header, write(codec, encode_records(RECORDS))))
    assert batch.validate_crc()
    read = list(batch)
    assert [(record.offset, record.key, record.value) for record in read] == [
        (40 + number, record.key, record.value) for number, record in enumerate(RECORDS)
    ]
    assert [record.timestamp - NOW_MS for record in read] == [0, 5, 0]
    assert [list(record.headers) for record in read] == [
        [("n", b"v"), ("n", None), ("", b"")],
        [],
        [("ключ", b"\xff")],
    ]


@pytest.mark.parametrize(
    ("magic", "codec"),
    [
        (0, Codec.NONE),
        (0, Codec.GZIP),
        (0, Codec.SNAPPY),  # its lz4 has a checksum that only old clients write
        (1, Codec.NONE),
        (1, Codec.GZIP),
        (1, Codec.SNAPPY),
        (1, Codec.LZ4),
    ],
)
def test_legacy_message_set_is_read_as_written(magic: int, codec: Codec) -> None:
    """Keys, values and offsets come back from versions 0 and 1."""
    read = []
    for batch in _batches(encode_legacy(magic, RECORDS, base_offset=7, codec=codec)):
        assert batch.validate_crc()
        read += list(batch)
    assert [(record.offset, record.key, record.value) for record in read] == [
        (7 + number, record.key, record.value) for number, record in enumerate(RECORDS)
    ]


def test_checksum_does_not_cover_the_base_offset() -> None:
    """A batch stays valid where a broker, or a test, moves it."""
    (batch,) = _batches(with_base_offset(well_formed(RECORDS), 99))
    assert batch.validate_crc()
    assert next(iter(batch)).offset == 99


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, b"\0"), (-1, b"\x01"), (1, b"\x02"), (63, b"\x7e"), (64, b"\x80\x01"), (-65, b"\x81\x01")],
)
def test_varint_is_zigzag(number: int, encoded: bytes) -> None:
    """Small numbers of either sign are short."""
    assert varint(number) == encoded


def test_odd_batch_of_a_number_is_always_the_same() -> None:
    """So a seed and a number are enough to see again what was found."""
    for number in range(100):
        first, again = (odd(number, seed=7, partitions=4) for _ in range(2))
        assert (first.kind, first.contents, first.batch, first.order) == (
            again.kind,
            again.contents,
            again.batch,
            again.order,
        )
        if first.swap is not None and again.swap is not None:
            stored = with_base_offset(well_formed([each.record for each in first.contents]), 500)
            assert first.swap(stored, 0) == again.swap(stored, 0) == first.swap(stored, 0)


def test_odd_batches_are_of_every_kind() -> None:
    """A thousand of them have every sender, every codec and everything that can be spoiled."""
    kinds = {odd(number, seed=1, partitions=4).kind for number in range(1_000)}
    assert {kind.split("/")[0] for kind in kinds} == set(SENDERS)
    spoiled = {*TRUNCATIONS, *BIT_FLIPS, *LYING_HEADERS, *LYING_OFFSETS, *FORGERIES, *CONTROL_BATCHES}
    assert {kind.split("/")[-1] for kind in kinds} == spoiled | {codec.name.lower() for codec in Codec}


def _batches(data: bytes) -> list[Any]:
    records, batches = MemoryRecords(data), []
    while records.has_next():
        batches.append(records.next_batch())
    return batches
