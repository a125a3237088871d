"""Values that the interpreter holds frozen in its development mode only."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from pipeline.model import Limits
from pipeline.values import statically_frozen

ROOT = Path(__file__).parents[2]

# What makes values, reads them and hands them on, without a broker.
SUITES = (
    "test_identity",
    "test_processor",
    "test_projector",
    "test_outcome",
    "test_lookup",
    "test_answering",
    "test_frozen_replay",
)


@statically_frozen(frozen=True, slots=True)
class Point:
    """A value."""

    x: int


def test_value_is_hashable_and_equal_by_its_fields() -> None:
    """As a frozen dataclass is, in either mode."""
    assert len({Point(1), Point(1), Point(2)}) == 2


def test_development_mode_refuses_to_change_a_value() -> None:
    """The interpreter says what the type checker says."""
    program = (
        "from pipeline.model import Limits\n"
        "limits = Limits(retrieve_k=2, return_n=1, max_chunks_per_document=1)\n"
        "limits.return_n = 2\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"{FrozenInstanceError.__name__}: cannot assign to field 'return_n'" in done.stderr


@pytest.mark.skipif(sys.flags.dev_mode, reason="this is the development mode")
def test_values_are_open_outside_development_mode() -> None:
    """So the suites below show something that the others cannot."""
    limits = Limits(retrieve_k=2, return_n=1, max_chunks_per_document=1)
    limits.return_n = 2  # type: ignore[misc]
    assert limits.return_n == 2


def test_nothing_changes_a_value() -> None:
    """The suites of whatever handles values pass where values are frozen."""
    suites = [f"tests/unit/{name}.py" for name in SUITES]
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *suites],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:]
