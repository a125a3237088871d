"""From a consumed record to what is published for it. Knows no broker and never raises for a bad request."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from pipeline.errors import SearchError
from pipeline.lookup import INTERNAL, LookupPipeline
from pipeline.model import Ledger, Lookup, Outcome, Problem
from pipeline.outcome import PathAnswer
from pipeline.values import statically_frozen
from streams.kafka.records import ConsumedRecord, ProducedRecord, Undecodable
from streams.settings.model import TopicSettings
from streams.stage.log_context import request_is, work_is_about
from streams.wire.dead_letters import Failure, RecordUndecodable, Stage, dead_letter_record
from streams.wire.decoding import RequestUnreadable, decode_request
from streams.wire.request_rules import RequestRules, check
from streams.wire.requests import LookupRequest, RequestInvalid
from streams.wire.results import LookupResult, rejected_result, result_of, result_record

log = structlog.get_logger(__name__)


@statically_frozen(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is published for one request.

    Attributes:
        result: For the agent; `None` where no request id could be read.
        dead_letter: The request itself, where it could not be answered with evidence.
        request_id: Whom the result is for, or `None`.
        status: The result's status, or `None`.
        lookup: The request with its defaults, where it was valid.
        paths: What the search said to each query; none where the result is not made of it.
        search_errors: Why paths of the lookup failed.
        ledger: What became of the hits, where the search gave an answer.
        failure: Why there is a dead letter.
    """

    result: ProducedRecord | None
    dead_letter: ProducedRecord | None
    request_id: str | None
    status: str | None
    lookup: Lookup | None = None
    paths: tuple[PathAnswer, ...] = ()
    search_errors: tuple[Exception, ...] = ()
    ledger: Ledger | None = None
    failure: Failure | None = None

    @property
    def can_be_retried(self) -> bool:
        """Whether asking the same later may give evidence."""
        return any(isinstance(error, SearchError) and error.retryable for error in self.search_errors)


class Answerer:
    """Answers requests. Holds no state between them."""

    def __init__(
        self,
        pipeline: LookupPipeline,
        *,
        rules: RequestRules,
        topics: TopicSettings,
        timeout_s: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Initialize with what every answer needs.

        Args:
            pipeline: Runs the lookups.
            rules: What requests are held to.
            topics: Where results and dead letters go.
            timeout_s: Seconds for embedding and searching one request.
            now: Seconds since the epoch, for `expires_at`.
        """
        self._pipeline = pipeline
        self._rules = rules
        self._topics = topics
        self._timeout_s = timeout_s
        self._now = now

    async def answer(self, record: ConsumedRecord) -> Answer:
        """Answer one request, whatever its bytes are and whatever goes wrong on the way."""
        work_is_about(record.partition, record.offset)
        if record.undecodable is not None:
            return self._left_out(record, record.undecodable)
        try:
            decoded = decode_request(record.value, record.headers)
        except RequestUnreadable as error:
            return self._answer(record, None, Failure(stage="decode", retryable=False, error=error))
        except RequestInvalid as error:
            return self._rejected(record, error, "decode")
        request_id = decoded.request_id
        request_is(request_id)
        try:
            request, lookup = check(decoded, self._rules)
            del decoded  # a body of many megabytes must not wait for the search
            return await self._look_up(record, request, lookup)
        except RequestInvalid as error:
            return self._rejected(record, error, "validate")
        except Exception as error:
            log.exception("request_failed")
            return self._failed(
                record, request_id, INTERNAL, Failure(stage="search", retryable=False, error=error)
            )

    def too_large(self, record: ConsumedRecord, answer: Answer, error: Exception) -> Answer:
        """Answer instead of a result that is larger than the brokers take.

        Args:
            record: The request.
            answer: The answer that cannot be published; it has a result.
            error: Why it cannot.
        """
        problem = Problem(code="internal", message=str(error))
        failure = Failure(stage="publish", retryable=False, error=error)
        return self._failed(record, answer.request_id or "", problem, failure)

    def _left_out(self, record: ConsumedRecord, what: Undecodable) -> Answer:
        """Return the dead letter of a record or a batch that could not be decoded."""
        log.error("record_undecodable", first_offset=what.first_offset, why=what.reason)
        error = RecordUndecodable(what.reason)
        return self._answer(record, None, Failure(stage="decode", retryable=False, error=error))

    async def _look_up(self, record: ConsumedRecord, request: LookupRequest, lookup: Lookup) -> Answer:
        timeout_s = self._timeout_s
        if request.expires_at is not None:
            timeout_s = min(timeout_s, request.expires_at.timestamp() - self._now())
        if timeout_s <= 0:
            result = _result(request, lookup, Outcome(status="expired"))
            return self._answer(record, result, None, lookup=lookup)
        answered = await self._pipeline.run(lookup, timeout_s=timeout_s)
        for error in answered.failures:
            if not isinstance(error, SearchError):
                log.error("search_failed_unforeseen", exc_info=error)
        outcome = answered.outcome
        failure = _search_failure(answered.failures) if outcome.status == "failed" else None
        return self._answer(
            record,
            _result(request, lookup, outcome),
            failure,
            lookup=lookup,
            paths=answered.answers,
            search_errors=answered.failures,
            ledger=outcome.ledger if failure is None else None,
        )

    def _rejected(self, record: ConsumedRecord, error: RequestInvalid, stage: Stage) -> Answer:
        failure = Failure(stage=stage, retryable=False, error=error)
        return self._answer(record, rejected_result(error), failure)

    def _failed(self, record: ConsumedRecord, request_id: str, problem: Problem, failure: Failure) -> Answer:
        return self._answer(
            record, LookupResult(request_id=request_id, status="failed", error=problem), failure
        )

    def _answer(
        self, record: ConsumedRecord, result: LookupResult | None, failure: Failure | None, **known: Any
    ) -> Answer:
        topics = self._topics
        return Answer(
            result=None if result is None else result_record(record, result, topic=topics.results),
            dead_letter=None
            if failure is None
            else dead_letter_record(record, failure, topic=topics.dead_letters),
            request_id=None if result is None else result.request_id,
            status=None if result is None else result.status,
            failure=failure,
            **known,
        )


def _result(request: LookupRequest, lookup: Lookup, outcome: Outcome) -> LookupResult:
    return result_of(
        outcome,
        request_id=request.request_id,
        limits=lookup.limits,
        hints=request.hints,
        explain=request.explain,
    )


def _search_failure(errors: Sequence[Exception]) -> Failure:
    """Tell of the first path's error, of the best chance that any path has, and of the most tries."""
    known = [error for error in errors if isinstance(error, SearchError)]
    return Failure(
        stage="search",
        retryable=any(error.retryable for error in known),
        error=errors[0],
        attempts=max((error.attempts for error in known), default=1),
    )
