"""What users import from `streams`, and what that costs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pipeline.guard
import streams
import streams.client
import streams.settings.loading

ROOT = Path(__file__).parents[2]

HEAVY = (
    "faust",
    "mode",
    "pymilvus",
    "grpc",
    "numpy",
    "wordllama",
    "click",
    "prometheus_client",
    "tenacity",
)
"""What only the worker and the commands need."""


def modules_after(program: str) -> set[str]:
    """Return the names of the modules that a program of its own has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return set(done.stdout.split())


def test_every_exported_name_can_be_imported() -> None:
    """As `from streams import …` asks for it."""
    assert {name: getattr(streams, name) is not None for name in streams.__all__} == dict.fromkeys(
        streams.__all__, True
    )
    assert dir(streams) == sorted(streams.__all__)


def test_exported_names_are_those_of_their_modules() -> None:
    """Not copies, and under the name that says what they are."""
    assert streams.connected_client is streams.client.connected_client
    assert streams.check_citations is pipeline.guard.check_citations
    assert streams.load_settings is streams.settings.loading.load


def test_name_that_is_not_exported_is_an_attribute_error() -> None:
    """A typing error is told as Python tells it."""
    with pytest.raises(AttributeError, match="module 'streams' has no attribute 'LookupClinet'"):
        streams.LookupClinet  # noqa: B018 - the access is the test


@pytest.mark.parametrize("name", ["LookupClient", "connected_client", "check_citations", "LookupResult"])
def test_client_needs_neither_engine_nor_worker(name: str) -> None:
    """An agent's image has no Faust, no pymilvus and no model."""
    loaded = {module.partition(".")[0] for module in modules_after(f"from streams import {name}")}
    assert loaded & {*HEAVY} == set()


def test_import_of_the_package_alone_loads_nothing_else() -> None:
    """Commands and worker import it on their way to their own modules."""
    third_party = {"aiokafka", "pydantic", "orjson", "pipeline"}
    assert {module.partition(".")[0] for module in modules_after("import streams")} & third_party == set()
