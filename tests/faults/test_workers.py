"""Workers that end, join and leave under load, in a few seconds each; the soak does it for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.ending_workers import (
    joining_and_leaving,
    killed_workers,
    refused_worker,
    terminated_workers,
)

pytestmark = pytest.mark.kafka


async def test_killed_workers_leave_no_request_without_a_result(kafka: str, tmp_path: Path) -> None:
    """Workers ended by SIGKILL lose nothing; what is answered twice is answered with the same bytes."""
    report = await killed_workers(kafka, tmp_path, rate=100, length_s=4, kills=2)
    assert report.passed, report.line


async def test_terminated_workers_exit_with_0_and_repeat_nothing(kafka: str, tmp_path: Path) -> None:
    """A worker that is told to stop finishes, commits and exits with 0 in time: no result comes twice."""
    report = await terminated_workers(kafka, tmp_path, rate=100, terminations=2)
    assert report.passed, report.line


async def test_joining_and_leaving_workers_leave_no_request_without_a_result(
    kafka: str, tmp_path: Path
) -> None:
    """Rebalances lose nothing, and what is finished is not done again."""
    report = await joining_and_leaving(kafka, tmp_path, rate=100, length_s=6)
    assert report.passed, report.line


async def test_worker_that_the_group_refuses_ends_with_one_line(kafka: str, tmp_path: Path) -> None:
    """A worker that cannot be a member of its group does not wait for ever."""
    report = await refused_worker(kafka, tmp_path)
    assert report.passed, report.line
