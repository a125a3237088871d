"""Draws the dashboard's main panels from a real run: `python -m tests.pictures.panels`, two minutes.

A worker that waits for its search gets 100 requests a second, one in fifty of them bad; for 20 seconds its
search is down.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from tests.deploy.monitored import monitored
from tests.support.fixtures import require_tool
from tests.support.kafka_server import KafkaServer
from tests.support.panels import View, draw
from tests.support.prometheus import ALERTS

PICTURE = Path(__file__).parents[2] / "deploy" / "pictures" / "panels.png"
WARM_UP_S, UP_S, DOWN_S, UP_AGAIN_S = 10, 30, 20, 60


async def take(kafka: str, directory: Path) -> None:
    """Run the worker and draw what was seen of it."""
    rules = ALERTS.read_text(encoding="utf-8")
    async with monitored(
        kafka, require_tool("prometheus"), directory, rules=rules, waiting="lookup"
    ) as stages:
        loading = asyncio.create_task(stages.load(stages.waiting, rate=100, bad_every=50))
        await asyncio.sleep(WARM_UP_S)
        start = time.time()
        await asyncio.sleep(UP_S)
        stages.switch.touch()
        down_at = time.time()
        await asyncio.sleep(DOWN_S)
        stages.switch.unlink()
        up_at = time.time()
        await asyncio.sleep(UP_AGAIN_S)
        loading.cancel()
        view = View(job="waiting", start=start, end=time.time(), shaded=(down_at, up_at))
        draw(stages.prometheus, view, PICTURE)


def main() -> None:
    """Start a broker of its own, so that the topics have their usual names."""
    with tempfile.TemporaryDirectory(prefix="lookup-stage-picture-") as folder:
        directory = Path(folder)
        with KafkaServer(directory / "kafka") as kafka:
            asyncio.run(take(kafka.bootstrap, directory))
    print(PICTURE)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
