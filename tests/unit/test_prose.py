"""What README and runbook name exists: commands, options, modules, settings, files and headings."""

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

ROOT = Path(__file__).parents[2]
TEXTS = (ROOT / "README.md", ROOT / "deploy" / "RUNBOOK.md")

CODE = re.compile(r"`([^`]+)`")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SETTING = re.compile(rf"(?:{'|'.join(Settings.model_fields)})\.[a-z][a-z.-]*[a-z]")
MODULE = re.compile(r"python -m (\S+)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def inline(text: Path) -> list[str]:
    """Return what stands between backquotes in running text; it may go on in the next line."""
    prose = FENCED.sub("", text.read_text(encoding="utf-8"))
    return [" ".join(code.split()) for code in CODE.findall(prose)]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)
def test_every_command_that_is_named_exists_with_its_options(text: Path) -> None:
    """A command or an option that is renamed is renamed there too."""
    named = [code for code in inline(text) if code.startswith("lookup-stage ")]
    assert len(named) >= 3
    assert [complaint for code in named for complaint in complaints(code.split()[1:])] == []


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)
def test_every_setting_that_is_named_exists(text: Path) -> None:
    """So is a setting."""
    named = {found for code in inline(text) for found in SETTING.findall(code)}
    keys = setting_keys(Settings).keys()
    groups = {key.rpartition(".")[0] for key in keys}
    assert len(named) >= 10
    assert named - keys - groups == set()


def test_every_module_that_is_named_exists() -> None:
    """Figures and pictures are made by programs that are there."""
    named = {found for text in TEXTS for found in MODULE.findall(" ".join(inline(text)))}
    assert len(named) >= 3
    assert [name for name in named if find_spec(name) is None] == []


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)
def test_every_link_leads_somewhere(text: Path) -> None:
    """Files are there, and headings too."""
    content = text.read_text(encoding="utf-8")
    anchors = {anchor(heading) for heading in HEADING.findall(FENCED.sub("", content))}
    for target in LINK.findall(FENCED.sub("", content)):
        file, _, heading = target.partition("#")
        if "://" in target:
            continue
        assert not file or (text.parent / file).exists(), target
        assert file or heading in anchors, target


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


def anchor(heading: str) -> str:
    """Return a heading's anchor as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
