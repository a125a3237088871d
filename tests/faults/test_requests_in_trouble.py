"""Searches that hang, results in order, and what cannot be published; the soak takes more requests."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.faults.dead_letters import (
    broken_sequence,
    too_large_results,
    too_many_dead_letters,
    unpublishable_results,
)
from tests.faults.hanging_search import hanging_search, search_down_for_long
from tests.faults.ordering import ordered_results

pytestmark = pytest.mark.kafka


async def test_hanging_search_holds_up_nobody_and_is_not_passed(kafka: str, tmp_path: Path) -> None:
    """One search never returns, 64 go on; its offset is not committed until it is answered, in time."""
    report = await hanging_search(kafka, tmp_path, others=64, afterwards=100)
    assert report.passed, report.line


async def test_search_down_for_long_is_waited_for(kafka: str, tmp_path: Path) -> None:
    """Requests pile up while the search is down, and are answered when it is back; the soak waits longer."""
    report = await search_down_for_long(kafka, tmp_path, down_s=2, requests=500)
    assert report.passed, report.line


@pytest.mark.parametrize("ordering", ["key", "partition"])
async def test_ordering_keeps_the_order_of_requests(
    kafka: str, tmp_path: Path, ordering: Literal["key", "partition"]
) -> None:
    """One key's results, or one partition's, come in the order of requests, while others go on."""
    report = await ordered_results(kafka, tmp_path, ordering=ordering, requests=200)
    assert report.passed, report.line


async def test_dead_letters_over_the_limit_stop_the_worker_and_lose_nothing(
    kafka: str, tmp_path: Path
) -> None:
    """Too many in a minute end it with one line; with a higher limit everything is answered."""
    report = await too_many_dead_letters(kafka, tmp_path, limit=5, requests=200)
    assert report.passed, report.line


@pytest.mark.parametrize("how", ["deleted", "tiny"])
async def test_results_that_cannot_be_published_stop_the_worker_and_lose_nothing(
    kafka: str, tmp_path: Path, how: Literal["deleted", "tiny"]
) -> None:
    """Where results cannot be published it ends with one line; with the topic mended all are answered."""
    report = await unpublishable_results(kafka, tmp_path, how=how, requests=50)
    assert report.passed, report.line


async def test_broken_sequence_of_the_producer_ends_the_worker_and_loses_nothing(
    kafka: str, tmp_path: Path
) -> None:
    """A producer that the broker refuses for good ends its worker with 1; the next one goes on."""
    report = await broken_sequence(kafka, tmp_path, rate=50, requests=100)
    assert report.passed, report.line


async def test_too_large_results_are_failed_and_cost_no_other(kafka: str, tmp_path: Path) -> None:
    """A result that the topic does not take is answered `failed` with the code `internal`."""
    report = await too_large_results(kafka, tmp_path, requests=300)
    assert report.passed, report.line
