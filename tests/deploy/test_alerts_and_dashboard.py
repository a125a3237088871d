"""What Prometheus and Grafana are given: valid, and about metrics that there are."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from streams.observability.catalogue import METRICS
from tests.support.fixtures import require_tool
from tests.support.prometheus import ALERTS, DASHBOARD, alert_rules, panel_queries

DEPLOY = Path(__file__).parents[2] / "deploy"
OF_THE_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def test_prometheus_takes_the_configuration_and_the_alerts(tmp_path: Path) -> None:
    """`promtool check config` finds nothing wrong in the two, laid together as Compose mounts them."""
    shutil.copy(DEPLOY / "prometheus" / "prometheus.yml", tmp_path)
    shutil.copy(ALERTS, tmp_path)
    _promtool("check", "config", str(tmp_path / "prometheus.yml"))


def test_alerts_fire_where_they_should_and_not_just_before() -> None:
    """`promtool test rules` on the examples beside this file."""
    _promtool("test", "rules", str(Path(__file__).with_name("alerts.test.yml")))


def test_every_metric_in_an_alert_or_on_the_dashboard_is_in_the_code() -> None:
    """A metric renamed in the code alone would leave a panel empty and an alert silent."""
    known = {metric.name for metric in METRICS} | OF_THE_PROCESS
    assert _names(rule["expr"] for rule in alert_rules()) <= known
    assert _names(query.expression for query in panel_queries()) <= known


def test_every_metric_of_the_code_is_on_the_dashboard() -> None:
    """A new metric gets a panel."""
    shown = _names(query.expression for query in panel_queries())
    assert {metric.name for metric in METRICS} - shown == set()


def test_every_label_that_alerts_and_panels_group_by_is_in_the_code() -> None:
    """A label renamed in the code alone would leave one nameless series."""
    labels = {label for metric in METRICS for label in metric.labels}
    of_prometheus = {"job", "instance", "le"}
    expressions = [rule["expr"] for rule in alert_rules()] + [query.expression for query in panel_queries()]
    grouped = {
        name.strip()
        for expression in expressions
        for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
        for name in group.split(",")
    }
    assert grouped - of_prometheus - labels == set()
    named = {name for query in panel_queries() for name in re.findall(r"{{(\w+)}}", query.legend)}
    assert named - of_prometheus - labels == set()


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["alert"])
def test_every_alert_has_its_section_in_the_runbook(rule: dict[str, dict[str, str]]) -> None:
    """The link leads to a heading, as those who render Markdown make anchors of them."""
    file, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (DEPLOY / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}


def test_the_dashboard_names_no_data_source() -> None:
    """It is a variable, so that the dashboard works in any Grafana."""
    assert set(re.findall(r'"uid": "([^"]+)"', DASHBOARD.read_text(encoding="utf-8"))) == {
        "$datasource",
        "lookup-stage",
    }


def _names(expressions: Iterable[str]) -> set[str]:
    found = {
        name
        for expression in expressions
        for name in re.findall(r"\b(?:lookup|process)_[a-z_]+", re.sub(r'"[^"]*"', "", expression))
    }
    histograms = {metric.name for metric in METRICS if metric.kind == "histogram"}
    return {_family(name, histograms) for name in found}


def _family(name: str, histograms: set[str]) -> str:
    family = re.sub(r"_(bucket|sum|count)$", "", name)
    return family if family in histograms else name


def _promtool(*arguments: str) -> None:
    promtool = require_tool("promtool")
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
