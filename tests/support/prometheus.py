"""A real Prometheus on a loopback port, and the dashboard's and the alerts' queries."""

from __future__ import annotations

import json
import math
import os
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.support.ports import free_port
from tests.support.processes import ServerProcess

FILES = Path(__file__).parents[2] / "deploy" / "helm" / "lookup-stage" / "files"
ALERTS, DASHBOARD = FILES / "alerts.yml", FILES / "dashboard.json"

INTERVAL = "250ms"
START_DEADLINE_S = 30.0
REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelQuery:
    """One query of one panel.

    Attributes:
        panel: The panel's title.
        unit: Of its values, as Grafana names it.
        logarithmic: Whether its axis is.
        texts: Texts that stand for values, if any do.
        expression: The query, with Grafana's variables.
        legend: Template of the series' names.
    """

    panel: str
    unit: str
    logarithmic: bool
    texts: Mapping[int, str]
    expression: str
    legend: str

    def over(self, window: str, *, job: str = ".*") -> str:
        """Return the query as Grafana would send it for some jobs, all by default."""
        return self.expression.replace("$__rate_interval", window).replace("$job", job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series of an answer: its labels, and values by time."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


def panel_queries() -> list[PanelQuery]:
    """Return every query of the dashboard, in the order of its panels."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [
        _query(panel["title"], panel["fieldConfig"]["defaults"], target)
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    ]


def alert_rules() -> list[dict[str, Any]]:
    """Return every alert as it is written."""
    content = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    return [rule for group in content["groups"] for rule in group["rules"]]


def quickened(rules: str) -> str:
    """Return rules in which a minute is half a second, and an age three seconds."""
    quick = re.sub(r"\b(\d+)m\b", lambda minutes: f"{int(minutes[1]) * 500}ms", rules)
    return re.sub(r"(_age_seconds\) > )60\b", r"\g<1>3", quick)


class PrometheusServer:
    """Scrapes workers on this machine, four times a second."""

    def __init__(self, program: str, directory: Path, *, jobs: Mapping[str, int], rules: str) -> None:
        """Write its configuration; nothing is started.

        Args:
            program: Path of `prometheus`.
            directory: A folder to be made, for its data.
            jobs: The port of each job's worker.
            rules: The text of a file of rules.
        """
        directory.mkdir()
        self._port = free_port()
        (directory / "alerts.yml").write_text(rules)
        configuration = {
            "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
            "rule_files": ["alerts.yml"],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
                for job, port in jobs.items()
            ],
        }
        (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        self._process = ServerProcess(
            (
                program,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ),
            directory=directory,
            environment=os.environ,
        )

    def __enter__(self) -> Self:
        """Start it and wait until it answers."""
        self._process.start(self._is_ready, deadline_s=START_DEADLINE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop it."""
        self._process.stop(grace_s=10.0)

    def values(self, expression: str) -> list[float]:
        """Evaluate a query now and return the numbers, without those that are none."""
        found = [float(series["value"][1]) for series in self._ask("query", query=expression)["result"]]
        return [value for value in found if math.isfinite(value)]

    def series(self, expression: str, *, start: float, end: float, step_s: float) -> Iterator[Series]:
        """Evaluate a query over a span of the wall clock."""
        asked = {"query": expression, "start": str(start), "end": str(end), "step": str(step_s)}
        for series in self._ask("query_range", **asked)["result"]:
            points = tuple((float(time), float(value)) for time, value in series["values"])
            yield Series(labels=series["metric"], points=points)

    def firing(self) -> set[str]:
        """Name the alerts that fire, each with its job where it has one: `LookupLag/waiting`."""
        labels = [alert["labels"] for alert in self._ask("alerts")["alerts"] if alert["state"] == "firing"]
        return {"/".join([each["alertname"], *([each["job"]] if "job" in each else [])]) for each in labels}

    def _ask(self, what: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self._port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=REQUEST_TIMEOUT_S) as response:
            return json.load(response)["data"]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}/-/ready", timeout=REQUEST_TIMEOUT_S
            ) as response:
                return bool(response.status == 200)
        except OSError:
            return False


def _query(panel: str, shown: Mapping[str, Any], target: Mapping[str, str]) -> PanelQuery:
    (texts,) = shown.get("mappings", [{"options": {}}])
    return PanelQuery(
        panel=panel,
        unit=shown["unit"],
        logarithmic=shown["custom"].get("scaleDistribution", {}).get("type") == "log",
        texts={int(value): text["text"] for value, text in texts["options"].items()},
        expression=target["expr"],
        legend=target["legendFormat"],
    )
