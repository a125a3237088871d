"""What counts as too large to be published."""

from __future__ import annotations

from typing import Any, cast

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from streams.kafka.publishing import Publisher, RecordTooLarge
from streams.kafka.records import Headers, ProducedRecord


@pytest.mark.parametrize(
    "headers",
    [(), (("a", None),), (("n", b"v"),) * 300, (("", b""),) * 60_000, (("é" * 5_000, b"v" * 50_000),) * 30],
    ids=["none", "one", "many", "very-many-empty", "large"],
)
def test_record_that_the_producer_refuses_is_too_large(headers: Headers) -> None:
    """However many headers it has: a record that passes here and is refused there ends the worker."""
    key, value = b"k" * 100, b"v" * 1_000
    bytes_there = DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, list(headers))
    publisher = Publisher(cast("Any", None), timeout_s=1.0, max_bytes={"t": bytes_there - 1})
    with pytest.raises(RecordTooLarge):
        publisher.check_size(ProducedRecord(topic="t", key=key, value=value, headers=headers))
