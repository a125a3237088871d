"""Files that commands write: whole under their name, or as they were before."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import ConfigurationError, LookupStageError

STANDARD_OUTPUT = Path("-")

_BUFFER_BYTES = 256 * 1_024
_MAX_LINKS = 40
_NOT_SYNCED = frozenset({errno.EINVAL, errno.ENOTSUP})
"""What file systems say that cannot be told to write through."""


class OutputFailed(LookupStageError):
    """A file, a temporary folder or standard output does not take what is written. One line."""


class OutputInterrupted(KeyboardInterrupt):
    """Ctrl-C while a file was written; its text says where what was written by then is."""


class Output:
    """An output that is being written.

    Attributes:
        keep_if_interrupted: Whether to keep what was written if the user interrupts the command: under the
            file's own name if there was no such file, else beside it.
        keep_if_failed: Whether to keep it, beside the file, if the command fails.
    """

    __slots__ = ("_file", "_name", "keep_if_failed", "keep_if_interrupted")

    def __init__(self, file: BinaryIO, name: Path) -> None:
        self._file = file
        self._name = name
        self.keep_if_interrupted = False
        self.keep_if_failed = False

    def write(self, content: bytes) -> int:
        """Write bytes.

        Raises:
            OutputFailed: The disk is full, say.
            BrokenPipeError: Whoever read standard output is gone.
        """
        try:
            return self._file.write(content)
        except OSError as error:
            if self._has_lost_its_reader(error):
                raise
            raise OutputFailed(_refusal(self._name, error)) from error

    def flush(self) -> None:
        """Hand over what is buffered; raise as `write` does."""
        try:
            self._file.flush()
        except OSError as error:
            if self._has_lost_its_reader(error):
                raise
            raise OutputFailed(_refusal(self._name, error)) from error

    def _has_lost_its_reader(self, error: OSError) -> bool:
        return isinstance(error, BrokenPipeError) and self._name == STANDARD_OUTPUT


@contextmanager
def writing(path: Path) -> Iterator[Output]:
    """Open an output; a file gets its name only if the block ends well.

    The content is written beside the file, on the same file system, and renamed at the end. A file that was
    there before keeps its content until then, and passes on its permissions. A symbolic link stays one: the
    file that it names is replaced. Devices, pipes and descriptors (`/dev/stdout`) are written directly.

    Args:
        path: A file, or `-` for standard output.

    Raises:
        ConfigurationError: The output cannot be opened.
        OutputFailed: The output takes no more.
        OutputInterrupted: Ctrl-C, in place of the exception for it, if what was written is kept.
    """
    direct = _opened_directly(path)
    if direct is None:
        with _written_beside(path) as output:
            yield output
        return
    output = Output(direct, path)
    try:
        yield output
        output.flush()
    finally:
        if path != STANDARD_OUTPUT:
            with suppress(OSError):  # it was flushed, or something else is told already
                direct.close()


def is_special(path: Path) -> bool:
    """Return whether a path is standard output, a device, a pipe or a descriptor."""
    return path == STANDARD_OUTPUT or _descriptor(path) is not None or _kind(path) not in {None, stat.S_IFREG}


def check_kept(option: str, path: Path, others: dict[str, Path]) -> None:
    """Refuse an output that is one of the command's other files.

    Args:
        option: The output's option, for the message.
        path: The output.
        others: The other files by what they are.

    Raises:
        ConfigurationError: It is the same file as one of them.
    """
    if is_special(path):
        return
    for what, other in others.items():
        if os.path.realpath(path) == os.path.realpath(other):
            raise ConfigurationError(f"{option} {path}: must not be {what}")


def _opened_directly(path: Path) -> BinaryIO | None:
    if path == STANDARD_OUTPUT:
        if sys.stdout is None:
            raise ConfigurationError("standard output: cannot be written: it is closed")
        return sys.stdout.buffer
    try:
        descriptor = _descriptor(path)
        if descriptor is not None:
            return os.fdopen(os.dup(descriptor), "wb")
        return None if _kind(path) in {None, stat.S_IFREG} else path.open("wb")
    except OSError as error:
        raise ConfigurationError(_refusal(path, error)) from error


def _descriptor(path: Path) -> int | None:
    """Return the open descriptor that a path such as `/dev/stdout` leads to.

    Replacing the file behind it would take it away from whoever opened it.
    """
    for _ in range(_MAX_LINKS):
        folder = os.path.realpath(path.parent)
        if folder in {f"/proc/{os.getpid()}/fd", "/dev/fd"} and path.name.isdigit():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _kind(path: Path) -> int | None:
    """Return the type bits of what a path leads to, `None` if there is nothing (or nothing to be seen)."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except OSError:
        return None


@contextmanager
def _written_beside(path: Path) -> Iterator[Output]:
    staged = _Staged(path)
    output = Output(staged.file, path)
    try:
        yield output
        staged.rename_to(staged.target)
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        kept = staged.salvaged(interrupted=True) if output.keep_if_interrupted else None
        if kept is None:
            raise
        raise OutputInterrupted(f"what was written by then is in {kept}") from error
    except LookupStageError as error:
        kept = staged.salvaged(interrupted=False) if output.keep_if_failed else None
        if kept is not None:
            error.add_note(f"what was written by then is in {kept}")
        raise
    finally:
        staged.discard()


class _Staged:
    """A file under a name of its own, in the folder of the file that it is to become."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.target = Path(os.path.realpath(path))
        self._beside = self.target.parent / f".lookup-stage-{secrets.token_hex(8)}.tmp"
        try:
            before = self._before()
            descriptor = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            raise ConfigurationError(_refusal(path, error)) from error
        self.file: BinaryIO = os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES)
        self._replaces = before is not None
        if before is not None:
            with suppress(OSError):  # another owner's, or a file system without them
                os.fchown(descriptor, before.st_uid, before.st_gid)
            with suppress(OSError):
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))

    def _before(self) -> os.stat_result | None:
        try:
            before = self.target.stat()
        except FileNotFoundError:
            return None
        if not os.access(self.target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return before

    def rename_to(self, name: Path) -> None:
        """Make what was written the file of this name, in one step that a crash does not divide."""
        try:
            self.file.flush()
            try:
                os.fsync(self.file.fileno())
            except OSError as error:
                if error.errno not in _NOT_SYNCED:
                    raise
            self.file.close()
            self._beside.replace(name)
        except OSError as error:
            raise OutputFailed(_refusal(self._path, error)) from error
        _sync_folder(name.parent)

    def salvaged(self, *, interrupted: bool) -> Path | None:
        """Keep what was written, and return where; `None` if the file takes no more."""
        name = self.target if interrupted and not self._replaces else self._partial_name()
        try:
            self.rename_to(name)
        except OutputFailed:
            return None
        return self._path if name == self.target else name

    def _partial_name(self) -> Path:
        stem, dot, suffixes = self.target.name.partition(".")
        names = (f"{stem}.partial{number or ''}{dot}{suffixes}" for number in count())
        return next(name for name in map(self.target.with_name, names) if not os.path.lexists(name))

    def discard(self) -> None:
        """Remove what was not renamed."""
        with suppress(OSError):
            self.file.close()
        with suppress(OSError):
            self._beside.unlink()


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _refusal(path: Path, error: OSError) -> str:
    name = "standard output" if path == STANDARD_OUTPUT else path
    return f"{name}: cannot be written: {error.strerror or error}"
