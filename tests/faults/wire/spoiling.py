"""Ways to spoil a record batch: bits, lengths, counts, checksums, codecs, versions."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from tests.faults.wire.batches import (
    ATTRIBUTES_V2_AT,
    CONTROL,
    CRC_LEGACY_AT,
    CRC_V2_AT,
    HEADER_V2_SIZE,
    LOG_OVERHEAD,
    MAGIC_AT,
    XERIAL_HEADER,
    BatchHeader,
    Codec,
    Lies,
    Record,
    base_offset_of,
    compress,
    compress_like_others,
    encode_batch,
    encode_legacy,
    encode_record,
    encode_records,
    with_base_offset,
    with_right_crc,
    with_right_length,
)

Spoil: TypeAlias = Callable[[bytes, random.Random], bytes]
"""Turns a well-formed batch of version 2 into another one."""

Forge: TypeAlias = Callable[[Sequence[Record], int, random.Random], bytes]
"""Makes a batch of records at an offset that no honest client makes today."""

LEADER_EPOCH_AT, LAST_OFFSET_DELTA_AT, COUNT_AT = 12, 23, 57
LARGEST_INT = 2**31 - 1
INFLATED_BYTES = 1_200_000
"""More than topics take by default."""


def _flip_bits(batch: bytes, choose: random.Random, first: int, end: int) -> bytes:
    flipped = bytearray(batch)
    for _ in range(choose.randint(1, 8)):
        flipped[choose.randrange(first, end)] ^= 1 << choose.randrange(8)
    return bytes(flipped)


def _with_number(batch: bytes, layout: str, at: int, number: int) -> bytes:
    spoiled = bytearray(batch)
    struct.pack_into(layout, spoiled, at, number)
    return bytes(spoiled)


def _with_attributes(batch: bytes, attributes: int) -> bytes:
    return with_right_crc(_with_number(batch, ">h", ATTRIBUTES_V2_AT, attributes))


def _attributes(batch: bytes) -> int:
    (attributes,) = struct.unpack_from(">h", batch, ATTRIBUTES_V2_AT)
    return int(attributes)


def _count(batch: bytes) -> int:
    (count,) = struct.unpack_from(">i", batch, COUNT_AT)
    return int(count)


def _cut(batch: bytes, choose: random.Random, *, keep: int) -> bytes:
    return batch[: choose.randrange(keep, len(batch))]


def _other_codec(batch: bytes, choose: random.Random) -> bytes:
    own = _attributes(batch) & 7
    return _with_attributes(
        batch, _attributes(batch) & ~7 | choose.choice([codec for codec in Codec if codec != own])
    )


TRUNCATIONS: dict[str, Spoil] = {
    "cut": lambda batch, choose: _cut(batch, choose, keep=LOG_OVERHEAD),
    "cut-length-told": lambda batch, choose: with_right_length(_cut(batch, choose, keep=LOG_OVERHEAD)),
    "cut-checksum-right": lambda batch, choose: with_right_crc(
        with_right_length(_cut(batch, choose, keep=HEADER_V2_SIZE))
    ),
    "cut-to-header": lambda batch, _: with_right_crc(with_right_length(batch[:HEADER_V2_SIZE])),
}

BIT_FLIPS: dict[str, Spoil] = {
    "flipped": lambda batch, choose: _flip_bits(batch, choose, 8, len(batch)),
    "flipped-header": lambda batch, choose: _flip_bits(batch, choose, 8, HEADER_V2_SIZE),
    "flipped-length": lambda batch, choose: _flip_bits(batch, choose, 8, LOG_OVERHEAD),
    "flipped-magic": lambda batch, choose: _flip_bits(batch, choose, MAGIC_AT, MAGIC_AT + 1),
    "flipped-checksum": lambda batch, choose: _flip_bits(batch, choose, CRC_V2_AT, ATTRIBUTES_V2_AT),
    "flipped-leader-epoch": lambda batch, choose: _flip_bits(batch, choose, LEADER_EPOCH_AT, MAGIC_AT),
}

LYING_HEADERS: dict[str, Spoil] = {
    "length": lambda batch, choose: _with_number(
        batch, ">i", 8, choose.choice((0, -1, 1, 13, 48, len(batch), 10**6, LARGEST_INT, -LARGEST_INT))
    ),
    "magic": lambda batch, choose: _with_number(batch, ">b", MAGIC_AT, choose.choice((0, 1, 3, 127, -1))),
    "unknown-codec": lambda batch, choose: _with_attributes(
        batch, _attributes(batch) & ~7 | choose.choice((5, 6, 7))
    ),
    "other-codec": _other_codec,
    "flags": lambda batch, choose: _with_attributes(
        batch, _attributes(batch) | choose.choice((0x08, 0x10, 0x40, 0x80, 0x4000, -0x8000))
    ),
    "count": lambda batch, choose: with_right_crc(
        _with_number(
            batch, ">i", COUNT_AT, choose.choice((0, -1, _count(batch) + 1, _count(batch) - 1, LARGEST_INT))
        )
    ),
    "last-offset-delta": lambda batch, choose: with_right_crc(
        _with_number(
            batch, ">i", LAST_OFFSET_DELTA_AT, choose.choice((-1, -5, 10**6, LARGEST_INT, -LARGEST_INT))
        )
    ),
    "left-over": lambda batch, choose: with_right_crc(
        with_right_length(batch + choose.randbytes(choose.randint(1, 40)))
    ),
    "zeros": lambda batch, _: with_right_crc(batch[:HEADER_V2_SIZE] + bytes(len(batch) - HEADER_V2_SIZE)),
}

LYING_OFFSETS: dict[str, Spoil] = {
    "base-offset": lambda batch, choose: with_base_offset(
        batch, choose.choice((-1, -(2**63), 2**62, 2**63 - 1))
    ),
    "base-offset-behind": lambda batch, choose: with_base_offset(
        batch, base_offset_of(batch) - _count(batch) - choose.randint(0, 50)
    ),
}
"""The broker assigns offsets itself: these can be met only where batches are read."""

CONTROL_BATCHES: dict[str, Spoil] = {
    "control": lambda batch, _: _with_attributes(batch, _attributes(batch) | CONTROL),
}
"""What the broker itself writes, and consumers pass over: these can be met only where batches are sent."""


def _lying_record(records: Sequence[Record], base: int, choose: random.Random) -> bytes:
    """Return a batch with the right checksum in which one record lies about itself."""
    lies = choose.choice(
        (
            Lies(length=choose.choice((0, 3, 100, -1, LARGEST_INT))),
            Lies(offset_delta=choose.choice((-1, 7, LARGEST_INT))),
            Lies(key_length=choose.choice((-5, 10**6, LARGEST_INT))),
            Lies(value_length=choose.choice((-5, 10**6, LARGEST_INT))),
            Lies(header_count=choose.choice((-1, 3, LARGEST_INT))),
            Lies(header_name_length=choose.choice((-1, 10**6, LARGEST_INT))),
        )
    )
    liar, codec = choose.randrange(len(records)), choose.choice(tuple(Codec))
    body = b"".join(
        encode_record(record, number, lies if number == liar else None)
        for number, record in enumerate(records)
    )
    return encode_batch(
        BatchHeader(count=len(records), base_offset=base, attributes=codec), compress(codec, body)
    )


def _header_names_not_utf8(records: Sequence[Record], base: int, choose: random.Random) -> bytes:
    codec = choose.choice(tuple(Codec))
    named = [
        Record(
            key=record.key,
            value=record.value,
            headers=((choose.choice((b"\xff\xfe", b"\xc3", b"\xed\xa0\x80")), b"v"),),
        )
        for record in records
    ]
    return encode_batch(
        BatchHeader(count=len(named), base_offset=base, attributes=codec),
        compress(codec, encode_records(named)),
    )


def _broken_compression(records: Sequence[Record], base: int, choose: random.Random) -> bytes:
    """Return a batch with the right checksum whose compressed data are broken."""
    codec = choose.choice((Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
    data = choose.choice((compress, compress_like_others))(codec, encode_records(records))
    broken = choose.choice(
        (
            b"",
            data[: choose.randrange(len(data))],
            data[choose.randrange(1, len(data)) :],
            _flip_bits(data, choose, 0, len(data)),
            data + choose.randbytes(8),
            bytes(len(data)),
            compress(codec, b""),
        )
    )
    return encode_batch(BatchHeader(count=len(records), base_offset=base, attributes=codec), broken)


def _broken_xerial(records: Sequence[Record], base: int, choose: random.Random) -> bytes:
    """Return a batch with snappy blocks whose lengths are wrong."""
    block = struct.pack(">i", choose.choice((-4, -5, 0, 3, LARGEST_INT, -LARGEST_INT)))
    body = XERIAL_HEADER + block + choose.randbytes(choose.randint(0, 12))
    return encode_batch(BatchHeader(count=len(records), base_offset=base, attributes=Codec.SNAPPY), body)


def _other_compression(records: Sequence[Record], base: int, choose: random.Random) -> bytes:
    """Return a batch compressed as other tools do it; only some brokers take all of them."""
    codec = choose.choice(tuple(Codec))
    return encode_batch(
        BatchHeader(count=len(records), base_offset=base, attributes=codec),
        compress_like_others(codec, encode_records(records)),
    )


def _inflated(records: Sequence[Record], base: int, choose: random.Random) -> bytes:
    """Return a batch of a few kilobytes in which a part of each record has a megabyte and more."""
    codec = choose.choice((Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD))
    large = b" " * INFLATED_BYTES
    inflate: Callable[[Record], Record] = choose.choice(
        (
            lambda record: replace(record, value=large + (record.value or b"")),
            lambda record: replace(record, key=large),
            lambda record: replace(record, headers=((b"large", large),)),
            lambda record: replace(record, headers=((b"correlation_id", large),)),
            lambda record: replace(record, headers=((b"", b""),) * (INFLATED_BYTES // 50)),
        )
    )
    return encode_batch(
        BatchHeader(count=len(records), base_offset=base, attributes=codec),
        compress(codec, encode_records([inflate(record) for record in records])),
    )


def _producer_fields(records: Sequence[Record], base: int, choose: random.Random) -> bytes:
    """Return a batch of a producer that the broker does not know, some of them in a transaction."""
    return encode_batch(
        BatchHeader(
            count=len(records),
            base_offset=base,
            attributes=choose.choice((0, 0x10)),
            producer_id=choose.choice((0, 10**12, -2)),
            producer_epoch=choose.choice((0, 5, -1)),
            base_sequence=choose.choice((0, 9, -1)),
            first_timestamp=choose.choice((-1, -2, 0, -(10**15), 10**18)),
        ),
        encode_records(records),
    )


def _legacy(records: Sequence[Record], base: int, choose: random.Random) -> bytes:
    codec = choose.choice((Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4))
    return encode_legacy(choose.choice((0, 1)), records, base_offset=base, codec=codec)


def _spoiled_legacy(records: Sequence[Record], base: int, choose: random.Random) -> bytes:
    whole = _legacy(records, base, choose)
    return choose.choice(
        (
            lambda: _flip_bits(whole, choose, 8, len(whole)),
            lambda: _flip_bits(whole, choose, CRC_LEGACY_AT, MAGIC_AT),
            lambda: _cut(whole, choose, keep=LOG_OVERHEAD),
            lambda: with_right_length(_cut(whole, choose, keep=LOG_OVERHEAD)),
        )
    )()


FORGERIES: dict[str, Forge] = {
    "lying-record": _lying_record,
    "header-name-not-utf-8": _header_names_not_utf8,
    "broken-compression": _broken_compression,
    "broken-xerial": _broken_xerial,
    "other-compression": _other_compression,
    "inflated": _inflated,
    "producer-fields": _producer_fields,
    "legacy": _legacy,
    "spoiled-legacy": _spoiled_legacy,
}
