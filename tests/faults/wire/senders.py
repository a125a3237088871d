"""Everyone who sends odd batches."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.wire.accounting import Sent
from tests.faults.wire.java_producer import JavaProducer
from tests.faults.wire.librdkafka_producer import LibrdkafkaProducer
from tests.faults.wire.oddities import Odd
from tests.faults.wire.orders import Delivery
from tests.faults.wire.raw_producer import RawProducer, Refused, raw_producer


@dataclass(frozen=True, slots=True, kw_only=True)
class Senders:
    """Send odd batches to a topic: by hand, through librdkafka, and through Kafka's Java client."""

    topic: str
    hand: RawProducer
    librdkafka: LibrdkafkaProducer
    java: JavaProducer

    async def send(self, batches: Iterable[Odd]) -> list[Sent]:
        """Send batches, each sender its own in order, and return what became of each."""
        by_sender: defaultdict[str, list[Odd]] = defaultdict(list)
        for each in batches:
            by_sender[each.sender].append(each)
        sent = await asyncio.gather(
            self._by_hand(by_sender["hand"]),
            asyncio.to_thread(_by_client, self.librdkafka, by_sender["librdkafka"]),
            asyncio.to_thread(_by_client, self.java, by_sender["java"]),
        )
        return [each for sender in sent for each in sender]

    async def _by_hand(self, batches: Sequence[Odd]) -> list[Sent]:
        sent = []
        for each in batches:
            assert each.batch is not None
            outcome = await self.hand.send(self.topic, each.partition, each.batch)
            deliveries: list[Delivery] = [
                outcome.reason if isinstance(outcome, Refused) else outcome.offset + record
                for record in range(len(each.contents))
            ]
            sent.append(Sent(odd=each, deliveries=deliveries))
        return sent


def _by_client(client: LibrdkafkaProducer | JavaProducer, batches: Sequence[Odd]) -> list[Sent]:
    sent = []
    for each in batches:
        assert each.order is not None
        sent.append(Sent(odd=each, deliveries=client.send(each.order)))
    return sent


@asynccontextmanager
async def senders(bootstrap: str, topic: str, directory: Path) -> AsyncIterator[Senders]:
    """Yield everyone who sends to a topic, connected to the broker itself.

    Args:
        bootstrap: Address of the broker.
        topic: The topic.
        directory: Where the log of the Java client goes.
    """
    async with raw_producer(bootstrap) as hand:
        with (
            LibrdkafkaProducer(bootstrap, topic) as librdkafka,
            JavaProducer(bootstrap, topic, directory / "java.log") as java,
        ):
            yield Senders(topic=topic, hand=hand, librdkafka=librdkafka, java=java)
