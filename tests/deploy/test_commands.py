"""What pages and runbook tell people to type, as far as that goes without a daemon and a cluster."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import click
import pytest

from streams.cli import cli
from tests.support.helm import render
from tests.support.pages import ROOT, RUNBOOK, text_of

pytestmark = pytest.mark.timeout(900)  # the first test may build Helm


def test_chart_on_the_page_is_rendered_with_its_values(helm: Path) -> None:
    """`helm upgrade --install` would take these values: `helm template` does."""
    words = _commands()["helm"]
    assert words[1:5] == ["upgrade", "--install", "lookup", "deploy/helm/lookup-stage"]
    manifests = {manifest["kind"]: manifest for manifest in render(helm, *words[5:])}
    assert manifests["ScaledObject"]["spec"]["maxReplicaCount"] == 12


def test_files_on_the_page_are_there_and_its_image_is_the_chart_s(helm: Path) -> None:
    """Compose and build are given files that exist; the chart looks for the image that is built."""
    words = shlex.split(text_of("deploy"))
    given = [word for flag, word in pairwise(words) if flag == "-f"]
    given += [word.partition("=")[2] for word in words if word.startswith("--from-env-file=")]
    assert len(given) == 3
    for file in given:
        assert (ROOT / file).is_file()
    (tag,) = (word for flag, word in pairwise(words) if flag == "-t")
    (deployment,) = (each for each in render(helm) if each["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == tag


@pytest.mark.parametrize(
    "written", sorted(set(re.findall(r"`lookup-stage ([^`…]+)`", RUNBOOK.read_text(encoding="utf-8"))))
)
def test_every_command_of_the_runbook_is_one(written: str) -> None:
    """The product's own parser takes command and options."""
    words = shlex.split(written)
    command: click.Command = cli
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    if "--help" not in words:
        parsed = command.make_parser(click.Context(command)).parse_args(words)
        assert set(parsed[0]) <= {each.name for each in command.params}


def _commands() -> dict[str, list[str]]:
    lines = text_of("deploy").replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return {line[0]: line for line in words}
