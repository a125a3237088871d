"""Every metric: name, labels, buckets and meaning. The one list that code, README and alerts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BLOCKS = (0, 1, 2, 3, 5, 10, 20, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: Its full name, in base units.
        kind: Counter, gauge or histogram.
        meaning: What it counts or measures.
        label: The label that has a few known values, if there is one.
        values: Those values; each has a series from the start.
        by_partition: Whether it has the labels `topic` and `partition`.
        buckets: Upper bounds of a histogram's buckets, ascending, without the last, which is infinite.
    """

    name: str
    kind: Kind
    meaning: str
    label: str | None = None
    values: tuple[str, ...] = ()
    by_partition: bool = False
    buckets: tuple[float, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its labels, in the order of its series' label values."""
        if self.by_partition:
            return ("topic", "partition")
        return () if self.label is None else (self.label,)


REQUESTS = Metric(
    name="lookup_requests_total",
    kind="counter",
    meaning="requests through, their answers confirmed",
    label="status",
    values=("ok", "empty", "partial", "failed", "expired", "rejected", "unreadable"),
)
PROCESSING = Metric(
    name="lookup_processing_duration_seconds",
    kind="histogram",
    meaning="from the start of the work on a request until its answer is confirmed",
    buckets=SECONDS,
)
SEARCH = Metric(
    name="lookup_search_duration_seconds",
    kind="histogram",
    meaning="one call of the search engine, each try for itself",
    label="outcome",
    values=("ok", "search_unavailable", "search_timeout", "search_rejected", "internal", "cancelled"),
    buckets=SECONDS,
)
BATCH = Metric(
    name="lookup_search_batch_size",
    kind="histogram",
    meaning="queries in one call of the search engine",
    buckets=QUERIES,
)
IN_FLIGHT = Metric(name="lookup_in_flight_requests", kind="gauge", meaning="requests in work")
RETRIES = Metric(
    name="lookup_retries_total",
    kind="counter",
    meaning="tries after the first, of the search and of the embedder",
    label="reason",
    values=("search_unavailable", "search_timeout"),
)
DEAD_LETTERS = Metric(
    name="lookup_dead_letters_total",
    kind="counter",
    meaning="dead letters written",
    label="reason",
    values=(
        "undecodable",
        "unreadable",
        "invalid_request",
        "search_unavailable",
        "search_timeout",
        "search_rejected",
        "internal",
        "too_large",
    ),
)
DROPPED = Metric(
    name="lookup_dropped_candidates_total",
    kind="counter",
    meaning="hits that are not in the evidence; the reasons are the ledger's",
    label="reason",
    values=("rejected", "duplicates", "over_document_cap", "over_return_n", "over_budget"),
)
EVIDENCE = Metric(
    name="lookup_evidence_blocks",
    kind="histogram",
    meaning="evidence blocks of a result whose search was answered, at least in part",
    buckets=BLOCKS,
)
LAG = Metric(
    name="lookup_consumer_lag_messages",
    kind="gauge",
    meaning="records of an assigned partition that the worker has not read yet",
    by_partition=True,
)
UNCOMMITTED = Metric(
    name="lookup_uncommitted_offsets",
    kind="gauge",
    meaning="records read and not yet committed; with the lag above, the group's lag",
    by_partition=True,
)
UNCOMMITTED_AGE = Metric(
    name="lookup_oldest_uncommitted_age_seconds",
    kind="gauge",
    meaning="how long a partition with requests in work has committed nothing; 0 without such requests",
    by_partition=True,
)
CIRCUIT = Metric(
    name="lookup_circuit_state",
    kind="gauge",
    meaning="0 closed, 1 half open (a probe is out), 2 open",
    label="engine",
    values=("embedder", "search"),
)

METRICS = (
    REQUESTS,
    PROCESSING,
    SEARCH,
    BATCH,
    IN_FLIGHT,
    RETRIES,
    DEAD_LETTERS,
    DROPPED,
    EVIDENCE,
    LAG,
    UNCOMMITTED,
    UNCOMMITTED_AGE,
    CIRCUIT,
)
