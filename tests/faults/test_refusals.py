"""Searches that the engine refuses beside good ones; the soak takes more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.refusals import RefusalLoad, refused_searches

pytestmark = [pytest.mark.kafka, pytest.mark.milvus]


async def test_refused_searches_hurt_nobody_else(kafka: str, milvus_uri: str, tmp_path: Path) -> None:
    """Every good one is answered, the bad ones are told that they are refused, the circuit stays closed."""
    engines = {"standalone": milvus_uri, "lite": str(tmp_path / "rows.db")}
    load = RefusalLoad(searches=60, rate=60, seed=1, params=[{"ef": 16}])
    report = await refused_searches(kafka, engines, tmp_path, load=load)
    assert report.passed, report.line
