"""Record batches as bytes, in every version of the message format, right or wrong in any field.

Written from Kafka's protocol, not through a client library: a library refuses to write what is wrong.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import cramjam
from aiokafka.record.util import calc_crc32c

LOG_OVERHEAD = 12
"""Bytes of the base offset and the length, which the length does not count."""

CRC_V2_AT, ATTRIBUTES_V2_AT, HEADER_V2_SIZE = 17, 21, 61
CRC_LEGACY_AT, MAGIC_AT = 12, 16

TIMESTAMP_IS_LOG_APPEND, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
NOW_MS = 1_700_000_000_000

XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1_024

_HEADER_V2 = struct.Struct(">qiibIhiqqqhii")


class Codec(IntEnum):
    """How the records of a batch are compressed, as its attributes tell."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a record says.

    Attributes:
        key: Its key.
        value: Its value.
        headers: Names and values in order; a name of `None` is written with the length -1.
        timestamp_delta: Milliseconds after the batch's first timestamp.
        attributes: No bit of it has a meaning today.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[bytes | None, bytes | None], ...] = ()
    timestamp_delta: int = 0
    attributes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lies:
    """Lengths and counts that a record states in the place of the right ones; `None` is right."""

    length: int | None = None
    offset_delta: int | None = None
    key_length: int | None = None
    value_length: int | None = None
    header_count: int | None = None
    header_name_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """The header of a batch of version 2; `None` stands for what is right."""

    count: int
    base_offset: int = 0
    length: int | None = None
    leader_epoch: int = -1
    magic: int = 2
    crc: int | None = None
    attributes: int = 0
    last_offset_delta: int | None = None
    first_timestamp: int = NOW_MS
    max_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


def varint(number: int) -> bytes:
    """Return a number as a zigzag varint, as records hold their lengths."""
    rest, encoded = (number << 1) ^ (number >> 63), bytearray()
    while rest & ~0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def encode_record(record: Record, offset_delta: int, lies: Lies | None = None) -> bytes:
    """Return a record of version 2 as it stands in a batch."""
    told = lies or Lies()
    headers = b"".join(
        _sized(name, told.header_name_length) + _sized(value, None) for name, value in record.headers
    )
    body = b"".join(
        (
            struct.pack(">b", record.attributes),
            varint(record.timestamp_delta),
            varint(_told(told.offset_delta, offset_delta)),
            _sized(record.key, told.key_length),
            _sized(record.value, told.value_length),
            varint(_told(told.header_count, len(record.headers))),
            headers,
        )
    )
    return varint(_told(told.length, len(body))) + body


def encode_records(records: Sequence[Record]) -> bytes:
    """Return records of version 2, one after the other."""
    return b"".join(encode_record(record, number) for number, record in enumerate(records))


def encode_batch(header: BatchHeader, body: bytes) -> bytes:
    """Return a batch of version 2.

    Args:
        header: What its header states.
        body: Its records, compressed if the attributes say so.
    """
    batch = bytearray(
        _HEADER_V2.pack(
            header.base_offset,
            _told(header.length, HEADER_V2_SIZE - LOG_OVERHEAD + len(body)),
            header.leader_epoch,
            header.magic,
            0,
            header.attributes,
            _told(header.last_offset_delta, header.count - 1),
            header.first_timestamp,
            _told(header.max_timestamp, header.first_timestamp),
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.count,
        )
        + body
    )
    if header.crc is None:
        return with_right_crc(bytes(batch))
    struct.pack_into(">I", batch, CRC_V2_AT, header.crc)
    return bytes(batch)


def well_formed(records: Sequence[Record], codec: Codec = Codec.NONE) -> bytes:
    """Return a batch of version 2 in which nothing is wrong."""
    header = BatchHeader(
        count=len(records),
        attributes=codec,
        max_timestamp=NOW_MS + max(record.timestamp_delta for record in records),
    )
    return encode_batch(header, compress(codec, encode_records(records)))


def with_right_crc(batch: bytes) -> bytes:
    """Return a batch of version 2 with the checksum that its bytes have."""
    mended = bytearray(batch)
    struct.pack_into(">I", mended, CRC_V2_AT, calc_crc32c(bytes(mended[ATTRIBUTES_V2_AT:])))
    return bytes(mended)


def with_right_length(batch: bytes) -> bytes:
    """Return a batch, or one message of a legacy set, with the length that it has."""
    mended = bytearray(batch)
    struct.pack_into(">i", mended, 8, len(mended) - LOG_OVERHEAD)
    return bytes(mended)


def with_base_offset(batch: bytes, offset: int) -> bytes:
    """Return a batch at another offset, which no checksum covers."""
    return struct.pack(">q", offset) + batch[8:]


def base_offset_of(batch: bytes) -> int:
    """Return the offset at which a batch says that it begins."""
    (offset,) = struct.unpack_from(">q", batch)
    return int(offset)


def encode_message(magic: int, offset: int, record: Record, attributes: int = 0) -> bytes:
    """Return a message of version 0 or 1."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", NOW_MS + record.timestamp_delta)
    body += _long_sized(record.key) + _long_sized(record.value)
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def encode_legacy(
    magic: int, records: Sequence[Record], *, base_offset: int, codec: Codec = Codec.NONE
) -> bytes:
    """Return a message set of version 0 or 1; a compressed one is a message that holds the others."""
    if codec is Codec.NONE:
        return b"".join(
            encode_message(magic, base_offset + number, record) for number, record in enumerate(records)
        )
    first = 0 if magic == 1 else base_offset
    inner = b"".join(encode_message(magic, first + number, record) for number, record in enumerate(records))
    wrapper = Record(value=compress(codec, inner))
    return encode_message(magic, base_offset + len(records) - 1, wrapper, attributes=codec)


def compress(codec: Codec, data: bytes) -> bytes:
    """Return data as Kafka's Java client compresses them."""
    return _COMPRESSORS[codec](data)


def compress_like_others(codec: Codec, data: bytes) -> bytes:
    """Return data in a form of the codec that other clients and tools write.

    Two members for gzip, no framing for snappy, linked blocks and checksums for lz4, two frames of unknown
    length for zstd.
    """
    half = len(data) // 2
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return _gzip(data[:half]) + _gzip(data[half:])
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(data))
        case Codec.LZ4:
            return _lz4(data, block_linked=True, content_checksum=True)
        case Codec.ZSTD:
            return _zstd_stream(data[:half]) + _zstd_stream(data[half:])


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)  # the same bytes at any time


def _xerial(data: bytes) -> bytes:
    blocks = (
        bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
        for at in range(0, len(data), _XERIAL_BLOCK)
    )
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _lz4(data: bytes, *, block_linked: bool = False, content_checksum: bool = False) -> bytes:
    compressor = cramjam.lz4.Compressor(level=9, content_checksum=content_checksum, block_linked=block_linked)
    compressor.compress(data)
    return bytes(compressor.finish())


def _zstd_stream(data: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(data)
    return bytes(compressor.finish())


_COMPRESSORS: Mapping[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _xerial,
    Codec.LZ4: _lz4,
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.compress(data, level=3)),
}


def _told(lie: int | None, right: int) -> int:
    return right if lie is None else lie


def _sized(data: bytes | None, lie: int | None) -> bytes:
    return varint(_told(lie, -1 if data is None else len(data))) + (data or b"")


def _long_sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1 if data is None else len(data)) + (data or b"")
