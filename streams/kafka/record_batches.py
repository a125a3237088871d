"""Kafka's record batches as bytes: what holds one, and what can be saved of one that does not decode.

aiokafka gives up on a whole partition where one byte of it does not decode. These functions tell what is
wrong, and find the records of a batch that can still be told apart.

Source: Kafka's message formats 0, 1 and 2.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import zstandard
from aiokafka import codec
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch

MAX_PAYLOAD_BYTES = 128 * 1_024 * 1_024
"""Largest payload that a compressed batch may have: a kilobyte of Zstandard can claim gigabytes."""

LOG_OVERHEAD = 12
MAGIC_AT = 16
NEWEST_MAGIC = 2
ATTRIBUTES_AT = 21
MIN_LEGACY_LENGTH = 14
HEADER = struct.Struct(">qiibIhiqqqhii")
NO_TIMESTAMP = -1

_CODEC_MASK = 0x07
_LOG_APPEND_TIME_MASK = 0x08
_CHUNK_BYTES = 256 * 1_024
_MAX_VARINT_BYTES = 10
_CONTINUES = 0x80
_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

Batch: TypeAlias = Any
"""One of aiokafka's batches, of either format."""


class BatchUndecodable(Exception):
    """A batch, or a record in it, that cannot be decoded."""


class BatchDamaged(BatchUndecodable):
    """The bytes are not those that the producer wrote: nothing in them can be trusted, offsets included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRecord:
    """A record of a batch, or a stretch of offsets whose records cannot be told apart.

    Attributes:
        first: First offset.
        last: Last offset; the same for a record.
        timestamp: Milliseconds since the epoch, -1 where it is not known.
        key: The record's key, as far as it can be told.
        value: The record's value; of what cannot be decoded, the bytes of all of it.
        headers: The record's headers; bytes of their names that are not UTF-8 are replaced.
        fault: Why it cannot be decoded, `None` where it was.
    """

    first: int
    last: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The records of a batch of format 2, decompressed, and what they are relative to.

    Attributes:
        data: The records.
        base: The batch's base offset.
        last: Its last offset.
        first_timestamp: What the records' times are relative to.
        fixed_timestamp: The time of every record where the broker set it.
    """

    data: bytes | memoryview
    base: int
    last: int
    first_timestamp: int
    fixed_timestamp: int | None


def frames(data: bytes) -> Iterator[memoryview]:
    """Return each whole batch of a fetched record set, up to where one is cut off.

    Raises:
        BatchDamaged: There is no whole batch at the beginning, or a batch has an impossible length.
    """
    view, at = memoryview(data), 0
    while len(view) - at >= LOG_OVERHEAD:
        length = struct.unpack_from(">i", view, at + 8)[0]
        if length < MIN_LEGACY_LENGTH:
            raise BatchDamaged(f"a batch cannot have {length} bytes")
        end = at + LOG_OVERHEAD + length
        if end > len(view):
            break
        yield view[at:end]
        at = end
    if at == 0:
        # Brokers send at least one batch whole, however large it is.
        raise BatchDamaged(f"the batch is cut off after {len(view)} bytes")


def base_offset_at(data: bytes, at: int) -> int | None:
    """Return the offset with which the batch at a place begins, `None` where there is not enough of it."""
    if len(data) - at < LOG_OVERHEAD:
        return None
    base: int = struct.unpack_from(">q", data, at)[0]
    return base


def open_batch(frame: memoryview) -> Batch:
    """Return aiokafka's batch of a frame, once its checksum is checked.

    Raises:
        BatchDamaged: The format is unknown, the batch is too short for its format, or the checksum is wrong.
    """
    magic = frame[MAGIC_AT]
    if magic > NEWEST_MAGIC:
        raise BatchDamaged(f"the message format {magic} is not known")
    if magic == NEWEST_MAGIC and len(frame) < HEADER.size:
        raise BatchDamaged(f"a batch of format 2 cannot have {len(frame)} bytes")
    try:
        batch = DefaultRecordBatch(frame) if magic == NEWEST_MAGIC else LegacyRecordBatch(frame, magic)
        intact = batch.validate_crc()
    except Exception as error:
        raise BatchDamaged(f"the batch cannot be read: {error}") from error
    if not intact:
        raise BatchDamaged("the checksum of the batch is wrong")
    return batch


def offsets_of(frame: memoryview) -> tuple[int, int]:
    """Return the first and last offset that a frame claims to hold; its bytes may be damaged.

    Of format 2 only a number of records that agrees with the offsets is believed.
    """
    base: int = struct.unpack_from(">q", frame)[0]
    if frame[MAGIC_AT] != NEWEST_MAGIC or len(frame) < HEADER.size:
        return base, base
    fields = HEADER.unpack_from(frame)
    last_delta, count = fields[6], fields[12]
    return (base, base + last_delta) if count == last_delta + 1 and count > 0 else (base, base)


def plain_batch(frame: memoryview, batch: Batch) -> Batch:
    """Return a batch of format 2 with its records decompressed; one that is not compressed stays as it is.

    Raises:
        BatchUndecodable: The codec is unknown, its data is broken, or there is too much of it.
    """
    payload = _decompressed(frame, batch)
    if payload is None:
        return batch
    header = bytearray(frame[: HEADER.size])
    header[ATTRIBUTES_AT + 1] &= ~_CODEC_MASK & 0xFF
    return DefaultRecordBatch(bytes(header) + payload)


def payload_of(frame: memoryview, batch: Batch) -> Payload:
    """Return the records of a batch of format 2 and what they are relative to.

    Raises:
        BatchUndecodable: As `plain_batch`.
    """
    data = _decompressed(frame, batch)
    appended = bool(batch.attributes & _LOG_APPEND_TIME_MASK)
    return Payload(
        data=frame[HEADER.size :] if data is None else data,
        base=batch.base_offset,
        last=batch.next_offset - 1,
        first_timestamp=batch.first_timestamp,
        fixed_timestamp=batch.max_timestamp if appended else None,
    )


def saved_records(payload: Payload, begin: int, why: str) -> Iterator[SavedRecord]:
    """Return the records of a batch that aiokafka does not decode, in the order of their offsets.

    A record whose end is known but that does not decode comes with its fault. From where records cannot be
    told apart, the rest comes as one stretch up to the batch's last offset.

    Args:
        payload: The batch's records.
        begin: First offset that is asked for.
        why: What aiokafka has against the batch.
    """
    data, at, following = payload.data, 0, payload.base
    while at < len(data) and following <= payload.last:
        try:
            record, end = _saved_record(payload, at, following)
        except (BatchUndecodable, struct.error) as error:
            why = str(error)
            break
        if record.last >= begin:
            yield record
        at, following = end, record.last + 1
    first = max(following, begin)
    if first <= payload.last:
        yield SavedRecord(
            first=first,
            last=payload.last,
            timestamp=NO_TIMESTAMP if payload.fixed_timestamp is None else payload.fixed_timestamp,
            key=None,
            value=bytes(data[at:]),
            fault=why,
        )


def _saved_record(payload: Payload, at: int, following: int) -> tuple[SavedRecord, int]:
    """Return the record that begins at `at`, and where it ends.

    Raises:
        BatchUndecodable: Its end or its offset cannot be told.
    """
    length, begin = _varint(payload.data, at)
    end = begin + length
    if length < 1 or end > len(payload.data):
        raise BatchUndecodable(f"a record cannot have {length} bytes")
    body = payload.data[begin:end]
    time_delta, place = _varint(body, 1)
    offset_delta, place = _varint(body, place)
    offset = payload.base + offset_delta
    if not following <= offset <= payload.last:
        raise BatchUndecodable(f"a record of the batch has the offset {offset}")
    timestamp = payload.first_timestamp + time_delta
    if payload.fixed_timestamp is not None:
        timestamp = payload.fixed_timestamp
    key: bytes | None = None
    try:
        key, place = _field(body, place)
        value, place = _field(body, place)
        headers = tuple(_headers(body, place))
    except BatchUndecodable as error:
        fault = SavedRecord(
            first=offset, last=offset, timestamp=timestamp, key=key, value=bytes(body), fault=str(error)
        )
        return fault, end
    return SavedRecord(
        first=offset, last=offset, timestamp=timestamp, key=key, value=value, headers=headers
    ), end


def _headers(body: bytes | memoryview, at: int) -> Iterator[tuple[str, bytes | None]]:
    count, at = _varint(body, at)
    if count < 0:
        raise BatchUndecodable(f"a record cannot have {count} headers")
    for _ in range(count):
        name, at = _field(body, at)
        if name is None:
            raise BatchUndecodable("a header of the record has no name")
        value, at = _field(body, at)
        # Not as surrogates, which no client could write into a dead letter.
        yield name.decode("utf-8", "replace"), value
    if at != len(body):
        raise BatchUndecodable(f"the record has {len(body) - at} bytes too many")


def _field(body: bytes | memoryview, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(body, at)
    if length < 0:
        return None, at
    if at + length > len(body):
        raise BatchUndecodable(f"a field of the record cannot have {length} bytes")
    return bytes(body[at : at + length]), at + length


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < _CONTINUES:
            return (value >> 1) ^ -(value & 1), at + count + 1
    raise BatchUndecodable("a number of the record has no end")


def _decompressed(frame: memoryview, batch: Batch) -> bytes | None:
    """Return the payload of a compressed batch, `None` for one that is not compressed."""
    number = batch.attributes & _CODEC_MASK
    if number == 0:
        return None
    name = _CODECS.get(number)
    if name is None:
        raise BatchUndecodable(f"the compression codec {number} is not known")
    data = bytes(frame[HEADER.size :])
    try:
        if name == "gzip":
            payload = _gunzipped(data)
        elif name == "zstd":
            payload = _unzstd(data)
        else:
            # Neither makes more than 255 bytes of one.
            payload = codec.snappy_decode(data) if name == "snappy" else codec.lz4_decode(data)
    except BatchUndecodable:
        raise
    except Exception as error:
        raise BatchUndecodable(f"the {name} data of the batch is broken: {error}") from error
    return payload


def _gunzipped(data: bytes) -> bytes:
    parts: list[bytes] = []
    left = MAX_PAYLOAD_BYTES + 1
    while data:
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        parts.append(member.decompress(data, left))
        left -= len(parts[-1])
        if left <= 0:
            raise _too_much()
        if not member.eof:
            raise zlib.error("incomplete stream")
        data = member.unused_data
    return b"".join(parts)


def _unzstd(data: bytes) -> bytes:
    parts: list[bytes] = []
    size = 0
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        while part := reader.read(_CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            if size > MAX_PAYLOAD_BYTES:
                raise _too_much()
    return b"".join(parts)


def _too_much() -> BatchUndecodable:
    return BatchUndecodable(f"the batch has more than {MAX_PAYLOAD_BYTES} bytes when decompressed")
