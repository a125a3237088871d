"""What is counted, and what Prometheus is given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, cast, get_args

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.errors import SearchRejected, SearchTimeout, SearchUnavailable
from pipeline.model import DropReason, ErrorCode, Ledger, LookupStatus, SearchHit, SearchQuery
from pipeline.ports import SearchesManyAtOnce
from streams.kafka.records import ProducedRecord
from streams.observability import catalogue
from streams.observability.metrics import WorkerMetrics, registry_of
from streams.observability.search import MeasuredSearch, measured
from streams.observability.state import PartitionState, WorkerState
from streams.stage.answering import Answer
from streams.wire.dead_letters import Failure, RecordUndecodable
from streams.wire.results import ResultStatus
from tests.builders import FakeSearch, Hanging, SearchReply, answering, consumed, hit, raising

QUERY = SearchQuery(text="q", vector=None, limit=5)
RECORD = ProducedRecord(topic="t", key=None, value=b"", headers=())
STATE = WorkerState(
    seen_at=0,
    in_flight=3,
    circuits={"search": "open", "embedder": "half_open"},
    partitions=(
        PartitionState(topic="lookup.requests", partition=7, lag=5, uncommitted=2, uncommitted_age_s=1.5),
    ),
)


def new_metrics() -> WorkerMetrics:
    """Return metrics of a worker in the state above."""
    return WorkerMetrics(lambda: STATE)


def samples(metrics: WorkerMetrics) -> Mapping[tuple[str, tuple[str, ...]], float]:
    """Return what Prometheus reads: value by name and label values, by label."""
    text = generate_latest(registry_of(metrics)).decode()
    return {
        (sample.name, tuple(value for _label, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def answer(status: ResultStatus | None, *, failure: Failure | None = None, **others: Any) -> Answer:
    """Return an answer; with a failure it has a dead letter."""
    known: dict[str, Any] = {
        "result": RECORD,
        "dead_letter": None if failure is None else RECORD,
        "request_id": "r",
    }
    return Answer(**{**known, "status": status, "failure": failure, **others})


# The catalogue


def test_metrics_are_named_as_prometheus_asks() -> None:
    """Base units, counters in `_total`, one prefix, no label that grows with the traffic."""
    for metric in catalogue.METRICS:
        assert metric.name.startswith("lookup_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(set(metric.buckets))
        assert metric.label is None or metric.values
        assert not {"request_id", "key", "query", "document_id"} & set(metric.labels)


def test_label_values_are_those_that_the_code_gives() -> None:
    """Every status, error and drop reason has its series from the start."""
    statuses = {*get_args(ResultStatus), *get_args(LookupStatus)}
    assert {*catalogue.REQUESTS.values} == statuses | {"unreadable"}
    assert {*catalogue.DROPPED.values} == {each.name for each in fields(Ledger)} - {"retrieved", "projected"}
    errors = {*get_args(ErrorCode)}
    assert errors <= {*catalogue.DEAD_LETTERS.values}
    assert errors - {"invalid_request"} <= {*catalogue.SEARCH.values}
    assert {*catalogue.RETRIES.values} == {error.code for error in (SearchUnavailable, SearchTimeout)}


def test_worker_shows_every_metric_of_the_catalogue_from_the_start() -> None:
    """No alert waits for a first event: each known label value has its series, at 0."""
    families = {family.name: family for family in new_metrics().collect()}
    assert [*families] == [metric.name.removesuffix("_total") for metric in catalogue.METRICS]
    for metric in catalogue.METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.meaning)
        if metric.label is not None:
            assert {sample.labels[metric.label] for sample in family.samples} == {*metric.values}
        assert all({*sample.labels} - {"le"} == {*metric.labels} for sample in family.samples)


# Counting


@pytest.mark.parametrize(
    ("counted", "reason"),
    [
        (Failure(stage="decode", retryable=False, error=RecordUndecodable()), "undecodable"),
        (Failure(stage="decode", retryable=False, error=ValueError()), "unreadable"),
        (Failure(stage="validate", retryable=False, error=ValueError()), "invalid_request"),
        (Failure(stage="search", retryable=True, error=SearchTimeout("")), "search_timeout"),
        (Failure(stage="search", retryable=True, error=SearchUnavailable("")), "search_unavailable"),
        (Failure(stage="search", retryable=False, error=SearchRejected("")), "search_rejected"),
        (Failure(stage="search", retryable=False, error=KeyError()), "internal"),
        (Failure(stage="publish", retryable=False, error=ValueError()), "too_large"),
    ],
)
def test_dead_letter_is_counted_by_why_it_is_one(counted: Failure, reason: str) -> None:
    """By where it failed, and in the search by how."""
    metrics = new_metrics()
    metrics.answered(consumed(b""), answer("failed", failure=counted), 0.1)
    assert samples(metrics)["lookup_dead_letters_total", (reason,)] == 1
    assert samples(metrics)["lookup_requests_total", ("failed",)] == 1


def test_dead_letter_that_was_not_written_is_not_counted() -> None:
    """A request that is larger than the dead-letter topic takes is answered all the same."""
    metrics = new_metrics()
    failure = Failure(stage="validate", retryable=False, error=ValueError())
    metrics.answered(consumed(b""), answer("rejected", failure=failure, dead_letter=None), 0.1)
    assert samples(metrics)["lookup_dead_letters_total", ("invalid_request",)] == 0
    assert samples(metrics)["lookup_requests_total", ("rejected",)] == 1


def test_request_that_nobody_can_be_answered_for_is_counted_as_unreadable() -> None:
    """It has no result, and so no status."""
    metrics = new_metrics()
    metrics.answered(consumed(b""), answer(None), 0.1)
    assert samples(metrics)["lookup_requests_total", ("unreadable",)] == 1


def test_ledger_is_counted_entry_by_entry() -> None:
    """What is dropped adds up over requests; the evidence is a distribution."""
    metrics = new_metrics()
    ledger = Ledger(retrieved=20, rejected=1, duplicates=2, over_document_cap=4, over_budget=8, projected=5)
    for _ in range(2):
        metrics.answered(consumed(b""), answer("ok", ledger=ledger), 0.1)
    metrics.answered(consumed(b""), answer("empty", ledger=Ledger()), 0.1)
    seen = samples(metrics)
    assert {name: seen["lookup_dropped_candidates_total", (name,)] for name in catalogue.DROPPED.values} == {
        "rejected": 2,
        "duplicates": 4,
        "over_document_cap": 8,
        "over_return_n": 0,
        "over_budget": 16,
    }
    assert seen["lookup_evidence_blocks_sum", ()] == 10
    assert seen["lookup_evidence_blocks_bucket", ("0.0",)] == 1
    assert seen["lookup_evidence_blocks_count", ()] == 3


def test_state_of_the_worker_is_shown_as_it_was_last_seen() -> None:
    """Gauges are read when Prometheus asks."""
    seen = samples(new_metrics())
    partition = ("7", "lookup.requests")
    assert seen["lookup_in_flight_requests", ()] == 3
    assert seen["lookup_consumer_lag_messages", partition] == 5
    assert seen["lookup_uncommitted_offsets", partition] == 2
    assert seen["lookup_oldest_uncommitted_age_seconds", partition] == 1.5
    assert seen["lookup_circuit_state", ("search",)] == 2
    assert seen["lookup_circuit_state", ("embedder",)] == 1


# The search


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (answering(hit("a", 0)), "ok"),
        (raising(SearchUnavailable("")), "search_unavailable"),
        pytest.param(raising(SearchTimeout("")), "search_timeout", id="the port's own"),
        pytest.param(raising(TimeoutError()), "search_timeout", id="Python's"),
        (raising(SearchRejected("")), "search_rejected"),
        (raising(KeyError()), "internal"),
    ],
)
async def test_search_is_counted_by_its_outcome(reply: SearchReply, outcome: str) -> None:
    """Each try for itself, and nothing is changed by counting it."""
    metrics = new_metrics()
    plain, measured = FakeSearch({"q": reply}), MeasuredSearch(FakeSearch({"q": reply}), metrics)
    results = await asyncio.gather(
        plain.search(QUERY, timeout_s=1), measured.search(QUERY, timeout_s=1), return_exceptions=True
    )
    assert repr(results[0]) == repr(results[1])
    seen = samples(metrics)
    assert {
        each: seen["lookup_search_duration_seconds_count", (each,)] for each in catalogue.SEARCH.values
    } == dict.fromkeys(catalogue.SEARCH.values, 0) | {outcome: 1}
    assert seen["lookup_search_batch_size_sum", ()] == 1


async def test_error_of_a_code_of_its_own_costs_nothing_but_its_name() -> None:
    """A port of other people's may have one; it is raised as it is, and counted as unforeseen."""

    class Odd(SearchUnavailable):
        code = cast("Any", "odd")

    metrics = new_metrics()
    with pytest.raises(Odd):
        await MeasuredSearch(FakeSearch({"q": raising(Odd(""))}), metrics).search(QUERY, timeout_s=1)
    metrics.retried(Odd(""))
    seen = samples(metrics)
    assert seen["lookup_search_duration_seconds_count", ("internal",)] == 1
    assert seen["lookup_retries_total", ("odd",)] == 1


async def test_call_of_many_queries_is_counted_once() -> None:
    """The batch's size is a distribution of its own; a port that takes one at a time is left so."""

    class Both(FakeSearch):
        async def search_many(
            self, queries: Sequence[SearchQuery], *, timeout_s: float
        ) -> Sequence[Sequence[SearchHit]]:
            return [await self.search(query, timeout_s=timeout_s) for query in queries]

    metrics = new_metrics()
    port = measured(Both({"q": answering(hit("a", 0))}), metrics)
    assert isinstance(port, SearchesManyAtOnce)
    assert len(await port.search_many([QUERY] * 3, timeout_s=1)) == 3
    seen = samples(metrics)
    assert seen["lookup_search_duration_seconds_count", ("ok",)] == 1
    assert (seen["lookup_search_batch_size_count", ()], seen["lookup_search_batch_size_sum", ()]) == (1, 3)
    assert not isinstance(measured(FakeSearch({}), metrics), SearchesManyAtOnce)


async def test_search_that_is_called_off_is_counted_so() -> None:
    """Whoever waits for it may stop doing so: for its time is over, or the worker leaves."""
    metrics, hanging = new_metrics(), Hanging()
    asking = asyncio.create_task(
        MeasuredSearch(FakeSearch({"q": hanging}), metrics).search(QUERY, timeout_s=1)
    )
    await hanging.waiting.wait()
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    assert samples(metrics)["lookup_search_duration_seconds_count", ("cancelled",)] == 1


def test_drop_reasons_and_the_ledgers_names_are_the_same_ones() -> None:
    """The ledger has one sum for the two reasons to reject a hit, and the plural of `duplicate`."""
    reasons = {*get_args(DropReason)} - {"empty_content", "invalid_score", "duplicate"}
    assert {*catalogue.DROPPED.values} == reasons | {"rejected", "duplicates"}
