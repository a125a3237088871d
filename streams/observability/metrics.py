"""A worker's metrics: counted as it works, gathered when Prometheus asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from pipeline.circuit import CircuitState
from pipeline.errors import SearchError
from pipeline.model import Ledger
from streams.kafka.records import ConsumedRecord
from streams.observability import catalogue
from streams.observability.catalogue import Metric
from streams.observability.state import WorkerState
from streams.stage.answering import Answer

UNREADABLE = "unreadable"
CIRCUIT_VALUES: dict[CircuitState, int] = {"closed": 0, "half_open": 1, "open": 2}


class WorkerMetrics(Collector):
    """Counts for one worker. The event loop's thread counts; any thread may gather."""

    def __init__(self, state: Callable[[], WorkerState]) -> None:
        """Start every series at 0.

        Args:
            state: Returns the worker's latest known state.
        """
        self._state = state
        self._requests = _LabelledCounter(catalogue.REQUESTS)
        self._retries = _LabelledCounter(catalogue.RETRIES)
        self._dead_letters = _LabelledCounter(catalogue.DEAD_LETTERS)
        self._dropped = _LabelledCounter(catalogue.DROPPED)
        self._processing = _histogram(catalogue.PROCESSING)
        self._evidence = _histogram(catalogue.EVIDENCE)
        self._batches = _histogram(catalogue.BATCH)
        self._search = _histogram(catalogue.SEARCH)
        self._searches = {outcome: self._search.labels(outcome) for outcome in catalogue.SEARCH.values}
        self._other_searches = self._searches["internal"]

    def answered(self, _record: ConsumedRecord, answer: Answer, seconds: float) -> None:
        """Count a request whose answer is confirmed, and the seconds of the work on it."""
        self._requests.add(answer.status or UNREADABLE)
        self._processing.observe(seconds)
        if answer.dead_letter is not None and answer.failure is not None:
            self._dead_letters.add(answer.failure.reason)
        if answer.ledger is not None:
            self._evidence.observe(answer.ledger.projected)
            self._count_dropped(answer.ledger)

    def retried(self, error: SearchError) -> None:
        """Count a try after one that failed."""
        self._retries.add(error.code)

    def searched(self, outcome: str, seconds: float, *, queries: int) -> None:
        """Count one call of the search engine.

        Args:
            outcome: `ok`, the code of its error, or `cancelled`; another counts as `internal`.
            seconds: How long it took.
            queries: How many queries it asked.
        """
        self._searches.get(outcome, self._other_searches).observe(seconds)
        self._batches.observe(queries)

    def collect(self) -> Iterator[Family]:
        """Yield every metric of the catalogue as it is now, in the catalogue's order."""
        state = self._state()
        yield from self._requests.collect()
        yield from self._processing.collect()
        yield from self._search.collect()
        yield from self._batches.collect()
        yield _gauge(catalogue.IN_FLIGHT, [((), state.in_flight)])
        yield from self._retries.collect()
        yield from self._dead_letters.collect()
        yield from self._dropped.collect()
        yield from self._evidence.collect()
        partitions = [((each.topic, str(each.partition)), each) for each in state.partitions]
        yield _gauge(catalogue.LAG, [(labels, each.lag) for labels, each in partitions])
        yield _gauge(catalogue.UNCOMMITTED, [(labels, each.uncommitted) for labels, each in partitions])
        yield _gauge(
            catalogue.UNCOMMITTED_AGE, [(labels, each.uncommitted_age_s) for labels, each in partitions]
        )
        yield _gauge(
            catalogue.CIRCUIT,
            [((engine,), CIRCUIT_VALUES[circuit]) for engine, circuit in sorted(state.circuits.items())],
        )

    def _count_dropped(self, ledger: Ledger) -> None:
        # Reason by reason: going through their names costs three times as much.
        add = self._dropped.add
        if ledger.rejected:
            add("rejected", ledger.rejected)
        if ledger.duplicates:
            add("duplicates", ledger.duplicates)
        if ledger.over_document_cap:
            add("over_document_cap", ledger.over_document_cap)
        if ledger.over_return_n:
            add("over_return_n", ledger.over_return_n)
        if ledger.over_budget:
            add("over_budget", ledger.over_budget)


class _LabelledCounter:
    """A counter with one label, whose known values are looked up once: that costs more than counting."""

    def __init__(self, metric: Metric) -> None:
        self._counter = Counter(metric.name, metric.meaning, metric.labels, registry=None)
        self._known = {value: self._counter.labels(value) for value in metric.values}

    def add(self, value: str, count: int = 1) -> None:
        (self._known.get(value) or self._counter.labels(value)).inc(count)

    def collect(self) -> Iterable[Family]:
        return self._counter.collect()


def _histogram(metric: Metric) -> Histogram:
    return Histogram(metric.name, metric.meaning, metric.labels, buckets=metric.buckets, registry=None)


def _gauge(metric: Metric, series: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.meaning, labels=list(metric.labels))
    for labels, value in series:
        family.add_metric(list(labels), value)
    return family


def registry_of(metrics: WorkerMetrics) -> CollectorRegistry:
    """Return a registry of one worker's metrics and those of its process."""
    # When a series began says only when the worker started.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    return registry
