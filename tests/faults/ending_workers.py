"""Workers that are killed, told to stop, and that join and leave, under load."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

from tests.faults.report import Report
from tests.faults.supervisor import STOP_DEADLINE_S, Supervisor, ended, is_ready
from tests.faults.trial import PACED_PORT, Setup, Trial, trial
from tests.faults.waiting import sleep_until, until
from tests.support.worker import StageTopics, WorkerProcess

SEED = 1
DRAIN_TIMEOUT_S, LEAVE_TIMEOUT_S = 15.0, 10.0
"""The product's defaults: what a worker may take to stop."""


async def killed_workers(kafka: str, directory: Path, *, rate: float, length_s: float, kills: int) -> Report:
    """Kill workers with SIGKILL at random moments while requests come in; two are kept running."""
    report = Report(
        scenario="killed-workers",
        load=f"2 workers, {rate:g} requests/s for {length_s:g} s, SIGKILL {kills} times (seed {SEED})",
    )
    async with trial(kafka, directory, Setup(workers=2)) as stage:
        sending = asyncio.create_task(stage.load.send(round(rate * length_s), rate=rate))
        await _kill_at_random(stage.workers, kills=kills, length_s=length_s, choose=random.Random(SEED))
        await sending
        await stage.results.complete(stage.load.count)
        killed = stage.workers.exit_codes.count(-signal.SIGKILL)
        stage.count_results(report)
    report.figures["kills"] = killed
    report.require("as many kills as asked for", holds=killed == kills)
    report.require("no worker ended by itself", holds=set(stage.workers.exit_codes) <= {0, -signal.SIGKILL})
    return report


async def terminated_workers(kafka: str, directory: Path, *, rate: float, terminations: int) -> Report:
    """Return the only worker to stop again and again while requests come in."""
    report = Report(
        scenario="terminated-workers",
        load=f"1 worker, {rate:g} requests/s until SIGTERM {terminations} times (seed {SEED})",
    )
    choose = random.Random(SEED)
    async with trial(kafka, directory, Setup()) as stage:
        sending = asyncio.create_task(stage.load.send(rate=rate))
        seconds = []
        for _ in range(terminations):
            await stage.workers.ready()
            (worker,) = stage.workers.running()
            await _busy(stage)
            await asyncio.sleep(choose.uniform(0.0, 1.0))
            seconds.append(await terminate(worker))
        await stage.workers.ready()
        codes = list(stage.workers.exit_codes)
        stage.load.stop()
        await sending
        await stage.results.complete(stage.load.count)
        stage.count_results(report)
    report.figures |= {"terminations": len(seconds), "longest_stop_s": max(seconds)}
    kept = await asyncio.to_thread(Path(f"{stage.topics.name}-data").exists)
    report.require("workers keep nothing on disk", holds=not kept)
    report.require("every stop ends with 0", holds=codes == [0] * terminations)
    report.require("every stop in time", holds=max(seconds) <= DRAIN_TIMEOUT_S + LEAVE_TIMEOUT_S)
    report.require("no finished request is processed again", holds=stage.results.repeated == 0)
    return report


async def joining_and_leaving(
    kafka: str, directory: Path, *, rate: float, length_s: float, every_s: float = 3.0
) -> Report:
    """Add a worker and take one away by turns; there are one to three."""
    report = Report(
        scenario="joining-and-leaving",
        load=f"{rate:g} requests/s for {length_s:g} s, a worker joins or leaves every {every_s:g} s",
    )
    loop = asyncio.get_running_loop()
    async with trial(kafka, directory, Setup(workers=2)) as stage:
        sending = asyncio.create_task(stage.load.send(round(rate * length_s), rate=rate))
        members, codes, joined, started = [0, 1], list[int](), 0, loop.time()
        for turn in range(1, int(length_s // every_s) + 1):
            await sleep_until(started + turn * every_s)
            if len(members) < 3:
                members.append(stage.workers.add())
                joined += 1
            else:
                await stage.workers.ready()
                codes.append(await stage.workers.retire(members.pop(0)))
        await sending
        await stage.results.complete(stage.load.count)
        stage.count_results(report)
    report.figures |= {"joined": joined, "left": len(codes)}
    report.require("no finished request is processed again", holds=stage.results.repeated == 0)
    report.require("workers joined and left", holds=joined > 0 and len(codes) > 0)
    report.require("every worker leaves with 0", holds=set(stage.workers.exit_codes) == {0})
    return report


async def refused_worker(kafka: str, directory: Path) -> Report:
    """Start a worker that the group does not take: its session time-out is shorter than brokers allow."""
    report = Report(scenario="refused-worker", load="1 worker with kafka.session-timeout = 1 s")
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    settings = topics.environment | PACED_PORT | {"KAFKA_SESSION_TIMEOUT": "1"}
    worker = WorkerProcess(settings, directory / "worker.log")
    loop = asyncio.get_running_loop()
    started = loop.time()
    worker.launch()
    try:
        code = await ended(worker, deadline_s=60)
    finally:
        worker.kill()
    report.figures |= {"exit_code": code, "ended_after_s": loop.time() - started}
    report.require("the worker ends with 1", holds=code == 1)
    report.require_one_line(worker.log, "InvalidSessionTimeoutError")
    return report


async def _kill_at_random(workers: Supervisor, *, kills: int, length_s: float, choose: random.Random) -> None:
    started = asyncio.get_running_loop().time()
    for moment in sorted(choose.uniform(0.0, length_s) for _ in range(kills)):
        await sleep_until(started + moment)
        await until(lambda: bool(workers.running()), deadline_s=10, what="a worker to kill")
        choose.choice(workers.running()).send(signal.SIGKILL)


async def _busy(stage: Trial) -> None:
    """Wait until a worker that was just started publishes results."""
    seen = len(stage.results.by_request)
    await until(lambda: len(stage.results.by_request) > seen, deadline_s=STOP_DEADLINE_S, what="results")


async def terminate(worker: WorkerProcess) -> float:
    """Return the seconds that the worker took to stop."""
    loop = asyncio.get_running_loop()
    told_at = loop.time()
    assert is_ready(worker)
    worker.send(signal.SIGTERM)
    await ended(worker, deadline_s=DRAIN_TIMEOUT_S + LEAVE_TIMEOUT_S + STOP_DEADLINE_S)
    return loop.time() - told_at
