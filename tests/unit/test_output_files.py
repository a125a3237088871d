"""Files that commands write: what was there before stays until the new content is whole."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError, LookupStageError
from streams.output.files import OutputFailed, OutputInterrupted, check_kept, is_special, writing


def put(path: Path, content: bytes) -> None:
    """Write a file."""
    with writing(path) as output:
        output.write(content)


def break_off(path: Path, error: BaseException, *, interrupted: bool = False, failed: bool = False) -> None:
    """Write half a file, and raise an error."""
    with writing(path) as output:
        output.keep_if_interrupted, output.keep_if_failed = interrupted, failed
        output.write(b"half")
        raise error


def names(folder: Path) -> list[str]:
    """Return what is in a folder, so that nothing left behind is missed."""
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a file that exists."""
    path = tmp_path / "file.jsonl"
    path.write_bytes(b"old")
    return path


def test_content_replaces_what_was_there_at_the_end(old: Path) -> None:
    """Until then others read the old content."""
    with writing(old) as output:
        output.write(b"new")
        output.flush()
        assert old.read_bytes() == b"old"
    assert old.read_bytes() == b"new"
    assert names(old.parent) == ["file.jsonl"]


@pytest.mark.parametrize("error", [ValueError("bad"), LookupStageError("bad"), KeyboardInterrupt()])
def test_failure_leaves_what_was_there(old: Path, error: BaseException) -> None:
    """And nothing else in the folder."""
    with pytest.raises(type(error)):
        break_off(old, error)
    assert (old.read_bytes(), names(old.parent)) == (b"old", ["file.jsonl"])


def test_failure_makes_no_file(tmp_path: Path) -> None:
    """A file that was not there is not there."""
    with pytest.raises(ValueError, match="bad"):
        break_off(tmp_path / "new", ValueError("bad"))
    assert names(tmp_path) == []


def test_permissions_are_those_of_the_file_before(old: Path) -> None:
    """A private file stays private; a new one has what the umask leaves."""
    old.chmod(0o640)
    put(old, b"new")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    put(old.with_name("other"), b"new")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(old.with_name("other").stat().st_mode) == 0o666 & ~umask


def test_a_link_stays_one(tmp_path: Path, old: Path) -> None:
    """The file that it names is replaced, in its own folder."""
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link.jsonl"
    link.symlink_to(old)
    put(link, b"new")
    assert (link.is_symlink(), old.read_bytes(), names(link.parent)) == (True, b"new", ["link.jsonl"])
    dangling = tmp_path / "links" / "dangling"
    dangling.symlink_to(tmp_path / "made")
    put(dangling, b"new")
    assert (tmp_path / "made").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["missing/file", "file.jsonl/file", "folder", "loop"])
def test_outputs_that_cannot_be_opened_are_named(tmp_path: Path, old: Path, name: str) -> None:
    """Before anything is read: one line."""
    (old.parent / "folder").mkdir()
    (old.parent / "loop").symlink_to("loop")
    with pytest.raises(ConfigurationError, match=r"cannot be written: .+"):
        put(tmp_path / name, b"new")
    assert names(tmp_path) == ["file.jsonl", "folder", "loop"]


# Directly written


def test_a_full_device_is_told_in_one_line() -> None:
    """It is written directly, not replaced by a file."""
    with pytest.raises(OutputFailed, match=r"^/dev/full: cannot be written: No space left on device$"):
        put(Path("/dev/full"), b"new")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    """Its reader gets the content, and it stays a pipe."""
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    put(pipe, b"new")
    reader.join(10)
    assert (read, stat.S_ISFIFO(pipe.stat().st_mode)) == ([b"new"], True)


def test_a_descriptor_is_written_where_it_stands(old: Path) -> None:
    """`/dev/stdout` of `>> file` is appended to: the file is its opener's."""
    with old.open("ab") as opened:
        path = Path(f"/dev/fd/{opened.fileno()}")
        put(path, b" and new")
        assert is_special(path)
    assert old.read_bytes() == b"old and new"


# What is kept


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, asyncio.CancelledError])
def test_interrupted_content_is_kept_under_its_name(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    """Where there was no such file; the exception says where."""
    path = tmp_path / "file.jsonl"
    with pytest.raises(OutputInterrupted, match=r"written by then is in .*/file\.jsonl$"):
        break_off(path, interruption(), interrupted=True)
    assert (path.read_bytes(), names(tmp_path)) == (b"half", ["file.jsonl"])


def test_interrupted_content_does_not_replace_a_file(old: Path) -> None:
    """It is kept beside it, each time under a name that is free."""
    for expected in ("file.partial.jsonl", "file.partial1.jsonl"):
        with pytest.raises(OutputInterrupted, match=f"is in .*/{expected}$"):
            break_off(old, KeyboardInterrupt(), interrupted=True)
        assert (old.read_bytes(), (old.parent / expected).read_bytes()) == (b"old", b"half")


def test_content_of_a_failed_command_is_never_under_its_name(tmp_path: Path) -> None:
    """It would be taken for whole; the error says where it is."""
    with pytest.raises(LookupStageError) as raised:
        break_off(tmp_path / "file.jsonl", LookupStageError("the broker is gone"), failed=True)
    assert raised.value.__notes__ == [f"what was written by then is in {tmp_path / 'file.partial.jsonl'}"]
    assert names(tmp_path) == ["file.partial.jsonl"]


def test_an_output_is_none_of_the_files_that_are_read(old: Path) -> None:
    """By whatever name."""
    link = old.with_name("link")
    link.symlink_to(old)
    with pytest.raises(ConfigurationError, match="must not be the file that is read"):
        check_kept("-o", link, {"the file that is read": old})
    check_kept("-o", old.with_name("other"), {"the file that is read": old})
