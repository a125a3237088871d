"""The broker stopped, and killed, and started again under load."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from tests.faults.ending_workers import LEAVE_TIMEOUT_S, terminate
from tests.faults.report import Report
from tests.faults.trial import Setup, Trial, trial
from tests.faults.waiting import until
from tests.support.kafka_server import KafkaServer

End: TypeAlias = Literal["stop", "kill"]

BETWEEN_S = 2.0
OUTLASTS = {"STAGE_PUBLISH_TIMEOUT": "60"}
"""Results wait for as long as the broker is down."""


async def broker_outages(
    broker: KafkaServer, directory: Path, *, rate: float, ends: Sequence[End], down_s: float
) -> Report:
    """Stop the broker in order, or kill it, and start it again, one time after the other."""
    report = Report(
        scenario="broker-outages",
        load=f"2 workers, {rate:g} requests/s, broker ended by {', '.join(ends)}, {down_s:g} s down each",
    )
    recoveries = []
    async with trial(broker.bootstrap, directory, Setup(workers=2)) as stage:
        sending = asyncio.create_task(stage.load.send(rate=rate))
        for end in ends:
            await asyncio.sleep(BETWEEN_S)
            await asyncio.to_thread(broker.stop if end == "stop" else broker.kill)
            await asyncio.sleep(down_s)
            await asyncio.to_thread(broker.start)
            recoveries.append(await _recovery_s(stage))
        await asyncio.sleep(BETWEEN_S)
        stage.load.stop()
        await sending
        await stage.results.complete(stage.load.count)
        stage.count_results(report)
    report.figures |= {"outages": len(recoveries), "longest_recovery_s": max(recoveries)}
    report.require("workers that are running stop with 0", holds=stage.workers.exit_codes[-2:] == [0, 0])
    return report


async def broker_down_for_long(
    broker: KafkaServer, directory: Path, *, rate: float, publish_timeout_s: float
) -> Report:
    """Kill the broker for longer than results may wait: the worker gives up, and is started again in vain.

    A second stage's worker is told to stop while the broker is down.
    """
    report = Report(
        scenario="broker-down-for-long",
        load=f"2 workers of 2 groups, {rate:g} requests/s each, broker killed for longer than"
        f" stage.publish-timeout = {publish_timeout_s:g} s; the second one told to stop meanwhile",
    )
    loop = asyncio.get_running_loop()
    settings = {"STAGE_PUBLISH_TIMEOUT": str(publish_timeout_s), "STAGE_DRAIN_TIMEOUT": "2"}
    async with (
        trial(broker.bootstrap, directory / "first", Setup(settings=settings)) as first,
        trial(broker.bootstrap, directory / "second", Setup(settings=settings | OUTLASTS)) as second,
    ):
        stages = (first, second)
        sending = [asyncio.create_task(stage.load.send(rate=rate)) for stage in stages]
        for stage in stages:
            await _recovery_s(stage)
        await asyncio.to_thread(broker.kill)
        down_at = loop.time()
        stopped_s = await terminate(second.workers.running()[0])
        code_of_stopped = await _first_exit_code(second)
        code_of_failed = await _first_exit_code(first)
        gave_up_s = loop.time() - down_at
        await asyncio.to_thread(broker.start)
        for stage in stages:
            await _recovery_s(stage)
            stage.load.stop()
        await asyncio.wait(sending)
        for stage in stages:
            await stage.results.complete(stage.load.count)
        first.count_results(report)
        lost_by_stopped = second.results.missing(second.load.count)
    report.figures |= {
        "gave_up_after_s": gave_up_s,
        "exit_code_of_failed": code_of_failed,
        "exit_code_of_stopped": code_of_stopped,
        "stopped_in_s": stopped_s,
        "without_result_of_stopped": lost_by_stopped,
    }
    report.require("the worker that cannot publish ends with 1", holds=code_of_failed == 1)
    report.require("it gives up in time", holds=gave_up_s <= publish_timeout_s + LEAVE_TIMEOUT_S + 10)
    report.require(
        "the worker that is told to stop does so in time", holds=stopped_s <= 2 + LEAVE_TIMEOUT_S + 3
    )
    report.require("the one that was told to stop loses nothing", holds=lost_by_stopped == 0)
    return report


async def _first_exit_code(stage: Trial) -> int:
    await until(lambda: bool(stage.workers.exit_codes), deadline_s=120, what="the worker's end")
    return stage.workers.exit_codes[0]


async def _recovery_s(stage: Trial) -> float:
    """Wait until a request that is sent from now on is answered, and return the seconds that took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    next_one = f"r-{stage.load.count}"
    await until(lambda: next_one in stage.results.by_request, deadline_s=90, what=f"the result of {next_one}")
    return loop.time() - began
