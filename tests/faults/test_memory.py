"""The memory of a worker over a few thousand requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.memory import steady_memory

pytestmark = pytest.mark.kafka


async def test_memory_does_not_grow_with_every_request(kafka: str, tmp_path: Path) -> None:
    """A leak of a kilobyte a request would show; what the soak shows over 500,000 requests is finer."""
    report = await steady_memory(kafka, tmp_path, requests=4_000, warm_up=1_000, most_growth=0.1)
    assert report.passed, report.line
