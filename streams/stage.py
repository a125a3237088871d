"""The stage itself: takes records in, answers and publishes them, and drains when it has to leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import structlog

from pipeline.circuit import CircuitBreaker
from pipeline.errors import SearchUnavailable
from streams.answering import Answer, Answerer
from streams.dead_letters import DeadLetterLimit
from streams.in_flight import InFlight, Partition
from streams.publishing import Publisher, RecordTooLarge
from streams.records import ConsumedRecord, ProducedRecord

log = structlog.get_logger(__name__)

MOST_FAILURES_ALONE = 20
"""How often a request may find the search down that others find up, before it is told so."""

Ordering: TypeAlias = Literal["none", "key", "partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePolicy:
    """How the stage treats many requests and outages.

    Attributes:
        max_in_flight: Most requests in work at once.
        ordering: Whose requests are answered one after the other.
        waits_for_search: Whether requests wait for a search that is down, instead of failing.
        max_dead_letters_per_minute: Of those that trying again cannot help.
    """

    max_in_flight: int
    ordering: Ordering = "none"
    waits_for_search: bool = False
    max_dead_letters_per_minute: int = 1_000


class LookupStage:
    """Answers requests as they come, each acknowledged only after its answer is confirmed.

    Attributes:
        failed: Done, with the reason, when requests can no longer be answered: the worker must stop.
    """

    def __init__(
        self,
        answerer: Answerer,
        publisher: Publisher,
        policy: StagePolicy,
        *,
        circuits: Sequence[CircuitBreaker] = (),
    ) -> None:
        """Takes its parts; `circuits` are those of the search and the embedder."""
        self._answerer = answerer
        self._publisher = publisher
        self._policy = policy
        self._circuits = circuits
        self._in_flight = InFlight(policy.max_in_flight, self._fail)
        self._dead_letters = DeadLetterLimit(policy.max_dead_letters_per_minute)
        self._leaving = False
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def take(self, record: ConsumedRecord, acknowledge: Callable[[], object]) -> None:
        """Starts work on a record; waits while too many are in work or the stage is draining or paused."""
        await self._in_flight.start(
            (record.topic, record.partition),
            lambda: self._process(record),
            acknowledge,
            after=self._order_of(record),
            gate=self._search_is_up if self._policy.waits_for_search else None,
        )

    async def drain(self, timeout_s: float) -> None:
        """Takes nothing new and finishes what is in work; what is not finished stays unacknowledged.

        Args:
            timeout_s: Seconds after which unfinished work is cancelled.
        """
        unfinished = await self._in_flight.drain(timeout_s)
        if unfinished:
            log.warning("requests_left_unfinished", count=unfinished)

    async def leave(self, timeout_s: float) -> None:
        """Drains for good: `resume` does not take records again.

        Args:
            timeout_s: Seconds after which unfinished work is cancelled.
        """
        self._leaving = True
        await self.drain(timeout_s)

    def resume(self, *, without: Iterable[Partition] = ()) -> None:
        """Takes records again after a drain, and forgets partitions that are no longer its own."""
        self._in_flight.forget(without)
        if not self._leaving:
            self._in_flight.resume()

    async def _process(self, record: ConsumedRecord) -> None:
        answer = await self._answerer.answer(record)
        failures_alone = 0
        while self._policy.waits_for_search and self._search_was_down(answer):
            failures_alone += self._others_are_answered()
            if failures_alone > MOST_FAILURES_ALONE:
                break
            await self._search_is_up()
            answer = await self._answerer.answer(record)
        await self._publish(self._within_size(record, answer))

    async def _publish(self, answer: Answer) -> None:
        if answer.dead_letter is not None and not answer.can_be_retried:
            self._dead_letters.count(asyncio.get_running_loop().time())
        records = (answer.result, answer.dead_letter)
        await self._publisher.publish([record for record in records if record is not None])

    def _within_size(self, record: ConsumedRecord, answer: Answer) -> Answer:
        error = self._too_large(answer.result)
        if error is not None:
            answer = self._answerer.too_large(record, answer, error)
            if self._too_large(answer.result) is not None:  # the request's id and headers are enough for that
                log.error("result_too_large", partition=record.partition, offset=record.offset)
                answer = replace(answer, result=None)
        error = self._too_large(answer.dead_letter)
        if error is not None:
            if answer.result is None:
                raise error
            log.error("dead_letter_too_large", partition=record.partition, offset=record.offset)
            answer = replace(answer, dead_letter=None)
        return answer

    def _too_large(self, record: ProducedRecord | None) -> RecordTooLarge | None:
        if record is not None:
            try:
                self._publisher.check_size(record)
            except RecordTooLarge as error:
                return error
        return None

    def _search_was_down(self, answer: Answer) -> bool:
        if any(isinstance(error, SearchUnavailable) for error in answer.search_errors):
            return True
        return answer.can_be_retried and not self._others_are_answered()

    def _others_are_answered(self) -> bool:
        return all(circuit.state == "closed" for circuit in self._circuits)

    async def _search_is_up(self) -> None:
        for circuit in self._circuits:
            await circuit.passable()

    def _order_of(self, record: ConsumedRecord) -> Hashable | None:
        if self._policy.ordering == "key":
            return record.key
        return record.partition if self._policy.ordering == "partition" else None

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)
