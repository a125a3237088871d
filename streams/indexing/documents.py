"""What there is to index: a folder of Markdown files, or a file of chunks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import orjson

from pipeline.errors import ConfigurationError
from pipeline.identity import CHUNK_INDEX_FIELDS, DOC_ID_FIELDS, usable_id, usable_index
from pipeline.model import Vector
from streams.indexing.chunks import Chunk, markdown_chunks

MARKDOWN_SUFFIXES = (".md", ".markdown")

MAX_BYTES = 65_535
"""Longest content, metadata and key of a chunk, in bytes of UTF-8: Milvus stores no longer ones."""

_TEXT_FIELDS = ("source", "title", "breadcrumb")
_OWN_FIELDS = frozenset({*DOC_ID_FIELDS, *CHUNK_INDEX_FIELDS, *_TEXT_FIELDS, "content", "vector"})
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document and all of its chunks.

    Attributes:
        doc_id: Its id.
        chunks: In order; none where the document is blank.
    """

    doc_id: str
    chunks: tuple[Chunk, ...]


def read_documents(source: Path) -> tuple[Document, ...]:
    """Read everything there is to index.

    A folder is searched for Markdown files at any depth, in the order of their paths; a document's id is the
    path below the folder, with `/` and without suffix. A file has one chunk a line, a JSON object:

    - `docId` or `doc_id`: a string or an integer; `chunkIndex` or `chunk_index`: an integer, from 0;
    - `content`: the text;
    - `source`, `title`, `breadcrumb`: strings, optional;
    - `vector`: its embedding, optional;
    - every other field is further metadata.

    Raises:
        ConfigurationError: One line saying what cannot be read, with file, line, field and value. Nothing is
            given then, so a bad line keeps the whole from being indexed.
    """
    if source.is_dir():
        return _read_folder(source)
    if source.is_file():
        return _read_lines(source)
    raise ConfigurationError(f"{source}: no such file or folder")


def _read_folder(folder: Path) -> tuple[Document, ...]:
    files = sorted(
        each for each in folder.rglob("*") if each.suffix.lower() in MARKDOWN_SUFFIXES and each.is_file()
    )
    if not files:
        raise ConfigurationError(f"{folder}: no Markdown files ({', '.join(MARKDOWN_SUFFIXES)}) in it")
    documents = tuple(_read_markdown(each, folder) for each in files)
    ids: dict[str, Path] = {}
    for file, document in zip(files, documents, strict=True):
        if document.doc_id in ids:
            raise ConfigurationError(f"{file}: has the same id as {ids[document.doc_id]}: {document.doc_id}")
        ids[document.doc_id] = file
    return documents


def _read_markdown(file: Path, folder: Path) -> Document:
    path = file.relative_to(folder)
    doc_id = usable_id(path.with_suffix("").as_posix())
    try:
        text = file.read_text(encoding="utf-8")
        path.as_posix().encode()
    except UnicodeError as error:
        raise ConfigurationError(f"{str(file)!r}: the file or its name is not UTF-8") from error
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from error
    if doc_id is None:
        raise ConfigurationError(f"{str(file)!r}: a blank name cannot be an id")
    return Document(doc_id=doc_id, chunks=markdown_chunks(text, doc_id=doc_id, source=path.as_posix()))


def _read_lines(file: Path) -> tuple[Document, ...]:
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from error
    documents: dict[str, list[Chunk]] = {}
    for chunk in _distinct(_chunks(file, lines), file):
        documents.setdefault(chunk.doc_id, []).append(chunk)
    if not documents:
        raise ConfigurationError(f"{file}: no chunks in it")
    return tuple(Document(doc_id=doc_id, chunks=tuple(chunks)) for doc_id, chunks in documents.items())


def _chunks(file: Path, lines: Iterable[bytes]) -> Iterator[tuple[int, Chunk]]:
    dimension: int | None = None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            chunk = _Line(file, number, line).chunk(dimension)
            dimension = len(chunk.vector) if chunk.vector is not None else dimension
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
            fields = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ConfigurationError(f"{self._where}: is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise ConfigurationError(f"{self._where}: must be a JSON object, not {type(fields).__name__}")
        self._fields: Mapping[str, object] = fields

    def chunk(self, dimension: int | None) -> Chunk:
        """Read the line's chunk; `dimension` is that of the vectors on the lines before, if any had one."""
        chunk = Chunk(
            doc_id=self._doc_id(),
            chunk_index=self._chunk_index(),
            content=self._content(),
            source=self._text("source"),
            title=self._text("title"),
            breadcrumb=self._text("breadcrumb"),
            extra={name: value for name, value in self._fields.items() if name not in _OWN_FIELDS},
            vector=self._vector(dimension),
        )
        if len(orjson.dumps(chunk.metadata)) > MAX_BYTES:
            raise ConfigurationError(
                f"{self._where}: the metadata are longer than {MAX_BYTES:,} bytes of JSON"
            )
        return chunk

    def _doc_id(self) -> str:
        name, value = self._first(DOC_ID_FIELDS)
        doc_id = usable_id(value)
        # Room for the rest of the key, and for a number of any size in it.
        if doc_id is None or len(doc_id.encode()) > MAX_BYTES // 2:
            self._refuse(
                name, f"must be an integer, or a string that is not blank, up to {MAX_BYTES // 2:,} bytes"
            )
        return doc_id

    def _chunk_index(self) -> int:
        name, value = self._first(CHUNK_INDEX_FIELDS)
        chunk_index = usable_index(value)
        if chunk_index is None:
            self._refuse(name, "must be an integer of 0 or more")
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

    def _vector(self, dimension: int | None) -> Vector | None:
        value = self._fields.get("vector")
        if value is None:
            return None
        if not isinstance(value, list) or not value or not all(map(_is_finite, value)):
            self._refuse("vector", "must be a list of finite numbers")
        if dimension not in (None, len(value)):
            self._refuse("vector", f"must have {dimension} numbers, as on the lines before, not {len(value)}")
        return tuple(map(float, value))

    def _first(self, names: tuple[str, ...]) -> tuple[str, object]:
        """Return the first of a field's names that the line has, with its value."""
        name = next((each for each in names if each in self._fields), names[0])
        return name, self._fields.get(name)

    def _refuse(self, name: str, allowed: str) -> NoReturn:
        if name not in self._fields:
            raise ConfigurationError(f"{self._where}: {name} is missing: {allowed}")
        shown = repr(self._fields[name])
        if len(shown) > _SHOWN_CHARACTERS:
            shown = f"{shown[:_SHOWN_CHARACTERS]}…"
        raise ConfigurationError(f"{self._where}: {name} = {shown}: {allowed}")


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
