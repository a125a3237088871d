"""A JSON Lines file of chunks, plain or compressed, with every line checked."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import orjson
import zstandard

from pipeline.errors import ConfigurationError
from pipeline.identity import CHUNK_INDEX_FIELDS, DOC_ID_FIELDS, usable_id, usable_index
from pipeline.model import Vector
from streams.indexing.chunks import Chunk

MAX_BYTES = 65_535
"""Longest content, metadata and key of a chunk, in bytes of UTF-8: Milvus stores no longer ones."""

MAX_INTEGER = 2**63 - 1
MAX_FLOAT32 = 3.4028234663852886e38

_TEXT_FIELDS = ("source", "title", "breadcrumb")
_OWN_FIELDS = frozenset({*DOC_ID_FIELDS, *CHUNK_INDEX_FIELDS, *_TEXT_FIELDS, "content", "vector"})
_SHOWN_CHARACTERS = 60
_BOM = b"\xef\xbb\xbf"
_GZIP, _ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def read_chunk_lines(file: Path, *, dimension: int | None = None) -> tuple[Chunk, ...]:
    """Read a file of chunks, one JSON object a line.

    Blank lines and a byte order mark do not count. A file that is compressed with gzip or Zstandard is known
    by its content, whatever its name.

    Args:
        file: The file.
        dimension: How many numbers a vector must have; that of the first vector, where `None`.

    Raises:
        ConfigurationError: One line saying what is wrong, with file, line, field and value.
    """
    chunks = tuple(_distinct(_chunks(file, _content(file).split(b"\n"), dimension), file))
    if not chunks:
        raise ConfigurationError(f"{file}: no chunks in it")
    return chunks


def _content(file: Path) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from error
    try:
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        elif content.startswith(_ZSTANDARD):
            content = _decompressed(content)
    except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
        raise ConfigurationError(f"{file}: cannot be decompressed: {error}") from error
    return content.removeprefix(_BOM)


def _decompressed(content: bytes) -> bytes:
    """Decompress one Zstandard frame after the other."""
    parts: list[bytes] = []
    while content:
        frame = zstandard.ZstdDecompressor().decompressobj()
        parts.append(frame.decompress(content))
        if not frame.eof:
            raise EOFError("it is cut short")
        content = frame.unused_data
    return b"".join(parts)


def _chunks(file: Path, lines: Iterable[bytes], dimension: int | None) -> Iterator[tuple[int, Chunk]]:
    others = "on the lines before" if dimension is None else "in the collection"
    is_first = True
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if is_first and line.lstrip().startswith(b"["):
            raise ConfigurationError(
                f"{file}: is a JSON array, not JSON Lines: write one object a line (jq -c '.[]' does that)"
            )
        is_first = False
        chunk = _Line(file, number, line).chunk(dimension, others)
        dimension = len(chunk.vector) if dimension is None and chunk.vector is not None else dimension
        yield number, chunk


def _distinct(chunks: Iterable[tuple[int, Chunk]], file: Path) -> Iterator[Chunk]:
    seen: dict[str, int] = {}
    for number, chunk in chunks:
        if chunk.key in seen:
            raise ConfigurationError(
                f"{file}, line {number}: chunk {chunk.chunk_index} of document {chunk.doc_id!r} is on line"
                f" {seen[chunk.key]} already"
            )
        seen[chunk.key] = number
        yield chunk


class _Line:
    """One line of a file of chunks, and how to complain of it."""

    def __init__(self, file: Path, number: int, line: bytes) -> None:
        self._where = f"{file}, line {number}"
        try:
            # Unlike orjson this keeps integers of any size, and shows which names occur twice.
            fields = json.loads(line, object_pairs_hook=self._object)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"{self._where}: is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise ConfigurationError(f"{self._where}: must be a JSON object, not {type(fields).__name__}")
        self._fields: Mapping[str, object] = fields

    def chunk(self, dimension: int | None, others: str) -> Chunk:
        """Read the line's chunk.

        Args:
            dimension: How many numbers its vector must have, if that is known.
            others: Where vectors of that dimension are.
        """
        for name, value in self._fields.items():
            if name not in ("vector", *DOC_ID_FIELDS, *CHUNK_INDEX_FIELDS):
                self._check(name, value)
        chunk = Chunk(
            doc_id=self._doc_id(),
            chunk_index=self._chunk_index(),
            content=self._content(),
            source=self._text("source"),
            title=self._text("title"),
            breadcrumb=self._text("breadcrumb"),
            extra={name: value for name, value in self._fields.items() if name not in _OWN_FIELDS},
            vector=self._vector(dimension, others),
        )
        if len(orjson.dumps(chunk.metadata)) > MAX_BYTES:
            raise ConfigurationError(
                f"{self._where}: the metadata are longer than {MAX_BYTES:,} bytes of JSON"
            )
        return chunk

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in fields if names.count(name) > 1)
            raise ConfigurationError(f"{self._where}: {_shown(twice)} occurs twice in one object")
        return fields

    def _check(self, name: str, value: object) -> None:
        """Refuse what cannot be stored, or not as it is, however deep in a field it stands."""
        problem = _problem(name) or _problem(value)
        if problem is not None:
            self._refuse(name, problem)

    def _doc_id(self) -> str:
        name, value = self._first(DOC_ID_FIELDS)
        doc_id = None if _problem(value) == _NOT_TEXT else usable_id(value)
        # Room for the rest of the key, and for a number of any size in it.
        if doc_id is None or len(doc_id.encode()) > MAX_BYTES // 2:
            self._refuse(
                name, f"must be an integer, or a string that is not blank, up to {MAX_BYTES // 2:,} bytes"
            )
        return doc_id

    def _chunk_index(self) -> int:
        name, value = self._first(CHUNK_INDEX_FIELDS)
        chunk_index = usable_index(value)
        if chunk_index is None or chunk_index > MAX_INTEGER:
            self._refuse(name, f"must be an integer of 0 or more, at most {MAX_INTEGER:,}")
        return chunk_index

    def _content(self) -> str:
        value = self._fields.get("content")
        if not isinstance(value, str) or not value.strip() or len(value.encode()) > MAX_BYTES:
            self._refuse("content", f"must be a string that is not blank, up to {MAX_BYTES:,} bytes")
        return value

    def _text(self, name: str) -> str | None:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            self._refuse(name, "must be a string")
        return value

    def _vector(self, dimension: int | None, others: str) -> Vector | None:
        value = self._fields.get("vector")
        if value is None:
            return None
        if not isinstance(value, list) or not value or not all(map(_is_finite, value)):
            self._refuse("vector", "must be a list of finite numbers within 32-bit floats")
        if dimension not in (None, len(value)):
            self._refuse("vector", f"must have {dimension} numbers, as {others}, not {len(value)}")
        return tuple(map(float, value))

    def _first(self, names: tuple[str, ...]) -> tuple[str, object]:
        """Return the first of a field's names that the line has, with its value."""
        name = next((each for each in names if each in self._fields), names[0])
        return name, self._fields.get(name)

    def _refuse(self, name: str, allowed: str) -> NoReturn:
        if name not in self._fields:
            raise ConfigurationError(f"{self._where}: {name} is missing: {allowed}")
        raise ConfigurationError(
            f"{self._where}: {_shown(name)} = {_shown(repr(self._fields[name]))}: {allowed}"
        )


_MAX_DEPTH = 100
_NOT_TEXT = "has a lone surrogate, which is not Unicode text"


def _problem(value: object, depth: int = 0) -> str | None:
    """Say why a value cannot be stored as it is, if it cannot."""
    if depth > _MAX_DEPTH:
        return f"is nested more than {_MAX_DEPTH} deep"
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if not isinstance(value, list):
        return _problem_of_scalar(value)
    return next((problem for each in value if (problem := _problem(each, depth + 1))), None)


def _problem_of_scalar(value: object) -> str | None:
    if isinstance(value, str) and not _is_unicode(value):
        return _NOT_TEXT
    if isinstance(value, int) and not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
        return "has an integer of more than 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return "has NaN or Infinity, which are not JSON, or a number too large for a float"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_FLOAT32


def _shown(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
