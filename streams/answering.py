"""From a consumed record to what is published for it. Knows no broker and never raises for a bad request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from pipeline.errors import SearchError
from pipeline.lookup import INTERNAL, LookupPipeline
from pipeline.model import Lookup, Outcome, Problem
from streams.dead_letters import Failure, dead_letter_record
from streams.records import ConsumedRecord, ProducedRecord
from streams.requests import (
    LookupRequest,
    RequestInvalid,
    RequestRules,
    RequestUnreadable,
    decode,
    to_lookup,
    validate,
)
from streams.results import LookupResult, Rejection, encode, result_record
from streams.settings import TopicSettings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is published for one request.

    Attributes:
        result: For the agent; `None` where no request id could be read.
        dead_letter: The request itself, where it could not be answered with evidence.
        request_id: Whom the result is for, or `None`.
        status: The result's status, or `None`.
    """

    result: ProducedRecord | None
    dead_letter: ProducedRecord | None
    request_id: str | None
    status: str | None


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
        """Takes what every answer needs.

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
        """Answers one request, whatever its bytes are and whatever goes wrong on the way."""
        try:
            decoded = decode(record.value)
        except RequestUnreadable as error:
            return self._answer(record, None, Failure(stage="decode", retryable=False, error=error))
        try:
            return await self._look_up(record, validate(decoded))
        except RequestInvalid as error:
            rejection = Rejection(message="the request is not valid", fields=error.problems)
            return self._answer(
                record,
                LookupResult(request_id=decoded.request_id, status="rejected", error=rejection),
                Failure(stage="validate", retryable=False, error=error),
            )
        except Exception as error:
            log.exception("request_failed", partition=record.partition, offset=record.offset)
            return self._answer(
                record,
                LookupResult(request_id=decoded.request_id, status="failed", error=INTERNAL),
                Failure(stage="search", retryable=False, error=error),
            )

    def too_large(self, record: ConsumedRecord, answer: Answer, error: Exception) -> Answer:
        """Answers instead of a result that is larger than the brokers take."""
        if answer.request_id is None:
            raise error
        size = 0 if answer.result is None else len(answer.result.value or b"")
        problem = Problem(
            code="internal", message=f"the result has {size} bytes, which is more than the brokers take"
        )
        return self._answer(
            record,
            LookupResult(request_id=answer.request_id, status="failed", error=problem),
            Failure(stage="publish", retryable=False, error=error),
        )

    async def _look_up(self, record: ConsumedRecord, request: LookupRequest) -> Answer:
        lookup = to_lookup(request, self._rules)
        timeout_s = self._timeout_s
        if request.expires_at is not None:
            timeout_s = min(timeout_s, request.expires_at.timestamp() - self._now())
        if timeout_s <= 0:
            return self._answer(record, _result(request, lookup, Outcome(status="expired")), None)
        answered = await self._pipeline.run(lookup, timeout_s=timeout_s)
        for error in answered.failures:
            if not isinstance(error, SearchError):
                log.error("search_failed_unforeseen", offset=record.offset, exc_info=error)
        failure = _search_failure(answered.failures[0]) if answered.outcome.status == "failed" else None
        return self._answer(record, _result(request, lookup, answered.outcome), failure)

    def _answer(self, record: ConsumedRecord, result: LookupResult | None, failure: Failure | None) -> Answer:
        return Answer(
            request_id=None if result is None else result.request_id,
            status=None if result is None else result.status,
            result=None
            if result is None
            else result_record(
                record,
                topic=self._topics.results,
                request_id=result.request_id,
                status=result.status,
                value=encode(result),
            ),
            dead_letter=None
            if failure is None
            else dead_letter_record(record, failure, topic=self._topics.dead_letters),
        )


def _result(request: LookupRequest, lookup: Lookup, outcome: Outcome) -> LookupResult:
    return LookupResult(
        request_id=request.request_id,
        status=outcome.status,
        evidence=outcome.evidence,
        paths=outcome.paths,
        ledger=outcome.ledger,
        limits=lookup.limits,
        error=outcome.error,
        hints=request.hints,
        dropped=outcome.dropped if request.explain else None,
    )


def _search_failure(error: Exception) -> Failure:
    if isinstance(error, SearchError):
        return Failure(stage="search", retryable=error.retryable, error=error, attempts=error.attempts)
    return Failure(stage="search", retryable=False, error=error)
