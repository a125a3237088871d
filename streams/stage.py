"""The stage itself: takes records in, answers and publishes them, and drains when it has to leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from streams.answering import Answer, Answerer
from streams.in_flight import InFlight, Partition
from streams.publishing import Publisher, RecordTooLarge
from streams.records import ConsumedRecord

log = structlog.get_logger(__name__)


class LookupStage:
    """Answers requests as they come, each acknowledged only after its answer is confirmed."""

    def __init__(self, answerer: Answerer, publisher: Publisher, *, max_in_flight: int) -> None:
        """Takes its parts and the bound on requests in work."""
        self._answerer = answerer
        self._publisher = publisher
        self._in_flight = InFlight(max_in_flight, self._failed)
        self._open = asyncio.Event()
        self._open.set()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def take(self, record: ConsumedRecord, acknowledge: Callable[[], object]) -> None:
        """Starts work on a record; waits while too many are in work or the stage is draining."""
        await self._open.wait()
        await self._in_flight.start(
            (record.topic, record.partition), lambda: self._process(record), acknowledge
        )

    async def drain(self, timeout_s: float) -> None:
        """Takes nothing new and finishes what is in work; what is not finished stays unacknowledged.

        Args:
            timeout_s: Seconds after which unfinished work is cancelled.
        """
        self._open.clear()
        unfinished = await self._in_flight.drain(timeout_s)
        if unfinished:
            log.warning("requests_left_unfinished", count=unfinished)

    def resume(self, *, without: Iterable[Partition] = ()) -> None:
        """Takes records again after a drain, and forgets partitions that are no longer its own."""
        self._in_flight.forget(without)
        self._open.set()

    async def _process(self, record: ConsumedRecord) -> None:
        answer = await self._answerer.answer(record)
        try:
            await self._publish(answer)
        except RecordTooLarge as error:
            await self._publish(self._answerer.too_large(record, answer, error))

    async def _publish(self, answer: Answer) -> None:
        records = (answer.result, answer.dead_letter)
        await self._publisher.publish([record for record in records if record is not None])

    def _failed(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)
