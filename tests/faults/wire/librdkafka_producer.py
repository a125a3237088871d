"""Orders sent by librdkafka."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException, Producer

from tests.faults.wire.batches import Codec
from tests.faults.wire.orders import Delivery, Ending, Order

DEADLINE_S = 30.0
LARGEST_BYTES = 2_000_000


class LibrdkafkaProducer:
    """One producer for each codec and way of ending; blocks."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Take the broker's address and the topic."""
        self._bootstrap, self._topic = bootstrap, topic
        self._producers: dict[tuple[Codec, bool], Any] = {}

    def send(self, order: Order) -> Sequence[Delivery]:
        """Send an order, and return what became of each record.

        Raises:
            KafkaException: A transaction could not be begun or ended.
        """
        deliveries: list[Delivery] = ["not delivered"] * len(order.records)
        producer = self._producer(order.codec, order.ending)
        if order.ending != "plain":
            producer.begin_transaction()
        for number, record in enumerate(order.records):

            def delivered(error: Any, message: Any, number: int = number) -> None:
                deliveries[number] = message.offset() if error is None else error.name()

            try:
                producer.produce(
                    self._topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=order.partition,
                    timestamp=record.timestamp_ms or 0,
                    on_delivery=delivered,
                )
            except KafkaException as refusal:
                deliveries[number] = refusal.args[0].name()
        producer.flush(DEADLINE_S)
        if order.ending == "commit":
            producer.commit_transaction(DEADLINE_S)
        elif order.ending == "abort":
            producer.abort_transaction(DEADLINE_S)
        return deliveries

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for producer in self._producers.values():
            producer.flush(DEADLINE_S)

    def _producer(self, codec: Codec, ending: Ending) -> Any:
        in_transactions = ending != "plain"
        if (codec, in_transactions) not in self._producers:
            settings = {
                "bootstrap.servers": self._bootstrap,
                "compression.type": codec.name.lower(),
                "enable.idempotence": True,
                "message.max.bytes": LARGEST_BYTES,
                "log_level": 0,
            }
            if in_transactions:
                settings["transactional.id"] = f"{self._topic}-librdkafka-{codec.name}"
            producer = self._producers[codec, in_transactions] = Producer(settings)
            if in_transactions:
                producer.init_transactions(DEADLINE_S)
        return self._producers[codec, in_transactions]
