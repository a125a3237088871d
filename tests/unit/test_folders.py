"""Which files of a folder are documents."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from streams.indexing.folders import find_documents


def write(folder: Path, *names: str) -> None:
    """Write files, with the folders that they are in."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")


def found(folder: Path) -> tuple[list[str], dict[str, int]]:
    """Return the documents' paths below the folder, and what was passed over."""
    files = find_documents(folder)
    return [path.relative_to(folder).as_posix() for path in files.documents], dict(files.passed_over)


def test_mounted_config_map_has_each_document_once(tmp_path: Path) -> None:
    """The links that people see are the documents, not the folders that Kubernetes keeps behind them."""
    write(tmp_path, "..2024_01_01/a.md", "..2024_01_01/b.md")
    (tmp_path / "..data").symlink_to("..2024_01_01")
    for name in ("a.md", "b.md"):
        (tmp_path / name).symlink_to(Path("..data") / name)
    assert found(tmp_path) == (["a.md", "b.md"], {"hidden files and folders": 2})


def test_checkout_is_searched_for_what_people_wrote(tmp_path: Path) -> None:
    """Neither the repository's own files nor other people's packages are documents."""
    write(tmp_path, ".git/a.md", "web/node_modules/x/README.md", "docs/a.mdx", "docs/.draft.md", "setup.py")
    assert found(tmp_path) == (
        ["docs/a.mdx"],
        {"hidden files and folders": 2, "node_modules folders": 1, "other files": 1},
    )


def test_links_bring_no_document_twice(tmp_path: Path) -> None:
    """What is there itself goes before links to it; loops end."""
    write(tmp_path, "v2/a.md", "v2/deep/b.md")
    (tmp_path / "current").symlink_to("v2")
    (tmp_path / "v2" / "deep" / "up").symlink_to(tmp_path)
    (tmp_path / "also-a.md").symlink_to("v2/a.md")
    (tmp_path / "gone.md").symlink_to("nowhere")
    assert found(tmp_path) == (
        ["v2/a.md", "v2/deep/b.md"],
        {
            "broken links": 1,
            "links to files that are there already": 1,
            "links to folders that are there already": 2,
        },
    )


def test_links_lead_out_of_the_folder(tmp_path: Path) -> None:
    """Of several links to one folder the first in the order of paths is followed."""
    write(tmp_path, "elsewhere/a.md", "elsewhere/deep/b.md")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("two", "one"):
        (folder / name).symlink_to(tmp_path / "elsewhere")
    assert found(folder) == (
        ["one/a.md", "one/deep/b.md"],
        {"links to folders that are there already": 1},
    )


def test_folder_itself_may_be_hidden_or_a_link(tmp_path: Path) -> None:
    """Whoever names it means it."""
    write(tmp_path, ".docs/a.md")
    (tmp_path / "link").symlink_to(".docs")
    assert found(tmp_path / ".docs") == (["a.md"], {})
    assert found(tmp_path / "link") == (["a.md"], {})


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    """Reading a pipe would never end."""
    write(tmp_path, "a.md")
    os.mkfifo(tmp_path / "pipe.md")
    assert found(tmp_path) == (["a.md"], {"other files": 1})


def test_folder_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents that are silently missing would be taken for deleted ones."""

    def denied(_: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(ConfigurationError, match=r"cannot be read: Permission denied$"):
        find_documents(tmp_path)
