"""Options and types of options that several commands share."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any

import click

from pipeline.errors import ConfigurationError
from streams.output.files import is_special

MAX_COUNT = 2**31 - 1
"""More than any count needs, and what Kafka's protocol and the measures' libraries still take."""

WITHOUT_SETTINGS = frozenset({"compare", "demo"})
"""Commands that read no environment variables of settings."""


class PositiveNumber(click.ParamType):
    """A finite number greater than 0."""

    name = "NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 < number < math.inf:
            self.fail(f"{value!r} must be a finite number greater than 0", param, ctx)
        return number


def count(*, minimum: int = 1, maximum: int = MAX_COUNT) -> click.IntRange:
    """Return the type of an option that counts something."""
    return click.IntRange(min=minimum, max=maximum)


def with_config_option(command: click.Command) -> click.Command:
    """Let `--config` stand after a command's name as well, and after those of its sub-commands."""
    command.params.append(
        click.Option(
            ["--config"],
            type=click.Path(dir_okay=False, path_type=Path),
            expose_value=False,
            callback=_use_config,
            help="YAML file with settings, as before the command.",
        )
    )
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            with_config_option(subcommand)
    return command


def _use_config(context: click.Context, _option: click.Parameter, value: Path | None) -> None:
    if value is not None:
        context.obj = value
    if isinstance(context.command, click.Group) or context.command.name in WITHOUT_SETTINGS:
        return
    from streams.settings.sources import misspelt_variables

    for name, meant in misspelt_variables(os.environ).items():
        click.echo(f"lookup-stage: {name} is not a setting: did you mean {meant}?", err=True)


def may_overwrite(option: str, path: Path, *, force: bool) -> None:
    """Ask, on a terminal, whether to overwrite a file that exists.

    Args:
        option: The option that names the file, for the message.
        path: The output.
        force: Whether to overwrite without asking.

    Raises:
        ConfigurationError: The file exists, and may not or cannot be asked for.
    """
    if force or is_special(path) or not os.path.lexists(path) or path.is_dir():
        return
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigurationError(f"{option} {path}: exists; --force overwrites it")
    if not click.confirm(f"{path} exists. Overwrite it?", err=True):
        raise ConfigurationError(f"{option} {path}: exists and stays as it is")
