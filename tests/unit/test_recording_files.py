"""Files of recordings: written and read a line at a time, and what is said of those that are damaged."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from pipeline.errors import ConfigurationError, LookupStageError
from streams.recordings.files import read_recordings, writing_recordings
from streams.recordings.recording import RecordingUnreadable, encode_recording
from tests.builders import answer, hit, recording

SUFFIXES = pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zst"])


def lines(count: int) -> list[bytes]:
    """Return recordings of which each is another."""
    one = recording(answer(hit("docA", 0)))
    return [encode_recording(replace(one, request_id=f"r-{number}")) for number in range(count)]


def written(path: Path, content: Iterable[bytes]) -> Path:
    """Write lines into a file and return it back."""
    with writing_recordings(path) as write:
        for line in content:
            write(line)
    return path


def ids(path: Path) -> tuple[list[str], str]:
    """Return the ids of the recordings that can be read, and what is wrong after them."""
    flaws: list[str] = []
    read = [
        each.recording.request_id for each in read_recordings(path, keep_going=lambda e: flaws.append(str(e)))
    ]
    return read, "".join(flaws)


@SUFFIXES
def test_what_is_written_is_read(tmp_path: Path, suffix: str) -> None:
    """Every line comes back, numbered from 1, as the bytes that it was."""
    content = lines(1_000)
    path = written(tmp_path / f"file{suffix}", content)
    assert [(each.number, each.line) for each in read_recordings(path)] == list(enumerate(content, start=1))


@SUFFIXES
def test_file_without_recordings_has_none(tmp_path: Path, suffix: str) -> None:
    """A range of a topic may be empty."""
    assert ids(written(tmp_path / f"file{suffix}", [])) == ([], "")


def test_compressed_file_is_zstandard(tmp_path: Path) -> None:
    """Other tools can read it."""
    path = written(tmp_path / "file.jsonl.zst", lines(3))
    with zstandard.open(path, "rb") as file:
        assert file.read() == b"".join(line + b"\n" for line in lines(3))


def test_compressed_files_may_be_joined(tmp_path: Path) -> None:
    """Several frames are one file, as `cat a.zst b.zst` makes it."""
    path = written(tmp_path / "file.jsonl.zst", lines(3))
    path.write_bytes(path.read_bytes() * 2)
    assert ids(path) == (["r-0", "r-1", "r-2"] * 2, "")


def test_file_is_readable_when_writing_is_interrupted(tmp_path: Path) -> None:
    """Ctrl-C leaves what was written by then."""
    path = tmp_path / "file.jsonl.zst"

    def interrupted() -> Iterator[bytes]:
        yield from lines(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        written(path, interrupted())
    assert ids(path) == (["r-0"], "")


@SUFFIXES
def test_progress_tells_how_much_of_the_file_is_read(tmp_path: Path, suffix: str) -> None:
    """It grows, and ends at the file's size."""
    path = written(tmp_path / f"file{suffix}", lines(1_000))
    told: list[tuple[int, int]] = []
    list(read_recordings(path, progress=lambda done, total: told.append((done, total))))
    size = path.stat().st_size
    assert {total for _, total in told} == {size}
    assert told == sorted(told)
    assert told[-1] == (size, size)


# Damage


@SUFFIXES
def test_file_cut_short_says_where_and_keeps_the_lines_before(tmp_path: Path, suffix: str) -> None:
    """Wherever it is cut, what is given is a beginning of the file, and the line after it is named."""
    content = lines(200)
    path = written(tmp_path / f"file{suffix}", content)
    whole = path.read_bytes()
    for length in range(1, len(whole) - 1, max(1, len(whole) // 40)):
        path.write_bytes(whole[:length])
        read, flaw = ids(path)
        assert read == [f"r-{number}" for number in range(len(read))]
        if suffix == ".jsonl" and whole[:length].endswith((b"}", b"}\n")):
            continue  # a file of whole lines is whole
        assert flaw == f"{path}: line {len(read) + 1}: is cut short"
        with pytest.raises(RecordingUnreadable, match=f": line {len(read) + 1}: is cut short"):
            list(read_recordings(path))


def test_last_line_needs_no_end(tmp_path: Path) -> None:
    """A file that a person edited is whole without the last line's end."""
    path = tmp_path / "file.jsonl"
    path.write_bytes(b"\n".join(lines(2)))
    assert ids(path) == (["r-0", "r-1"], "")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"hello", "is not JSON"),
        (b"[]", "is a JSON array: a file of recordings has a JSON object on each line"),
        (b'{"v": 2}', "is of version 2, this lookup-stage reads version 1"),
        (b'{"request_id": "r-1"}', "is not a recording: it has no field v"),
    ],
)
@SUFFIXES
def test_line_that_is_no_recording_is_named(tmp_path: Path, suffix: str, line: bytes, why: str) -> None:
    """File, line and what is wrong stand in one line; what comes after is not read."""
    path = written(tmp_path / f"file{suffix}", [*lines(3), line, *lines(3)])
    assert ids(path) == (["r-0", "r-1", "r-2"], f"{path}: line 4: {why}")


@SUFFIXES
def test_blank_lines_a_byte_order_mark_and_carriage_returns_are_no_content(
    tmp_path: Path, suffix: str
) -> None:
    """Editors and shells leave them; lines keep their numbers."""
    first, second, third = lines(3)
    content = [b"\xef\xbb\xbf" + first + b"\r", b"", b" \t\r", second, third, b""]
    path = written(tmp_path / f"file{suffix}", content)
    assert [(each.number, each.line) for each in read_recordings(path)] == [
        (1, first),
        (4, second),
        (5, third),
    ]


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["no end", "end"])
@pytest.mark.parametrize("space", [b"", b" "], ids=["", "space"])
def test_json_array_is_named_for_what_it_is(tmp_path: Path, space: bytes, end: bytes) -> None:
    """Many tools write one where JSON Lines are wanted, on one line or on several."""
    path = tmp_path / "file.jsonl"
    why = "line 1: is a JSON array: a file of recordings has a JSON object on each line"
    for separator in (b",", b",\n"):
        path.write_bytes(space + b"[" + separator.join(lines(2)) + b"]" + end)
        assert ids(path) == ([], f"{path}: {why}")


def test_file_that_is_not_compressed_as_its_name_says(tmp_path: Path) -> None:
    """A plain file of the wrong name is one line, too."""
    path = tmp_path / "file.jsonl.zst"
    path.write_bytes(lines(1)[0])
    with pytest.raises(RecordingUnreadable, match="line 1: cannot be decompressed"):
        list(read_recordings(path))


def test_damaged_content_is_found(tmp_path: Path) -> None:
    """A flipped bit does not become another recording."""
    path = written(tmp_path / "file.jsonl.zst", lines(50))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(RecordingUnreadable, match=r"line \d+: "):
        list(read_recordings(path))


@pytest.mark.parametrize("name", ["lookups", "lookups.json", "lookups.jsonl.gz"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    """The suffix says what is in a file."""
    with pytest.raises(ConfigurationError, match=r"a file of recordings ends in \.jsonl or \.jsonl\.zst"):
        list(read_recordings(tmp_path / name))
    with pytest.raises(ConfigurationError, match="a file of recordings"), writing_recordings(tmp_path / name):
        pass


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    """The reason is the system's."""
    path = tmp_path / "missing" / "file.jsonl"
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        list(read_recordings(path))
    with pytest.raises(ConfigurationError, match="cannot be written: No such file"), writing_recordings(path):
        pass


@SUFFIXES
def test_failure_leaves_the_recordings_that_were_there(tmp_path: Path, suffix: str) -> None:
    """A file of yesterday is not lost to a command of today."""
    path = written(tmp_path / f"file{suffix}", lines(2))

    def failing() -> Iterator[bytes]:
        yield from lines(1)
        raise LookupStageError("the broker is gone")

    with pytest.raises(LookupStageError, match="the broker is gone"):
        written(path, failing())
    assert ids(path) == (["r-0", "r-1"], "")
    assert list(tmp_path.iterdir()) == [path]


@SUFFIXES
def test_disk_that_is_full_is_one_line(tmp_path: Path, suffix: str) -> None:
    """It is said of which file, whenever the system tells of it."""
    path = tmp_path / f"file{suffix}"
    path.symlink_to("/dev/full")
    noise = (random.Random(number).randbytes(2_000).hex().encode() for number in range(1_000))
    with pytest.raises(LookupStageError, match="cannot be written: No space left"):
        written(path, noise)
