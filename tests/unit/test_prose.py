"""What README, runbook and pages name exists: commands, options, modules, settings, files and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from streams.cli import cli
from streams.settings.model import Settings
from streams.settings.sources import setting_keys
from tests.support.pages import PAGES, README, ROOT, RUNBOOK, anchors, links, named, prose

CODE = re.compile(r"`([^`]+)`")
SETTING = re.compile(rf"(?:{'|'.join(Settings.model_fields)})\.[a-z][a-z.-]*[a-z]")
MODULE = re.compile(r"python -m (\S+)")
FILE = re.compile(r"(?:tests|streams|pipeline|deploy|\.ci)/[\w./-]*\w/?")


def inline(page: Path) -> list[str]:
    """Return what stands between backquotes in running text; it may go on in the next line."""
    return [" ".join(code.split()) for code in CODE.findall(prose(page))]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_that_is_named_exists_with_its_options(page: Path) -> None:
    """A command or an option that is renamed is renamed there too."""
    lines = [code for code in inline(page) if code.startswith("lookup-stage ")]
    assert [complaint for code in lines for complaint in complaints(code.split()[1:])] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    """A setting that is renamed is renamed there too."""
    keys = setting_keys(Settings).keys()
    groups = {key.rpartition(".")[0] for key in keys}
    assert settings_in(page) - keys - groups == set()


def test_every_module_that_is_named_exists() -> None:
    """Figures, pictures and generated files are made by programs that are there."""
    modules = {found for page in PAGES for found in MODULE.findall(" ".join(inline(page)))}
    assert len(modules) >= 8
    assert [name for name in modules if find_spec(name) is None] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_file_that_is_named_exists(page: Path) -> None:
    """A test that proves a guarantee is one that can be run."""
    files = {code for code in inline(page) if FILE.fullmatch(code)}
    assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    """Files exist, and so do the headings on them."""
    for target in links(page):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not heading or heading in anchors(file), target


def test_the_pages_name_much() -> None:
    """The tests above find commands, settings, files and links on the pages."""
    assert len([code for page in PAGES for code in inline(page) if code.startswith("lookup-stage ")]) > 15
    assert len(set[str]().union(*map(settings_in, PAGES))) > 30
    assert len({code for page in PAGES for code in inline(page) if FILE.fullmatch(code)}) > 30
    assert len(links(README)) > 20
    assert "lookuplag" in anchors(RUNBOOK)


def settings_in(page: Path) -> set[str]:
    """Return the settings that a page names in running text."""
    codes = [code for code in inline(page) if not FILE.fullmatch(code)]
    return {found for code in codes for found in SETTING.findall(code)}


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (["index", "runbooks/"], None),
        (["dead-letters", "list", "|", "show", "|", "redrive"], None),
        (["replay", "FILE", "--set", "a=1"], None),
        (["reply", "FILE"], "reply"),
        (["replay", "FILE", "--sat", "a=1"], "--sat"),
        (["dead-letters", "revive"], "revive"),
    ],
)
def test_complaints_name_what_is_not_there(command: list[str], complaint: str | None) -> None:
    """The tests above see a command or an option that does not exist."""
    assert list(complaints(command)) == ([] if complaint is None else [complaint])


def complaints(words: list[str]) -> Iterator[str]:
    """Yield what a command line names that is not there."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        word, *words = words
        if word.startswith("-"):
            continue
        found = command.get_command(click.Context(command), word)
        if found is None:
            yield word
            return
        command = found
    options = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    yield from (
        word.partition("=")[0]
        for word in words
        if word.startswith("-") and word != "-" and word.partition("=")[0] not in options | {"--help"}
    )
