"""Dashboard and alerts on a real Prometheus that scrapes real workers in trouble."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.worker.agents import BUFFERED_EVENTS
from tests.deploy.monitored import monitored
from tests.support.fixtures import require_tool
from tests.support.panels import View, draw
from tests.support.prometheus import ALERTS, alert_rules, panel_queries, quickened
from tests.support.worker import request, send_all

pytestmark = pytest.mark.kafka

WINDOW = "30s"
DEADLINE_S = 60
WAITING_REQUESTS = 2 * BUFFERED_EVENTS
"""More than a worker reads ahead, so that there is lag beside what is read and not yet committed."""
POLL_INTERVAL_S = 0.25
CAUSED = {
    "LookupLag/waiting",
    "LookupOffsetsStandStill/busy",
    "LookupOffsetsStandStill/waiting",
    "LookupDeadLetters/busy",
    "LookupCircuitOpen/waiting",
}


async def test_every_alert_fires_when_it_should_and_every_panel_has_data(kafka: str, tmp_path: Path) -> None:
    """One search hangs, one is down, requests are bad, and then nobody is there; minutes are short."""
    rules = quickened(ALERTS.read_text(encoding="utf-8"))
    async with monitored(kafka, require_tool("prometheus"), tmp_path, rules=rules) as stages:
        prometheus, started = stages.prometheus, time.time()
        await send_all(stages.waiting, [request(f"r-{number}", query="q") for number in range(10)])
        loading = asyncio.create_task(stages.load(stages.busy, rate=40, bad_every=5))
        await _until(lambda: prometheus.values('lookup_requests_total{job="busy", status="ok"} > 0') != [])
        assert prometheus.firing() - {"LookupDeadLetters/busy"} == set()

        await send_all(stages.busy, [request("hanging", query="hang")])
        stages.switch.touch()
        down_at = time.time()
        await send_all(
            stages.waiting, [request(f"w-{number}", query="q") for number in range(WAITING_REQUESTS)]
        )
        await _until(lambda: prometheus.firing() >= CAUSED)
        without_data = {
            query.panel for query in panel_queries() if not any(prometheus.values(query.over(WINDOW)))
        }
        assert without_data == set()

        view = View(job="waiting", start=started, end=time.time(), shaded=(down_at, time.time()))
        await asyncio.to_thread(draw, prometheus, view, tmp_path / "panels.png")
        assert (tmp_path / "panels.png").stat().st_size > 0

        loading.cancel()
        await stages.stop_workers()
        await _until(lambda: "LookupNoWorkers" in prometheus.firing())
    assert {name.partition("/")[0] for name in CAUSED} | {"LookupNoWorkers"} == {
        rule["alert"] for rule in alert_rules()
    }


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - Prometheus is another process
            await asyncio.sleep(POLL_INTERVAL_S)
