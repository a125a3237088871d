"""A broker in this process: librdkafka's mock cluster speaks Kafka's protocol on a loopback port."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

START_TIMEOUT_S = 10.0


class InProcessBroker:
    """Keeps its topics in memory for as long as it is open; good for demos and quick tests, not for data."""

    def __enter__(self) -> Self:
        # The address is never connected to: the mock cluster replaces it.
        self._owner = Producer(
            {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 0}
        )
        brokers = self._owner.list_topics(timeout=START_TIMEOUT_S).brokers.values()
        self.bootstrap_servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del self._owner

    def create_topics(self, names: Iterable[str]) -> None:
        """Make topics of four partitions each: the mock cluster does so when it is asked about one."""
        for name in names:
            self._owner.list_topics(name, timeout=START_TIMEOUT_S)
