"""Which files of a folder are documents, and what is passed over."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ConfigurationError

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")

IGNORED_FOLDER = "node_modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFiles:
    """What was found in a folder.

    Attributes:
        documents: Markdown files, in the order of their paths, each file once.
        passed_over: How many entries were passed over, by what they are.
    """

    documents: tuple[Path, ...]
    passed_over: Mapping[str, int]


def find_documents(folder: Path) -> FolderFiles:
    """Find the Markdown files of a folder, at any depth.

    Hidden files and folders and `node_modules` are passed over. Links are followed, wherever they lead, but
    to no file or folder that was found already: one that is there itself goes before links to it, and of
    several links the first. So a mounted ConfigMap, whose files are links into hidden folders, has each
    document once, under the name that people see.

    Raises:
        ConfigurationError: A folder cannot be read.
    """
    found = _Found()
    waiting = deque([folder])
    links: list[Path] = []
    while waiting or links:
        if not waiting:
            following, links = sorted(links), []
            for link in following:
                found.follow(link, waiting)
            continue
        current = waiting.popleft()
        if found.is_new(current, "links to folders that are there already"):
            for entry in _entries(current):
                path = current / entry.name
                if entry.name.startswith("."):
                    found.pass_over("hidden files and folders")
                elif entry.is_symlink():
                    links.append(path)
                elif not entry.is_dir():
                    found.add_file(path, is_file=entry.is_file())
                elif entry.name == IGNORED_FOLDER:
                    found.pass_over(f"{IGNORED_FOLDER} folders")
                else:
                    waiting.append(path)
    return FolderFiles(documents=tuple(sorted(found.documents)), passed_over=dict(found.passed_over))


class _Found:
    """What was found so far."""

    def __init__(self) -> None:
        self.documents: list[Path] = []
        self.passed_over: Counter[str] = Counter()
        self._seen: set[str] = set()

    def pass_over(self, what: str) -> None:
        self.passed_over[what] += 1

    def is_new(self, path: Path, otherwise: str) -> bool:
        """Say whether a file or folder was not there before, under whatever name."""
        real = os.path.realpath(path)
        if real in self._seen:
            self.pass_over(otherwise)
            return False
        self._seen.add(real)
        return True

    def add_file(self, path: Path, *, is_file: bool) -> None:
        if not is_file or path.suffix.lower() not in MARKDOWN_SUFFIXES:
            self.pass_over("other files")
        elif self.is_new(path, "links to files that are there already"):
            self.documents.append(path)

    def follow(self, link: Path, folders: deque[Path]) -> None:
        """Take a link for what it leads to."""
        if link.is_dir():
            if link.name == IGNORED_FOLDER:
                self.pass_over(f"{IGNORED_FOLDER} folders")
            else:
                folders.append(link)
        elif link.is_file():
            self.add_file(link, is_file=True)
        else:
            self.pass_over("broken links")


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise ConfigurationError(f"{str(folder)!r}: cannot be read: {error.strerror}") from error
