"""Results: what agents read from the results topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import orjson
from pydantic import TypeAdapter

from pipeline.model import Dropped, Evidence, Ledger, Limits, Outcome, PathReport, Problem
from pipeline.values import statically_frozen
from streams.kafka.records import ConsumedRecord, ProducedRecord
from streams.wire.requests import FieldProblem, RequestInvalid
from streams.wire.trace_context import HEADER_TRACEPARENT, HEADER_TRACESTATE, joined_tracestate

ResultStatus: TypeAlias = Literal["ok", "empty", "partial", "failed", "expired", "rejected"]

HEADER_REQUEST_ID = "lookup-request-id"
HEADER_STATUS = "lookup-status"
COPIED_HEADERS = frozenset({"correlation_id", HEADER_TRACEPARENT, HEADER_TRACESTATE})

EMPTY_LEDGER = Ledger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """What is wrong with a request.

    Attributes:
        message: One sentence.
        fields: Every field that is wrong, at least one.
    """

    code: Literal["invalid_request"] = "invalid_request"
    message: str
    fields: tuple[FieldProblem, ...]


@statically_frozen(frozen=True, slots=True, kw_only=True)
class LookupResult:
    """The answer to a request: a pure function of request, hits and configuration.

    Attributes:
        request_id: The request's own.
        status: How it went.
        evidence: In rank order.
        paths: One report a query; none where nothing was searched.
        ledger: What became of every hit; it balances.
        limits: The widths in force, `None` for a rejected request.
        error: Why it was rejected or failed.
        hints: The request's own, echoed; `None` where they or the request's JSON are at fault.
        dropped: Every hit that is not in the evidence; left out of the JSON unless asked for with `explain`.
    """

    request_id: str
    status: ResultStatus
    evidence: tuple[Evidence, ...] = ()
    paths: tuple[PathReport, ...] = ()
    ledger: Ledger = EMPTY_LEDGER
    limits: Limits | None = None
    error: Problem | Rejection | None = None
    hints: Any = None
    dropped: tuple[Dropped, ...] | None = None


_RESULT = TypeAdapter(LookupResult)


def result_of(
    outcome: Outcome, *, request_id: str, limits: Limits, hints: Any, explain: bool | None
) -> LookupResult:
    """Tell an agent what its lookup came to; the live stage and the replay of recorded hits both do."""
    return LookupResult(
        request_id=request_id,
        status=outcome.status,
        evidence=outcome.evidence,
        paths=outcome.paths,
        ledger=outcome.ledger,
        limits=limits,
        error=outcome.error,
        hints=hints,
        dropped=outcome.dropped if explain else None,
    )


def rejected_result(error: RequestInvalid) -> LookupResult:
    """Tell an agent what is wrong with its request."""
    rejection = Rejection(message="the request is not valid", fields=error.problems)
    return LookupResult(request_id=error.request_id, status="rejected", error=rejection, hints=error.hints)


def encode_result(result: LookupResult) -> bytes:
    """Return a result as JSON; equal results give equal bytes."""
    body: dict[str, Any] = {
        "request_id": result.request_id,
        "status": result.status,
        "evidence": result.evidence,
        "paths": result.paths,
        "ledger": result.ledger,
    }
    if result.dropped is not None:
        body["dropped"] = result.dropped
    body |= {"limits": result.limits, "error": result.error, "hints": result.hints}
    return encode_members(body)


def encode_members(members: Mapping[str, Any]) -> bytes:
    """Return a result's members as JSON, in their order; what was read of a result is its bytes again."""
    try:
        return orjson.dumps(members)
    except TypeError:
        # Integers over 64 bits and lone surrogates, which a port may bring, must not cost the answer.
        text = json.dumps(members, default=asdict, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def decode_result(value: bytes) -> LookupResult:
    """Read a result from the results topic.

    Raises:
        ValueError: It is not the JSON of a result.
    """
    # Not orjson, which reads integers over 64 bits as floats.
    return of_members(json.loads(value))


def of_members(members: Mapping[str, Any]) -> LookupResult:
    """Read a result that is an object already.

    Raises:
        ValueError: It is not a result.
    """
    return _RESULT.validate_python(members)


def result_record(request: ConsumedRecord, result: LookupResult, *, topic: str) -> ProducedRecord:
    """Addresses a result: the request's key, or its id where it has none, and the headers agents look at.

    The headers that a request and its result have in common are copied as they are, except that several
    `tracestate` become one.
    """
    request_id = result.request_id.encode()
    copied = tuple(header for header in request.headers if header[0] in COPIED_HEADERS)
    return ProducedRecord(
        topic=topic,
        key=request_id if request.key is None else request.key,
        value=encode_result(result),
        headers=(
            ("content-type", b"application/json"),
            (HEADER_REQUEST_ID, request_id),
            (HEADER_STATUS, result.status.encode()),
            *joined_tracestate(copied),
        ),
    )
