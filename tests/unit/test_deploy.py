"""What lies in deploy/ is what the code takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.settings import loading
from streams.settings.model import Settings
from streams.settings.sources import environment_name, setting_keys

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_example_settings_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example file has settings only, and good ones."""
    monkeypatch.setenv("LOOKUP_CONFIG", "")
    assert loading.load(DEPLOY / "lookup-stage.example.yaml").milvus.collection == "knowledge"


def test_the_example_environment_names_settings() -> None:
    """Every variable of the example environment is a setting's."""
    lines = (DEPLOY / "lookup-stage.example.env").read_text(encoding="utf-8").splitlines()
    names = {line.partition("=")[0] for line in lines if line and not line.startswith("#")}
    assert names <= {environment_name(key) for key in setting_keys(Settings)}
