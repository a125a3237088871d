"""A worker's metrics: counted as it works, gathered when Prometheus asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from pipeline.circuit import CircuitState
from pipeline.errors import SearchError
from pipeline.model import Ledger
from streams.kafka.records import ConsumedRecord
from streams.observability import catalogue
from streams.observability.state import WorkerState
from streams.observability.tallies import Distribution, Tally, gauge, histogram
from streams.stage.answering import Answer

UNREADABLE = "unreadable"
CIRCUIT_VALUES: dict[CircuitState, int] = {"closed": 0, "half_open": 1, "open": 2}


class WorkerMetrics(Collector):
    """Counts for one worker; the thread of the event loop counts, any thread may gather."""

    def __init__(self, state: Callable[[], WorkerState]) -> None:
        """Takes what gives the worker's latest known state."""
        self._state = state
        self._requests = Tally(catalogue.REQUESTS)
        self._retries = Tally(catalogue.RETRIES)
        self._dead_letters = Tally(catalogue.DEAD_LETTERS)
        self._dropped = Tally(catalogue.DROPPED)
        self._processing = Distribution(catalogue.PROCESSING.buckets)
        self._evidence = Distribution(catalogue.EVIDENCE.buckets)
        self._batches = Distribution(catalogue.BATCH.buckets)
        self._searches = {
            outcome: Distribution(catalogue.SEARCH.buckets) for outcome in catalogue.SEARCH.values
        }
        self._other_searches = self._searches["internal"]

    def answered(self, _record: ConsumedRecord, answer: Answer, seconds: float) -> None:
        """Counts a request whose answer is confirmed, and the seconds of the work on it."""
        self._requests.add(answer.status or UNREADABLE)
        self._processing.observe(seconds)
        if answer.dead_letter is not None and answer.failure is not None:
            self._dead_letters.add(answer.failure.reason)
        if answer.ledger is not None:
            self._evidence.observe(answer.ledger.projected)
            self._count_dropped(answer.ledger)

    def retried(self, error: SearchError) -> None:
        """Counts a try after one that failed."""
        self._retries.add(error.code)

    def searched(self, outcome: str, seconds: float, *, queries: int) -> None:
        """Counts one call of the search engine.

        Args:
            outcome: `ok`, the code of its error, or `cancelled`; another counts as `internal`.
            seconds: How long it took.
            queries: How many queries it asked.
        """
        self._searches.get(outcome, self._other_searches).observe(seconds)
        self._batches.observe(queries)

    def collect(self) -> Iterator[Family]:
        """Gives every metric of the catalogue as it is now."""
        state = self._state()
        yield self._requests.family()
        yield histogram(catalogue.PROCESSING, [((), self._processing)])
        yield histogram(catalogue.SEARCH, [((outcome,), seen) for outcome, seen in self._searches.items()])
        yield histogram(catalogue.BATCH, [((), self._batches)])
        yield gauge(catalogue.IN_FLIGHT, [((), state.in_flight)])
        yield self._retries.family()
        yield self._dead_letters.family()
        yield self._dropped.family()
        yield histogram(catalogue.EVIDENCE, [((), self._evidence)])
        partitions = [((each.topic, str(each.partition)), each) for each in state.partitions]
        yield gauge(catalogue.LAG, [(labels, each.lag) for labels, each in partitions])
        yield gauge(catalogue.UNCOMMITTED, [(labels, each.uncommitted) for labels, each in partitions])
        yield gauge(
            catalogue.UNCOMMITTED_AGE, [(labels, each.uncommitted_age_s) for labels, each in partitions]
        )
        yield gauge(
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


def registry_of(metrics: WorkerMetrics) -> CollectorRegistry:
    """Makes the registry of one worker: its metrics, and those of its process."""
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    return registry
