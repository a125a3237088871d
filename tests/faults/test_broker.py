"""A broker that goes and comes back under load, in a few seconds; the soak does it for minutes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.broker_outages import broker_down_for_long, broker_outages
from tests.support.fixtures import skip_unless_required
from tests.support.kafka_server import KafkaServer, KafkaUnavailable

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """Yield a broker of one's own, to be stopped and killed."""
    try:
        server = KafkaServer(tmp_path_factory.mktemp("broker"))
    except KafkaUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_KAFKA", missing)
    with server:
        yield server


async def test_broker_outages_leave_no_request_without_a_result(broker: KafkaServer, tmp_path: Path) -> None:
    """A broker that is stopped and comes back costs nothing but time; the test below kills it."""
    report = await broker_outages(broker, tmp_path, rate=100, ends=["stop"], down_s=2)
    assert report.passed, report.line


async def test_broker_down_for_long_ends_the_worker_and_costs_no_request(
    broker: KafkaServer, tmp_path: Path
) -> None:
    """A worker that cannot publish, and one that is told to stop meanwhile, end in time and lose nothing."""
    report = await broker_down_for_long(broker, tmp_path, rate=50, publish_timeout_s=1)
    assert report.passed, report.line
