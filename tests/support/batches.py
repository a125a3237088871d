"""Record batches of Kafka made by hand, well-formed and not."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka import codec
from aiokafka.record.util import calc_crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_AT, ATTRIBUTES_AT = 17, 21
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 0x10, 0x20, 0x08

_ENCODERS = {
    "none": bytes,
    "gzip": codec.gzip_encode,
    "snappy": codec.snappy_encode,
    "lz4": codec.lz4_encode,
    "zstd": codec.zstd_encode,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A record to put into a batch.

    Attributes:
        value: Its value.
        key: Its key.
        headers: Names as bytes, so that they need not be UTF-8.
        offset: Relative to the batch.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    offset: int | None = None


def compressed(name: str, plain: bytes) -> bytes:
    """Return bytes as a codec writes them."""
    return bytes(_ENCODERS[name](plain))


def varint(number: int) -> bytes:
    """Return a number in Kafka's variable length."""
    left, written = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        written.append((left & 0x7F) | 0x80)
        left >>= 7
    return bytes([*written, left])


def field(content: bytes | None) -> bytes:
    """Return a nullable field with its length."""
    return varint(-1) if content is None else varint(len(content)) + content


def record(row: Row, offset: int, *, count: int | None = None, more: bytes = b"") -> bytes:
    """Return the bytes of a record.

    Args:
        row: What is in it.
        offset: Its relative offset where the row has none.
        count: Claimed number of headers.
        more: Bytes behind its end, but within its length.
    """
    headers = b"".join(field(name) + field(value) for name, value in row.headers)
    body = b"\x00" + varint(0) + varint(offset if row.offset is None else row.offset)
    body += field(row.key) + field(row.value) + varint(len(row.headers) if count is None else count)
    body += headers + more
    return varint(len(body)) + body


def batch(  # noqa: PLR0913 - a batch has that many fields
    *rows: Row,
    base: int = 0,
    codec: str = "none",
    attributes: int = 0,
    payload: bytes | None = None,
    last: int | None = None,
    producer: int = -1,
    count: int | None = None,
) -> bytes:
    """Return a batch of format 2 with a right checksum.

    Args:
        rows: Its records.
        base: Its base offset.
        codec: How its records are compressed.
        attributes: Flags beside the codec.
        payload: Its records as they are written, instead of the rows.
        last: Its last offset relative to the base.
        producer: Id of its producer.
        count: Claimed number of records.
    """
    plain = b"".join(record(row, offset) for offset, row in enumerate(rows))
    data = compressed(codec, plain) if payload is None else payload
    last_delta = max(len(rows) - 1, 0) if last is None else last
    number = len(rows) if count is None else count
    header = HEADER.pack(
        base,
        HEADER.size - 12 + len(data),
        0,
        2,
        0,
        attributes | CODECS.index(codec),
        last_delta,
        1_000,
        2_000,
        producer,
        0,
        0,
        number,
    )
    return sealed(header + data)


def sealed(data: bytes) -> bytes:
    """Return a batch of format 2 with its checksum set right."""
    crc = calc_crc32c(data[ATTRIBUTES_AT:])
    return data[:CRC_AT] + struct.pack(">I", crc) + data[CRC_AT + 4 :]


def marker(base: int, producer: int, *, commit: bool) -> bytes:
    """Return the marker that ends a transaction."""
    row = Row(key=struct.pack(">hh", 0, int(commit)), value=b"\x00" * 6)
    return batch(row, base=base, attributes=TRANSACTIONAL | CONTROL, producer=producer)


def legacy(offset: int, value: bytes, *, magic: int = 1, crc: int | None = None) -> bytes:
    """Return a message of format 0 or 1."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 1_000) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    checksum = zlib.crc32(body) if crc is None else crc
    return struct.pack(">qiI", offset, len(body) + 4, checksum) + body
