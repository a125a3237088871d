"""What there is to index: a folder of Markdown files, or a file of chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import ConfigurationError
from pipeline.identity import usable_id
from streams.indexing.chunk_lines import MAX_BYTES, read_chunk_lines
from streams.indexing.chunks import MAX_CHUNK_CHARACTERS, Chunk, markdown_chunks
from streams.indexing.folders import MARKDOWN_SUFFIXES, find_documents

__all__ = ["MARKDOWN_SUFFIXES", "MAX_BYTES", "Document", "Documents", "read_documents", "read_source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document and all of its chunks.

    Attributes:
        doc_id: Its id.
        chunks: In order; none where the document is blank.
    """

    doc_id: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Everything there is to index.

    Attributes:
        documents: In the order of their paths or lines.
        passed_over: How many entries of a folder are not documents, by what they are.
    """

    documents: tuple[Document, ...]
    passed_over: Mapping[str, int] = field(default_factory=dict)


def read_documents(source: Path) -> tuple[Document, ...]:
    """Return the documents of a source (see `read_source`)."""
    return read_source(source).documents


def read_source(
    source: Path, *, chunk_size: int = MAX_CHUNK_CHARACTERS, dimension: int | None = None
) -> Documents:
    """Read everything there is to index.

    A folder is searched for Markdown files (see `find_documents`), in the order of their paths; a document's
    id is the path below the folder, with `/` and without suffix. A file has one chunk a line, a JSON object,
    and may be compressed with gzip or Zstandard:

    - `docId` or `doc_id`: a string or an integer; `chunkIndex` or `chunk_index`: an integer, from 0;
    - `content`: the text;
    - `source`, `title`, `breadcrumb`: strings, optional;
    - `vector`: its embedding, optional;
    - every other field is further metadata.

    Args:
        source: The folder or file.
        chunk_size: Most characters of a chunk of Markdown, 100 to 16,000.
        dimension: How many numbers the vectors of a file must have, if that is known.

    Raises:
        ConfigurationError: One line saying what cannot be read, with file, line, field and value. Nothing is
            returned then, so a bad line or file keeps the whole from being indexed.
    """
    if source.is_dir():
        return _read_folder(source, chunk_size)
    if source.is_file():
        return _read_file(source, dimension)
    raise ConfigurationError(f"{source}: no such file or folder")


def _read_folder(folder: Path, chunk_size: int) -> Documents:
    files = find_documents(folder)
    if not files.documents:
        raise ConfigurationError(f"{folder}: no Markdown files ({', '.join(MARKDOWN_SUFFIXES)}) in it")
    documents: dict[str, Document] = {}
    names: dict[str, Path] = {}
    for file in files.documents:
        document = _read_markdown(file, folder, chunk_size)
        first = names.setdefault(document.doc_id, file)
        if first != file:
            raise ConfigurationError(f"{file}: has the same id as {first}: {document.doc_id}")
        documents[document.doc_id] = document
    return Documents(documents=tuple(documents.values()), passed_over=files.passed_over)


def _read_markdown(file: Path, folder: Path, chunk_size: int) -> Document:
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
    chunks = markdown_chunks(text, doc_id=doc_id, source=path.as_posix(), size=chunk_size)
    return Document(doc_id=doc_id, chunks=chunks)


def _read_file(file: Path, dimension: int | None) -> Documents:
    if file.suffix.lower() in MARKDOWN_SUFFIXES:
        raise ConfigurationError(f"{file}: is Markdown: name the folder that it is in")
    documents: dict[str, list[Chunk]] = {}
    for chunk in read_chunk_lines(file, dimension=dimension):
        documents.setdefault(chunk.doc_id, []).append(chunk)
    return Documents(
        documents=tuple(Document(doc_id=doc_id, chunks=tuple(chunks)) for doc_id, chunks in documents.items())
    )
