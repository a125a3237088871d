"""Faust's consumer, but rebalances drain the stage, bytes bound memory, and no message needs a task."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Producer, Transport
from faust.transport.producer import ProducerBuffer
from faust.types import TP, ConsumerMessage
from mode import Service

from streams.kafka.tolerant_fetcher import read_committed, read_tolerantly
from streams.stage.stage import LookupStage
from streams.worker.offset_gaps import OffsetGaps

MAX_HELD_BYTES = 128 * 1_024 * 1_024
"""Faust bounds its buffers by events, whose size is up to the agents; this bounds them by bytes."""

GROUP_CHECK_INTERVAL_S = 1.0


class HeldBytes:
    """Counts the bytes of messages for as long as anything refers to them."""

    def __init__(self, limit: int, on_room: Callable[[], None]) -> None:
        """Initialize with the bound and what to call when half of it is free again."""
        self._limit = limit
        self._on_room = on_room
        self._full = False
        # By the reference's own identity: references to equal messages are equal.
        self._held: dict[int, tuple[weakref.ref[object], int]] = {}
        self.total = 0

    def hold(self, message: object, size: int) -> bool:
        """Count a message until it is gone.

        Returns:
            Whether there is no room for more.
        """
        reference = weakref.ref(message, self._release)
        self._held[id(reference)] = reference, size
        self.total += size
        self._full = self._full or self.total > self._limit
        return self._full

    def _release(self, reference: weakref.ref[object]) -> None:
        _, size = self._held.pop(id(reference))
        self.total -= size
        if self._full and self.total * 2 <= self._limit:
            self._full = False
            self._on_room()


class TolerantThread(AIOKafkaConsumerThread):
    """The thread of Faust's consumer, with a client that no record stops and no aborted one passes."""

    def _create_consumer(self, loop: Any) -> Any:
        return read_committed(super()._create_consumer(loop=loop))

    async def on_start(self) -> None:
        """Start the client."""
        await super().on_start()
        read_tolerantly(self._consumer)


class DirectConsumer(Consumer):
    """Faust's consumer, which delivers a message itself where that takes no waiting.

    Faust starts a task for each message, and three beside it that watch for the end of the flow. While it
    flows and there is room, there is nothing to watch for.
    """

    async def wait_first(self, *waited: Any, **options: Any) -> Any:
        """Delivers; Faust's consumer calls this with a delivery and with what suspends the flow."""
        delivery, *others = waited
        if len(others) != 1 or not self._flows():
            return await super().wait_first(*waited, **options)
        others[0].close()
        return await delivery

    def _flows(self) -> bool:
        return (
            not self.suspend_flow.is_set()
            and self.app.flow_control.is_active()
            and not any(topic.queue.full() for topic in self.app.topics)
        )


class TolerantConsumer(DirectConsumer):
    """Faust's consumer, but no record stops it, and commits pass every offset that has no record.

    Faust overlooks a gap that follows offset 0, and never commits again; of other gaps it lists every offset.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gaps = OffsetGaps()

    def _new_consumer_thread(self) -> TolerantThread:
        return TolerantThread(self, loop=self.loop, beacon=self.beacon)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Forget partitions that go to another worker."""
        await super().on_partitions_revoked(revoked)
        self._gaps.forget(revoked)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: `_to_message` has noted the gap."""

    def _new_offset(self, tp: TP) -> int | None:
        acked = self._acked[tp]
        acked.sort()
        count = self._gaps.contiguous(tp, acked, self._committed_offset[tp])
        if not count:
            return None
        done = acked[:count]
        del acked[:count]
        self._acked_index[tp].difference_update(done)
        return int(done[-1]) + 1

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        self._gaps.note(tp, self._read_offset[tp], record.offset)
        return super()._to_message(tp, record)


class IdleBuffer(ProducerBuffer):
    """The buffer of Faust's own producer, in which nothing ever is."""

    async def wait_until_ebb(self) -> None:
        """Hold no message up; Faust would look at its settings for each."""


class IdleProducer(Producer):
    """Faust's own producer, through which the stage sends nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.buffer = IdleBuffer(loop=self.loop, beacon=self.beacon)
        self.buffer.app = self.app


# In the body of a class of one's own Faust would replace the quiet logger of its library.
TolerantThread.logger = AIOKafkaConsumerThread.logger
DirectConsumer.logger = TolerantConsumer.logger = Consumer.logger
IdleBuffer.logger = ProducerBuffer.logger
IdleProducer.logger = Producer.logger


def stage_transport(app: faust.App, stage: LookupStage, *, drain_timeout_s: float) -> Transport:
    """Make the transport through which an app reads for a stage.

    Args:
        app: The app.
        stage: Drained before partitions go to another worker.
        drain_timeout_s: Seconds after which a drain cancels what is unfinished.
    """

    class StageConsumer(TolerantConsumer):
        """Commits what is in work before partitions go, and fetches no more than there is room for."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._held = HeldBytes(MAX_HELD_BYTES, self._fetch_again)

        @Service.task
        async def _notice_group_errors(self) -> None:
            # An error that ends its membership aiokafka keeps until its own `getmany` is called. Faust goes
            # around that: the worker would do nothing for ever.
            async for _ in self.itertimer(GROUP_CHECK_INTERVAL_S, name="group"):
                consumer = self._thread._consumer  # noqa: SLF001 - Faust shows it nowhere
                coordinator = getattr(consumer, "_coordinator", None)
                if coordinator is not None:
                    await self._thread.call_thread(coordinator.check_errors)

        async def on_partitions_revoked(self, revoked: set[TP]) -> None:
            # Faust forgets its acknowledgements first and commits second; this order spares the next owner
            # everything that is already answered. The stage takes records again only when Faust has emptied
            # its buffers: what was in them belongs to the next owner.
            try:
                await stage.drain(drain_timeout_s)
                # While a commit goes on, another does nothing.
                await self.maybe_wait_for_commit_to_finish()
                await self.commit()
                await super().on_partitions_revoked(revoked)
            finally:
                stage.resume(without=revoked)

        def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
            message = super()._to_message(tp, record)
            if self._held.hold(message, _size(record)):
                # The client's own pair is equal to Faust's, but Faust insists on its own.
                self.on_buffer_full(TP(tp.topic, tp.partition))
            return message

        def _fetch_again(self) -> None:
            for tp in list(self._buffered_partitions):
                self.on_buffer_drop(tp)

    StageConsumer.logger = Consumer.logger

    class StageTransport(Transport):
        """Faust's transport with that consumer and no producer to speak of."""

        Consumer = StageConsumer
        Producer = IdleProducer

    return StageTransport(app.conf.broker_consumer, app)


def _size(record: Any) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size
