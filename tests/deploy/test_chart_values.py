"""The chart's values: wrong ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.helm import CHART, HelmFailed, render

pytestmark = pytest.mark.timeout(900)  # the first test may build Helm

SCHEMA = CHART / "values.schema.json"


def test_the_values_are_all_in_the_schema() -> None:
    """No value is there that cannot be checked, none is checked that is not there."""
    properties = json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(properties) - {"global"} == set(values)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("config.rag.retreive-k=20", "retreive-k"),
        ("config.rag.retrieve-k=0", "retrieve-k"),
        ('config.rag.retrieve-k="20"', "retrieve-k"),
        ('config.stage.ordering="topic"', "ordering"),
        ('config.kafka.sasl-password="x"', "sasl-password"),
        ('config.milvus.token="x"', "token"),
        ("config.metrics.port=1", "metrics"),
        ('config.kafka.group-instance-id="a"', "group-instance-id"),
        ("topics.partitions=0", "partitions"),
        ("kedaa.enabled=true", "kedaa"),
        ('networkPolicy.egressPorts=["kafka"]', "egressPorts"),
    ],
)
def test_wrong_values_are_refused(helm: Path, wrong: str, named: str) -> None:
    """A typo, a wrong type or a secret in the values stops the installation, and is named."""
    with pytest.raises(HelmFailed, match=named):
        render(helm, f"--set-json={wrong}")
