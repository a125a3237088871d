"""`lookup-stage worker`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from pipeline.errors import LookupStageError


@click.command(epilog="Example: lookup-stage --config lookup-stage.yaml worker")
@click.pass_obj
def worker(config_file: Path | None) -> None:
    """Answer requests until it is told to stop.

    SIGTERM or SIGINT lets it finish what is in work within stage.drain-timeout; a second one ends it at once.
    """
    import structlog

    from streams.observability import logs
    from streams.settings import loading
    from streams.worker import event_loops
    from streams.worker.run import WorkerFailed, run_worker

    settings = loading.load(config_file)
    logs.configure(settings.stage)
    event_loops.use_fastest()
    try:
        asyncio.run(run_worker(settings))
    except LookupStageError:
        raise
    except Exception as error:
        structlog.get_logger(__name__).exception("worker_crashed")
        raise WorkerFailed(f"unforeseen error, {type(error).__name__}: {error}") from error
