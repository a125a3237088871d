"""`lookup-stage`: one command with sub-commands.

How every command ends stands in `streams.cli.exits`.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from streams.cli.ask import ask
from streams.cli.compare import compare
from streams.cli.config import config
from streams.cli.contract import contract
from streams.cli.dead_letters import dead_letters
from streams.cli.demo import demo
from streams.cli.exits import EXIT_CODES, Commands, exit_code
from streams.cli.index import index
from streams.cli.options import with_config_option
from streams.cli.record import record
from streams.cli.replay import replay
from streams.cli.terminal import take_any_text
from streams.cli.topics import topics
from streams.cli.worker import worker


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EXIT_CODES,
)
@click.version_option(package_name="lookup-stage")
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="LOOKUP_CONFIG",
    help="YAML file with settings; the environment wins over it.",
)
@click.pass_context
def cli(context: click.Context, config_file: Path | None) -> None:
    """Look up chunk evidence for AI agents, on Kafka.

    Try it: `lookup-stage demo` needs no server and no download.
    """
    context.obj = config_file


for command in (demo, worker, topics, index, ask, dead_letters, record, replay, compare, contract, config):
    cli.add_command(with_config_option(command))


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line and exit with its code."""
    # gRPC writes to standard error past all logging; whatever fails is raised as well.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    take_any_text()
    run = partial(cli.main, args=arguments, prog_name="lookup-stage", standalone_mode=False)
    sys.exit(exit_code(run))
