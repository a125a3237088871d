"""A Milvus that goes and comes back under load; the soak lets it be down for longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.milvus_outage import OutageLoad, milvus_outage
from tests.support.fixtures import skip_unless_required
from tests.support.milvus_server import MilvusServer, MilvusUnavailable

pytestmark = [pytest.mark.kafka, pytest.mark.milvus]


@pytest.fixture(scope="module")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    """Yield a Milvus of one's own, to be killed."""
    try:
        server = MilvusServer(tmp_path_factory.mktemp("milvus"))
    except MilvusUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_MILVUS", missing)
    with server:
        yield server


async def test_milvus_outage_is_answered_or_waited_for(
    kafka: str, milvus: MilvusServer, tmp_path: Path
) -> None:
    """While it is down each request is answered `failed`, or by policy none is; then evidence comes soon."""
    load = OutageLoad(rate=50, down_s=1)
    report = await milvus_outage(kafka, milvus, tmp_path, policies=("answer", "wait"), load=load)
    assert report.passed, report.line
