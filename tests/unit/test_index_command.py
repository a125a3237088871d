"""`lookup-stage index` as people run it, as far as it needs no server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.cli import main
from streams.cli.index import DEFAULT_CHUNK_SIZE, LARGEST_CHUNK_SIZE
from streams.indexing.chunks import MAX_CHUNK_CHARACTERS
from streams.indexing.documents import MAX_BYTES
from tests.support.worker import CommandOutput


@pytest.fixture
def index(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CommandOutput]:
    """Return a function that runs the command where no server can be reached."""
    monkeypatch.setenv("MILVUS_URI", "http://127.0.0.1:1")

    def run(*arguments: object) -> CommandOutput:
        with pytest.raises(SystemExit) as ended:
            main(["index", *map(str, arguments)])
        printed = capsys.readouterr()
        return CommandOutput(code=int(ended.value.code or 0), stdout=printed.out, stderr=printed.err)

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of two documents and something else."""
    (tmp_path / "a.md").write_text("# A\n\n" + "Some words. " * 50)
    (tmp_path / "b.md").write_text("# B\n\nText.\n")
    (tmp_path / ".hidden.md").write_text("text")
    return tmp_path


def test_dry_run_says_what_would_be_written(index: Callable[..., CommandOutput], folder: Path) -> None:
    """Documents, chunks and their lengths; what was passed over is said beside the result."""
    done = index(folder, "--dry-run")
    assert (done.code, done.stdout.splitlines()) == (
        0,
        [
            "2 documents, 2 chunks would go to knowledge; nothing was written",
            "characters of a chunk: 5 to 599, median 5; mostly markup: 0",
        ],
    )
    assert done.stderr == f"passed over in {folder}: hidden files and folders (1)\n"


def test_chunk_size_divides(index: Callable[..., CommandOutput], folder: Path) -> None:
    """No chunk is longer; the figures are there as JSON too."""
    report = json.loads(index(folder, "--dry-run", "--json", "--chunk-size", 200).stdout)
    assert (report["documents"], report["chunks"], report["written"]) == (2, 5, 0)
    assert report["pieces"]["longest"] <= 200
    assert report["passed_over"] == {"hidden files and folders": 1}


@pytest.mark.parametrize("size", [99, 16_001, "many"])
def test_chunk_size_has_bounds(index: Callable[..., CommandOutput], folder: Path, size: object) -> None:
    """The line says what is allowed."""
    done = index(folder, "--chunk-size", size)
    assert done.code == 2
    assert "--chunk-size" in done.stderr
    assert done.stderr.count("\n") == 1


def test_chunk_size_is_for_folders(index: Callable[..., CommandOutput], tmp_path: Path) -> None:
    """The chunks of a file are what they are."""
    file = tmp_path / "chunks.jsonl"
    file.write_text('{"docId": "d", "chunkIndex": 0, "content": "x"}')
    assert index(file, "--dry-run").code == 0
    done = index(file, "--dry-run", "--chunk-size", 200)
    assert (done.code, done.stderr) == (
        2,
        "lookup-stage: --chunk-size divides folders of Markdown; a file has its chunks already\n",
    )


def test_dry_run_finds_what_is_wrong(index: Callable[..., CommandOutput], tmp_path: Path) -> None:
    """The same line as without it."""
    file = tmp_path / "chunks.jsonl"
    file.write_text('{"docId": "d", "chunkIndex": 0, "content": ""}')
    done = index(file, "--dry-run")
    assert done.code == 2
    assert done.stderr.startswith(f"lookup-stage: {file}, line 1: content = ''")


def test_sizes_agree() -> None:
    """The command knows them without the packages that divide; the largest chunk can be stored."""
    assert DEFAULT_CHUNK_SIZE == MAX_CHUNK_CHARACTERS
    assert len("\U0001f600".encode()) * LARGEST_CHUNK_SIZE <= MAX_BYTES
