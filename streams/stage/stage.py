"""The stage itself: takes records in, answers and publishes them, and drains when it has to leave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

import structlog

from pipeline.circuit import CircuitBreaker, CircuitState
from pipeline.errors import SearchUnavailable
from streams.kafka.publishing import RecordPublisher, RecordTooLarge
from streams.kafka.records import ConsumedRecord, ProducedRecord
from streams.stage.answering import Answer, Answerer
from streams.stage.in_flight import InFlight, Partition
from streams.stage.recorder import Recorder
from streams.wire.dead_letters import DeadLetterLimit, shortened

log = structlog.get_logger(__name__)

MOST_FAILURES_ALONE = 20
"""How often a request may find the search down that others find up, before it is told so."""

NO_CIRCUITS: Mapping[str, CircuitBreaker] = MappingProxyType({})

Ordering: TypeAlias = Literal["none", "key", "partition"]


class Around(Protocol):
    """What is done around the work on each request."""

    async def __call__(
        self, record: ConsumedRecord, work: Callable[[ConsumedRecord], Awaitable[Answer]]
    ) -> Answer:
        """Do the work on a record, and return its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePolicy:
    """How the stage treats many requests and outages.

    Attributes:
        max_in_flight: Most requests in work at once.
        ordering: Whose requests are answered one after the other.
        waits_for_search: Whether requests wait for a search that is down, instead of failing.
        max_dead_letters_per_minute: Of those that trying again cannot help.
        recorder: Records requests, if any are to be.
    """

    max_in_flight: int
    ordering: Ordering = "none"
    waits_for_search: bool = False
    max_dead_letters_per_minute: int = 1_000
    recorder: Recorder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageHooks:
    """Who is told of a stage's work.

    Attributes:
        on_answered: Told of each record whose answer is confirmed, and of the seconds since work on it began.
        around: Does the work on a record that it is given, and may do more before and after.
    """

    on_answered: Callable[[ConsumedRecord, Answer, float], object] = lambda _record, _answer, _seconds: None
    around: Around | None = None


NO_HOOKS = StageHooks()


class LookupStage:
    """Answers requests as they come, each acknowledged only after its answer is confirmed.

    Attributes:
        failed: Done, with the reason, when requests can no longer be answered: the worker must stop.
    """

    def __init__(
        self,
        answerer: Answerer,
        publisher: RecordPublisher,
        policy: StagePolicy,
        *,
        circuits: Mapping[str, CircuitBreaker] = NO_CIRCUITS,
        hooks: StageHooks = NO_HOOKS,
    ) -> None:
        """Initialize with its parts.

        Args:
            answerer: Answers requests.
            publisher: Publishes the answers.
            policy: How to treat many requests and outages.
            circuits: Those of the search and the embedder, by name.
            hooks: Who is told of its work.
        """
        self._answerer = answerer
        self._publisher = publisher
        self._policy = policy
        self._circuits = circuits
        self._on_answered = hooks.on_answered
        self._work = self._process if hooks.around is None else partial(hooks.around, work=self._process)
        self._in_flight = InFlight(policy.max_in_flight, self._fail)
        self._dead_letters = DeadLetterLimit(policy.max_dead_letters_per_minute)
        self._leaving = False
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def take(self, record: ConsumedRecord, acknowledge: Callable[[], object]) -> None:
        """Start work on a record; waits while too many are in work or the stage is draining or paused."""
        await self._in_flight.start(
            (record.topic, record.partition),
            lambda: self._work(record),
            acknowledge,
            after=self._order_of(record),
            gate=self._search_is_up if self._policy.waits_for_search else None,
        )

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new and finish what is in work; what is not finished stays unacknowledged.

        Args:
            timeout_s: Seconds after which unfinished work is cancelled.
        """
        unfinished = await self._in_flight.drain(timeout_s)
        if unfinished:
            log.warning("requests_left_unfinished", count=unfinished)

    async def leave(self, timeout_s: float) -> None:
        """Drain for good: `resume` does not take records again.

        Args:
            timeout_s: Seconds after which unfinished work is cancelled.
        """
        self._leaving = True
        await self.drain(timeout_s)

    def resume(self, *, without: Iterable[Partition] = ()) -> None:
        """Accept records again after a drain, and forget partitions that are no longer its own."""
        self._in_flight.forget(without)
        if not self._leaving:
            self._in_flight.resume()

    @property
    def in_flight(self) -> int:
        """Requests in work."""
        return len(self._in_flight)

    @property
    def draining(self) -> bool:
        """Whether it takes nothing new, because it or some of its partitions leave."""
        return not self._in_flight.is_open

    @property
    def held_up(self) -> bool:
        """Whether requests wait for a search that is down."""
        return self._policy.waits_for_search and not self._others_are_answered()

    def unacknowledged(self) -> dict[Partition, int]:
        """Count, per partition, the requests that were taken and are not acknowledged."""
        return self._in_flight.unacknowledged()

    def circuit_states(self) -> dict[str, CircuitState]:
        """Return the state of each engine's circuit."""
        return {engine: circuit.state for engine, circuit in self._circuits.items()}

    async def _process(self, record: ConsumedRecord) -> Answer:
        began = time.monotonic()
        answer = await self._answerer.answer(record)
        failures_alone = 0
        while self._policy.waits_for_search and self._search_was_down(answer):
            failures_alone += self._others_are_answered()
            if failures_alone > MOST_FAILURES_ALONE:
                break
            await self._search_is_up()
            answer = await self._answerer.answer(record)
        answer = self._within_size(record, answer)
        await self._publish(record, answer)
        self._on_answered(record, answer, time.monotonic() - began)
        return answer

    async def _publish(self, record: ConsumedRecord, answer: Answer) -> None:
        if answer.dead_letter is not None and not answer.can_be_retried:
            self._dead_letters.count(asyncio.get_running_loop().time())
        records = (answer.result, answer.dead_letter, self._recording(record, answer))
        await self._publisher.publish([each for each in records if each is not None])

    def _recording(self, record: ConsumedRecord, answer: Answer) -> ProducedRecord | None:
        """Make the recording, if there is to be one and its topic takes it: it must not cost the answer."""
        recorder = self._policy.recorder
        recording = None if recorder is None else recorder.record(record, answer)
        error = self._too_large(recording)
        if error is None:
            return recording
        log.warning("recording_too_large", why=str(error))
        return None

    def _within_size(self, record: ConsumedRecord, answer: Answer) -> Answer:
        error = self._too_large(answer.result)
        if error is not None:
            answer = self._answerer.too_large(record, answer, error)
            if self._too_large(answer.result) is not None:  # the request's id and headers are enough for that
                log.error("result_too_large")
                answer = replace(answer, result=None)
        letter, error = answer.dead_letter, self._too_large(answer.dead_letter)
        if letter is None or error is None:
            return answer
        if answer.result is not None:
            log.error("dead_letter_too_large")
            return replace(answer, dead_letter=None)
        # A compressed record may be many times as large as what its topic takes: it must not stop the others.
        letter = shortened(letter, error.excess_bytes, own_headers=len(record.headers))
        error = self._too_large(letter)
        if error is not None:
            raise error
        log.error("dead_letter_shortened", bytes=len(letter.value or b""))
        return replace(answer, dead_letter=letter)

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
        return all(circuit.state == "closed" for circuit in self._circuits.values())

    async def _search_is_up(self) -> None:
        for circuit in self._circuits.values():
            await circuit.passable()

    def _order_of(self, record: ConsumedRecord) -> Hashable | None:
        if self._policy.ordering == "key":
            return record.key
        return record.partition if self._policy.ordering == "partition" else None

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)
