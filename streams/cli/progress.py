"""Progress of long work: on a terminal, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from streams.cli.terminal import is_terminal


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error while work goes on; call with how much is done and how much there is."""
    with progress_of_steps() as report:
        yield partial(report, what)


@contextmanager
def progress_of_steps() -> Iterator[Callable[[str, int, int], None]]:
    """Show one bar for work of several steps; call with the step, how much is done and how much there is."""
    console = Console(stderr=True)
    # Not what Rich takes for a terminal: FORCE_COLOR, set in many CI jobs, would fill their logs with bars.
    hidden = not is_terminal(error=True) or console.is_dumb_terminal
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=hidden, transient=True) as progress:
        task = progress.add_task("", total=None)

        def report(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        yield report
