"""Files of recordings, one a line, streamed: `.jsonl` as they are, `.jsonl.zst` compressed with Zstandard."""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias, cast

import zstandard

from pipeline.errors import ConfigurationError
from streams.output.files import is_special, writing
from streams.recordings.recording import Recording, RecordingUnreadable, decode_recording

MAX_LINE_BYTES = 128 * 1_024 * 1_024
"""More than any broker takes as one record."""

_SUFFIX, _COMPRESSED_SUFFIX = ".jsonl", ".jsonl.zst"
_COMPRESSED_CHUNK_BYTES = 1_024
"""What it decompresses to is held at once, and lines that are much alike become a thousandth."""

_BUFFER_BYTES = 256 * 1_024
_LINES_BETWEEN_REPORTS = 256

Report: TypeAlias = Callable[[int, int], None]
"""Told how many bytes of the file are read, and how many there are."""


class NumberedRecording(NamedTuple):
    """A recording and where it stands.

    Attributes:
        number: Of its line, from 1.
        line: The line's bytes, without its end.
        recording: What is in it.
    """

    number: int
    line: bytes
    recording: Recording


class _CutShort(Exception):
    """A compressed file ends before its content does."""


def read_recordings(
    path: Path,
    *,
    progress: Report = lambda done, total: None,  # noqa: ARG005 - told, and does nothing
    keep_going: Callable[[RecordingUnreadable], None] | None = None,
) -> Iterator[NumberedRecording]:
    """Read a file of recordings, a line at a time.

    Blank lines, a byte order mark and carriage returns at the ends of lines are not part of recordings.

    Args:
        path: A file whose name ends in `.jsonl` or `.jsonl.zst`.
        progress: Told from time to time how far it is.
        keep_going: Given what is wrong with a line, instead of raising it; the lines before it were given,
            those after it are not read.

    Raises:
        RecordingUnreadable: One line naming the file, the line, and what is wrong with it.
        ConfigurationError: The file cannot be opened.
    """
    try:
        yield from _numbered(path, progress)
    except RecordingUnreadable as error:
        if keep_going is None:
            raise
        keep_going(error)


@contextmanager
def writing_recordings(path: Path, *, keep_if_failed: bool = False) -> Iterator[Callable[[bytes], None]]:
    """Open a file for recordings; call with each line, without its end.

    The file has its name once the block ends well; what was there before stays until then. If the user
    interrupts the block, what was written by then is kept and can be read: see `streams.output.files`.

    Args:
        path: A file whose name ends in `.jsonl` or `.jsonl.zst`, a device or a pipe of any name, or `-` for
            standard output.
        keep_if_failed: Whether to keep it, beside the file, if the block fails, too.

    Raises:
        ConfigurationError: The file cannot be opened.
        OutputFailed: It takes no more: the disk is full, or whoever read it is gone.
    """
    compressed = path.name.endswith(_COMPRESSED_SUFFIX) if is_special(path) else _is_compressed(path)
    with writing(path) as output:

        def to(write: Callable[[bytes], object]) -> Callable[[bytes], None]:
            def write_line(line: bytes) -> None:
                write(line + b"\n")
                output.keep_if_interrupted, output.keep_if_failed = True, keep_if_failed

            return write_line

        if not compressed:
            yield to(output.write)
            return
        compressor = zstandard.ZstdCompressor(write_checksum=True)
        with compressor.stream_writer(cast("BinaryIO", output), closefd=False) as writer:
            yield to(writer.write)


def _numbered(path: Path, progress: Report) -> Iterator[NumberedRecording]:
    number = 0
    with _opened_to_read(path) as (file, lines):
        total = path.stat().st_size
        try:
            for number, read in enumerate(iter(lambda: lines.readline(MAX_LINE_BYTES), b""), start=1):
                line = read.removeprefix(BOM_UTF8) if number == 1 else read
                if line and not line.isspace():
                    yield NumberedRecording(number, line.rstrip(b"\r\n"), _decoded(line))
                if number % _LINES_BETWEEN_REPORTS == 0:
                    progress(file.tell(), total)
        except RecordingUnreadable as error:
            raise RecordingUnreadable(f"{path}: line {number}: {error}") from None
        except (_CutShort, zstandard.ZstdError) as error:
            why = "is cut short" if isinstance(error, _CutShort) else f"cannot be decompressed: {error}"
            raise RecordingUnreadable(f"{path}: line {number + 1}: {why}") from None
        except OSError as error:
            raise RecordingUnreadable(
                f"{path}: line {number + 1}: cannot be read: {error.strerror or error}"
            ) from error
        progress(total, total)


def _decoded(line: bytes) -> Recording:
    try:
        return decode_recording(line)
    except RecordingUnreadable:
        if line.lstrip().startswith(b"["):
            raise RecordingUnreadable(
                "is a JSON array: a file of recordings has a JSON object on each line"
            ) from None
        if line.endswith(b"\n"):
            raise
        what = "is cut short" if len(line) < MAX_LINE_BYTES else f"has more than {MAX_LINE_BYTES} bytes"
        raise RecordingUnreadable(what) from None


@contextmanager
def _opened_to_read(path: Path) -> Iterator[tuple[BinaryIO, io.BufferedIOBase]]:
    compressed = _is_compressed(path)
    try:
        file = path.open("rb", buffering=_BUFFER_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    with file:
        source = io.BufferedReader(_Decompressed(file), _BUFFER_BYTES) if compressed else file
        yield file, cast("io.BufferedIOBase", source)


def _is_compressed(path: Path) -> bool:
    if path.name.endswith(_COMPRESSED_SUFFIX):
        return True
    if path.name.endswith(_SUFFIX):
        return False
    raise ConfigurationError(
        f"{path}: the name of a file of recordings ends in {_SUFFIX} or {_COMPRESSED_SUFFIX}"
    )


class _Decompressed(io.RawIOBase):
    """What is in a Zstandard file, of one frame or several; `zstandard`'s own reader hides a cut."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            chunk = self._frame.unused_data if self._frame.eof else b""
            chunk = chunk or self._file.read(_COMPRESSED_CHUNK_BYTES)
            if not chunk:
                if not self._frame.eof:
                    raise _CutShort
                return 0
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._ready = memoryview(self._frame.decompress(chunk))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
