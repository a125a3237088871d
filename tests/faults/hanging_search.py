"""A search that never returns, among others, and one that is down for long."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

from tests.faults.report import Report
from tests.faults.search_ports import SWITCH
from tests.faults.trial import Setup, Trial, trial
from tests.faults.waiting import eventually, sleep_until, until
from tests.support.topics import committed_offsets, end_offsets, read_all

SEARCH_TIMEOUT_S = 8.0
RECOVERY_S = 5.0
LATE_BY_S = 3.0
"""How much later than the time-out the answer may be read: three tries, publishing, a busy machine."""


async def hanging_search(kafka: str, directory: Path, *, others: int, afterwards: int) -> Report:
    """Let one search hang while others are in work and more come in, all in the same partition.

    Args:
        kafka: Address of the broker.
        directory: Where the workers' logs go.
        others: Requests in work at the same time.
        afterwards: Requests that come once those are answered.
    """
    report = Report(
        scenario="hanging-search",
        load=f"1 worker, 1 partition; one search hangs, {others} others are in work, {afterwards} follow",
    )
    settings = {
        "SEARCH_TIMEOUT": str(SEARCH_TIMEOUT_S),
        "SEARCH_ATTEMPT_TIMEOUT": str(SEARCH_TIMEOUT_S / 3),
    }
    setup = Setup(partitions=1, settings=settings, fields=_hanging_then(others))
    async with trial(kafka, directory, setup) as stage:
        await stage.load.send(1 + others)
        await stage.load.send(afterwards)
        await until(
            lambda: len(stage.results.by_request) >= others + afterwards,
            deadline_s=60,
            what="the others' results",
        )
        report.require("the others go on while it hangs", holds="r-0" not in stage.results.by_request)
        committed = (await _committed(stage)).get(0, 0)
        report.require("the committed offset does not pass it", holds=committed == 0)
        report.require(
            "it still hangs when the offset is looked at", holds="r-0" not in stage.results.by_request
        )
        await stage.results.complete(stage.load.count)
        stage.count_results(report)
        took_s = stage.results.by_request["r-0"].at - stage.load.sent_at["r-0"]
        ends = await end_offsets(kafka, stage.topics.requests)
        await eventually(lambda: _committed(stage), ends, deadline_s=30)
        dead = await read_all(kafka, stage.topics.dead_letters)
    report.figures |= {
        "committed_while_it_hung": committed,
        "answered_after_s": took_s,
        "code": " ".join(stage.results.codes),
        "dead_letters": len(dead),
    }
    report.require("it is answered search_timeout", holds=dict(stage.results.codes) == {"search_timeout": 1})
    report.require("it is answered in time", holds=took_s <= SEARCH_TIMEOUT_S + LATE_BY_S)
    report.require("it is dead-lettered", holds=[record.key for record in dead] == [b"r-0"])
    return report


async def search_down_for_long(kafka: str, directory: Path, *, down_s: float, requests: int) -> Report:
    """Let requests pile up, by policy, behind a search that is down; then it comes back."""
    report = Report(
        scenario="search-down-for-long",
        load=f"1 worker that waits for its search, {requests} requests while it is down for {down_s:g} s",
    )
    switch = directory / "search-is-down"
    settings = {
        "SEARCH_PORT": "tests.faults.search_ports:switched",
        "STAGE_WHEN_SEARCH_IS_DOWN": "wait",
        SWITCH: str(switch),
    }
    loop = asyncio.get_running_loop()
    async with trial(kafka, directory, Setup(settings=settings)) as stage:
        await stage.load.send(100)
        await stage.results.complete(100)
        await asyncio.to_thread(switch.touch)
        down_at = loop.time()
        await stage.load.send(requests)
        await sleep_until(down_at + down_s)
        report.require("nothing is answered while it is down", holds=len(stage.results.by_request) == 100)
        await asyncio.to_thread(switch.unlink)
        up_at = loop.time()
        await stage.results.complete(stage.load.count)
        stage.count_results(report)
    recovered_at = next((at for at in stage.results.times("ok") if at > up_at), math.inf)
    report.figures |= {"down_s": up_at - down_at, "recovery_s": recovered_at - up_at}
    report.require("it goes on soon", holds=recovered_at - up_at <= RECOVERY_S)
    report.require("all are ok", holds=stage.results.statuses["ok"] == stage.load.count)
    report.require("the worker was not started again", holds=stage.workers.restarts == 0)
    return report


def _hanging_then(others: int) -> Any:
    def fields(number: int) -> dict[str, Any]:
        if number == 0:
            return {"query": "hang"}
        return {"query": f"question {number} after {1_000 if number <= others else 5} ms", "retrieve_k": 5}

    return fields


async def _committed(stage: Trial) -> dict[int, int]:
    topics = stage.topics
    return await committed_offsets(topics.bootstrap, topics.name, topics.requests)
