"""`lookup-stage`: one command with sub-commands.

Every command exits 0 on success, 1 on a negative finding and 2 on wrong use, and prints errors as one line
on standard error.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from pipeline.errors import ConfigurationError, LookupStageError
from streams.cli.ask import ask
from streams.cli.compare import compare
from streams.cli.config import config
from streams.cli.contract import contract
from streams.cli.dead_letters import dead_letters
from streams.cli.demo import demo
from streams.cli.index import index
from streams.cli.record import record
from streams.cli.replay import replay
from streams.cli.topics import topics
from streams.cli.worker import worker
from streams.recordings.recording import RecordingUnreadable

EXIT_NEGATIVE = 1
EXIT_WRONG_USE = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
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
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command line and exit with its code."""
    # gRPC writes to standard error past all logging; whatever fails is raised as well.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.exit(_exit_code(arguments))


def _exit_code(arguments: list[str] | None) -> int:
    try:
        result = cli.main(args=arguments, prog_name="lookup-stage", standalone_mode=False)
    except click.ClickException as error:
        return _complain(error.format_message(), EXIT_WRONG_USE)
    except (click.Abort, KeyboardInterrupt, asyncio.CancelledError):
        return _complain("interrupted", EXIT_NEGATIVE)
    except (ConfigurationError, RecordingUnreadable) as error:
        return _complain(str(error), EXIT_WRONG_USE)
    except LookupStageError as error:
        return _complain(str(error), EXIT_NEGATIVE)
    return result if isinstance(result, int) else 0


def _complain(message: str, code: int) -> int:
    click.echo(f"lookup-stage: {' '.join(message.split())}", err=True)
    return code
