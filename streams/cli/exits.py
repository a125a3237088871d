"""How commands end: their exit codes, and one line on standard error for whatever goes wrong."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TextIO

import click

from pipeline.errors import ConfigurationError, LookupStageError
from streams.output.files import OutputFailed, OutputInterrupted
from streams.output.printable import printable
from streams.recordings.recording import RecordingUnreadable

NEGATIVE = 1
NOT_DONE = 2
INTERRUPTED = 130
READER_GONE = 141
TERMINATED = 143

EXIT_CODES = (
    "Exit codes: 0 done; 1 a negative finding, such as a value below its threshold, a failed lookup or a"
    " missing topic; 2 wrong use, or it cannot be done (settings, files, servers, output, an unforeseen"
    " error); 130 interrupted (Ctrl-C); 141 the reader of standard output is gone; 143 terminated (SIGTERM)."
)
"""What `--help` says of them."""

_OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})

_NO_ARGUMENTS: type[click.UsageError] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Raised by Click 8.2 and later where a group of commands is given none; earlier ones print help."""


class Commands(click.Group):
    """A group of commands whose interruption is told in the one line that every command ends with."""

    def invoke(self, context: click.Context) -> object:
        """Run the command; Click would print an empty line before it ends for a Ctrl-C."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt as error:
            raise click.Abort from error


def exit_code(run: Callable[[], object]) -> int:
    """Run a command and return its exit code; whatever it raises becomes one line on standard error.

    Args:
        run: The command; an integer that it returns is the exit code.
    """
    with _terminated_as_if_interrupted() as terminated:
        try:
            result = run()
            _flush()
        except SystemExit as error:
            # Click and Rich end the process like this when the reader of standard output is gone.
            if not _is_broken_pipe(error):
                raise
            return _silently(READER_GONE)
        except (click.Abort, KeyboardInterrupt, asyncio.CancelledError) as error:
            how, code = ("terminated", TERMINATED) if terminated.is_set() else ("interrupted", INTERRUPTED)
            kept = error.__cause__ if isinstance(error, click.Abort) else error
            return _complain(f"{how}: {kept}" if isinstance(kept, OutputInterrupted) else how, code)
        except Exception as error:  # noqa: BLE001 - told in one line, whatever it is
            return _failed(error)
    return result if isinstance(result, int) else 0


def _failed(error: Exception) -> int:
    if isinstance(error, _NO_ARGUMENTS):
        error.show()
        return NOT_DONE
    if isinstance(error, click.ClickException):
        return _complain(error.format_message(), NOT_DONE)
    if isinstance(error, LookupStageError):
        is_negative = not isinstance(error, ConfigurationError | RecordingUnreadable | OutputFailed)
        return _complain(_with_notes(error), NEGATIVE if is_negative else NOT_DONE)
    if _is_broken_pipe(error) and (_is_broken(sys.stdout) or _is_broken(sys.stderr)):
        return _silently(READER_GONE)
    return _complain(_unforeseen(error), NOT_DONE)


def _with_notes(error: Exception) -> str:
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


def _unforeseen(error: Exception) -> str:
    """Name an error that nobody expected, and its place; Python's development mode shows all of it."""
    if sys.flags.dev_mode:
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in _OUTPUT_ERRORS:
        # Files that commands write name themselves, so that it was standard output, or a library's own file.
        return f"output cannot be written: {error.strerror}"
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(innermost.filename).name}:{innermost.lineno}"
    return f"unforeseen error, {type(error).__name__} at {place}: {error or 'no message'}"


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _is_broken_pipe(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, BrokenPipeError):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def _is_broken(stream: TextIO | None) -> bool:
    """Return whether a stream's reader is gone; a broken pipe may be a server's connection as well."""
    descriptor = _descriptor(stream)
    if descriptor is None:
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _complain(message: str, code: int) -> int:
    with suppress(OSError):
        click.echo(f"lookup-stage: {printable(' '.join(message.split()))}", err=True)
    return _silently(code)


def _silently(code: int) -> int:
    """Drop output that cannot be written, so that the interpreter does not complain of it at its end."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            descriptor = _descriptor(stream)
            if descriptor is not None:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
    return code


def _descriptor(stream: TextIO | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):
        return None


@contextmanager
def _terminated_as_if_interrupted() -> Iterator[threading.Event]:
    """Let SIGTERM do what Ctrl-C does, so that temporary files are removed; a worker has its own way."""
    terminated = threading.Event()

    def terminate(_number: int, _frame: FrameType | None) -> None:
        terminated.set()
        if signal.getsignal(signal.SIGINT) in {signal.SIG_IGN, signal.SIG_DFL}:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():
        yield terminated
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield terminated
    finally:
        signal.signal(signal.SIGTERM, before)
