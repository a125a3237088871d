"""Counting on the path of every request, by one thread: plain numbers, read when Prometheus asks.

The client's own counters take a lock for each step, which costs ten times as much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)

from streams.observability.catalogue import Metric


class Tally:
    """Counts by one label."""

    def __init__(self, metric: Metric) -> None:
        """Starts every known value of the label at 0."""
        self._metric = metric
        self._counts = dict.fromkeys(metric.values, 0)

    def add(self, value: str, count: int = 1) -> None:
        """Adds to the count of one value of the label."""
        self._counts[value] = self._counts.get(value, 0) + count

    def family(self) -> Family:
        """Gives the counts as they are now."""
        family = CounterMetricFamily(
            self._metric.name, self._metric.meaning, labels=list(self._metric.labels)
        )
        for value, count in list(self._counts.items()):
            family.add_metric([value], count)
        return family


class Distribution:
    """Counts of observed values by bucket, with their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """Takes the buckets' upper bounds, ascending."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Counts a value into the first bucket that it is not above."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def sum(self) -> float:
        """Sum of the values."""
        return self._sum

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Gives each upper bound with the number of values not above it."""
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), tuple(self._counts), strict=True):
            total += count
            yield ("+Inf" if bound == float("inf") else str(float(bound))), total


def histogram(metric: Metric, series: Iterable[tuple[tuple[str, ...], Distribution]]) -> Family:
    """Gives distributions, each with its label values, as they are now."""
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=list(metric.labels))
    for labels, distribution in series:
        family.add_metric(list(labels), buckets=list(distribution.buckets()), sum_value=distribution.sum)
    return family


def gauge(metric: Metric, series: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    """Gives values, each with its label values."""
    family = GaugeMetricFamily(metric.name, metric.meaning, labels=list(metric.labels))
    for labels, value in series:
        family.add_metric(list(labels), value)
    return family
