"""What the demo tells beside its results: what is going on, what it came to, and what to try next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import orjson
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from streams.settings.model import Settings

HEADLINE = "lookup-stage demo: starts a broker, an index and a worker here, and asks them."


class Story:
    """Tells on standard output, or on standard error where standard output is JSON."""

    def __init__(self, *, on_stderr: bool) -> None:
        """Choose where to tell it."""
        self._console = Console(stderr=on_stderr, highlight=False)

    def tell(self, line: str = "", *, style: str = "", indent: int = 0) -> None:
        """Print a line, wrapped between words on a terminal."""
        text = Text(line, style=style)
        width = self._console.width - indent
        lines = text.wrap(self._console, width) if self._console.is_terminal else [text]
        for each in lines:
            each.rstrip()
            self.command(" " * indent + each.plain, style=style)

    def command(self, line: str, *, style: str = "") -> None:
        """Print a line that is not wrapped, so that it can be copied."""
        self._console.print(Text(line, style=style), soft_wrap=True)

    @contextmanager
    def status(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show on a terminal what is going on and for how long; call with what it has come to since."""
        console = Console(stderr=True)
        # Not the console's own idea of a terminal, which a variable can force on a file.
        is_live = sys.stderr.isatty() and not console.is_dumb_terminal
        progress = Progress(
            SpinnerColumn("line"),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not is_live,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with progress:
            task = progress.add_task(what, total=None)
            yield lambda description: progress.update(task, description=description)


def tell_summary(story: Story, lines: Sequence[str]) -> None:
    """Tell what the session came to."""
    story.tell("Summary", style="bold")
    for line in lines:
        story.tell(line, indent=2)
    story.tell()


def tell_what_is_next(story: Story, *, asked: bool, own_documents: bool) -> None:
    """Tell what else can be tried."""
    story.tell("Try next", style="bold")
    docs = " --docs FOLDER" if own_documents else ""
    steps = [
        ("" if asked else f'lookup-stage demo{docs} --ask "..."', "your own question"),
        ("" if own_documents else "lookup-stage demo --docs FOLDER", "your own Markdown and its headings"),
        (f"lookup-stage demo{docs} --keep", "stays up for kcat, Python and curl"),
        ("lookup-stage worker --help", "on your own Kafka and Milvus"),
    ]
    for command, what in steps:
        if command:
            story.command(f"  {command:40}  {what}")


def tell_how_to_reach(story: Story, settings: Settings, question: str) -> None:
    """Tell how to reach a demo that goes on, with a question that its documents answer."""
    kafka, metrics = settings.kafka, settings.metrics
    servers, topics = kafka.bootstrap_servers, kafka.topics
    request = orjson.dumps({"request_id": "r-1", "query": question}).decode()
    story.tell("Broker and worker go on until Ctrl-C. From another terminal:", style="bold")
    for title, lines in (
        ("Ask", [f"KAFKA_BOOTSTRAP_SERVERS={servers} lookup-stage ask {shlex.quote(question)}"]),
        (
            "Any Kafka client, such as kcat",
            [
                f"echo {shlex.quote(request)} |",
                f"    kcat -P -b {servers} -t {topics.requests} -k me",
                f'kcat -C -b {servers} -t {topics.results} -o beginning -e -q | grep \'"request_id":"r-1"\'',
            ],
        ),
        ("Python", _python_lines(servers, question)),
        ("Metrics", [f"curl --silent http://{metrics.host}:{metrics.port}/metrics | grep lookup_"]),
    ):
        story.tell()
        story.tell(title, indent=2)
        for line in lines:
            story.command(f"    {line}")


def _python_lines(servers: str, question: str) -> list[str]:
    return [
        f"KAFKA_BOOTSTRAP_SERVERS={servers} python - <<'END'",
        "import asyncio",
        "from streams import configuration",
        "from streams.client import connected_client",
        "async def main():",
        "    async with connected_client(configuration.load().kafka) as client:",
        f'        result = await client.look_up({{"query": {question!r}}})',
        "    for item in result.evidence:",
        "        print(item.document_id, item.score)",
        "asyncio.run(main())",
        "END",
    ]
