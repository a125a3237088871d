"""Odd record batches between good requests, a few hundred of them; the soak sends 10,000."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.odd_records import odd_records
from tests.support.fixtures import skip_unless_required
from tests.support.kafka_server import KafkaServer, KafkaUnavailable
from tests.support.ports import free_port

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """Yield a broker with a listener for a proxy."""
    try:
        server = KafkaServer(tmp_path_factory.mktemp("broker"), proxy_port=free_port())
    except KafkaUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_KAFKA", missing)
    with server:
        yield server


async def test_odd_records_stop_nobody_and_are_accounted_for(broker: KafkaServer, tmp_path: Path) -> None:
    """Good requests among batches of every kind are answered; nothing is skipped silently."""
    report = await odd_records(broker, tmp_path, good=200, odd_batches=200, seed=1)
    assert report.passed, report.line
