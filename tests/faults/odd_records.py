"""Record batches of every kind between good requests: of other clients, by hand, spoiled on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import orjson

from tests.faults.load import name_of
from tests.faults.report import Report
from tests.faults.trial import Setup, Trial, trial
from tests.faults.waiting import POLL_INTERVAL_S
from tests.faults.wire.accounting import UNDECODABLE, Account, DeadLetters, Sent, shown
from tests.faults.wire.fetch_proxy import FetchProxy
from tests.faults.wire.oddities import odd
from tests.faults.wire.senders import senders
from tests.support.kafka_server import KafkaServer
from tests.support.probing import WorkerPort
from tests.support.topics import committed_offsets, end_offsets, read_all
from tests.support.worker import StageTopics, run_command

PARTITIONS = 4
A_ROUND = 250
AFTERWARDS = 64
"""Good requests behind everything else: so every partition ends with one."""

UNDECODABLE_SERIES = 'lookup_dead_letters_total{reason="undecodable"}'

COMMAND_DEADLINE_S = 600.0
PATIENCE_S = 30.0
"""Without a commit for so long, a partition stands still."""


async def odd_records(
    broker: KafkaServer, directory: Path, *, good: int, odd_batches: int, seed: int
) -> Report:
    """Send odd batches between good requests; the worker reads them through a proxy that spoils some.

    In each round all is sent first, then the proxy is told what to spoil, then consumers see it. So batches
    are spoiled from the first fetch on.

    Args:
        broker: A broker with a listener for a proxy.
        directory: Where the logs go.
        good: How many good requests.
        odd_batches: How many odd batches, of one to four records.
        seed: Of everything that is chosen.
    """
    report = Report(
        scenario="odd-records",
        load=f"1 worker, {odd_batches} odd batches (seed {seed}) between {good} good requests",
    )
    port = WorkerPort()
    async with (
        _behind_proxy(broker, directory, port) as (stage, proxy),
        senders(broker.bootstrap, stage.topics.requests, directory) as strangers,
    ):
        began = asyncio.get_running_loop().time()
        sent: list[Sent] = []
        rounds = max(1, odd_batches // A_ROUND)
        for turn in range(1, rounds + 1):
            numbers = range(len(sent), turn * odd_batches // rounds)
            batches = [odd(number, seed=seed, partitions=PARTITIONS) for number in numbers]
            more = turn * good // rounds - stage.load.count
            odd_ones, _ = await asyncio.gather(strangers.send(batches), stage.load.send(more))
            sent += odd_ones
            _spoil(proxy, odd_ones)
            proxy.release(await end_offsets(broker.bootstrap, stage.topics.requests))
        await stage.load.send(AFTERWARDS)
        ends = await end_offsets(broker.bootstrap, stage.topics.requests)
        proxy.release(ends)
        committed = await _settled(stage, ends)
        dead = DeadLetters()
        for record in await read_all(broker.bootstrap, stage.topics.dead_letters, deadline_s=300):
            dead.add(record)
        await _require_counted(report, port, dead)
        await _require_recorded(report, broker, stage, directory / "requests.jsonl")
        codes = list(stage.workers.exit_codes)
        report.figures |= {
            "spoiled_batches": len(proxy.fetches),
            "restarts": stage.workers.restarts,
            "took_s": asyncio.get_running_loop().time() - began,
        }
    report.require(f"no worker ends, not {codes}", holds=not codes)
    _count_good(report, stage)
    _count_odd(report, stage, sent, dead)
    _require_offsets(report, stage, sent, ends, committed)
    return report


@asynccontextmanager
async def _behind_proxy(
    broker: KafkaServer, directory: Path, port: WorkerPort
) -> AsyncIterator[tuple[Trial, FetchProxy]]:
    """Start a stage whose worker reaches the broker through a proxy alone."""
    settings = port.environment | {
        "KAFKA_BOOTSTRAP_SERVERS": broker.proxy_address,
        "STAGE_MAX_DEAD_LETTERS_PER_MINUTE": "1000000",
    }
    topics = StageTopics(bootstrap=broker.bootstrap)
    setup = Setup(partitions=PARTITIONS, settings=settings, topics=topics)
    proxy = FetchProxy(topic=topics.requests)
    async with (
        proxy.serve(broker.proxy_address, broker.proxied_bootstrap),
        trial(broker.bootstrap, directory, setup) as stage,
    ):
        yield stage, proxy


def _spoil(proxy: FetchProxy, sent: Iterable[Sent]) -> None:
    """Tell the proxy which of the stored batches consumers get in another form."""
    for each in sent:
        if each.odd.swap is not None:
            proxy.swaps |= {(each.odd.partition, offset): each.odd.swap for offset in each.offsets}


async def _settled(stage: Trial, ends: Mapping[int, int]) -> dict[int, int]:
    """Wait until everything is committed, or nothing has been for a while, and return what is."""
    topics, loop = stage.topics, asyncio.get_running_loop()
    committed: dict[int, int] = {}
    grown_at = loop.time()
    while committed != ends and loop.time() < grown_at + PATIENCE_S:
        now = await committed_offsets(topics.bootstrap, topics.name, topics.requests)
        if now != committed:
            committed, grown_at = now, loop.time()
        await asyncio.sleep(POLL_INTERVAL_S)
    return committed


async def _require_counted(report: Report, port: WorkerPort, dead: DeadLetters) -> None:
    """Require that the worker's metrics tell of as many undecodable records as there are dead letters."""
    counted = (await asyncio.to_thread(port.metrics)).get(UNDECODABLE_SERIES, 0)
    told = dead.reasons[UNDECODABLE]
    report.require(f"{told} undecodable dead letters are counted, not {counted:g}", holds=counted == told)


async def _require_recorded(report: Report, broker: KafkaServer, stage: Trial, file: Path) -> None:
    """Require that a command that reads through the proxy finds every good request."""
    environment = stage.topics.environment | {"KAFKA_BOOTSTRAP_SERVERS": broker.proxy_address}
    command = partial(run_command, environment=environment, timeout_s=COMMAND_DEADLINE_S)
    output = await asyncio.to_thread(command, "record", "--requests", "-o", str(file))
    report.require(f"record ends with 0: {output.stderr[-500:]}", holds=output.code == 0)
    lines = (await asyncio.to_thread(file.read_bytes)).splitlines() if output.code == 0 else []
    recorded = {orjson.loads(line)["request_id"] for line in lines}
    missing = [name for name in map(name_of, range(stage.load.count)) if name not in recorded]
    report.require(f"record reads every good request: {shown(missing)}", holds=not missing)


def _require_offsets(
    report: Report,
    stage: Trial,
    sent: Sequence[Sent],
    ends: Mapping[int, int],
    committed: Mapping[int, int],
) -> None:
    """Require that nothing else is on the topic, and that everything on it is committed."""
    stored, markers = sum(len(each.offsets) for each in sent), sum(each.has_marker for each in sent)
    report.figures |= {"offsets": sum(ends.values()), "markers": markers}
    report.require(
        "every offset is of a good request, an odd record or a transaction's marker",
        holds=sum(ends.values()) == stage.load.count + stored + markers,
    )
    stuck = {
        partition: committed.get(partition)
        for partition, end in ends.items()
        if committed.get(partition) != end
    }
    report.require(
        f"committed offsets reach the end {ends}, not {stuck} ({_at(stuck, sent)})", holds=not stuck
    )


def _count_good(report: Report, stage: Trial) -> None:
    results = stage.results.by_request
    names = [name_of(number) for number in range(stage.load.count)]
    missing = [name for name in names if name not in results]
    not_ok = [name for name in names if name in results and results[name].status != "ok"]
    report.figures |= {
        "good": len(names),
        "without_result": len(missing),
        "repeated": stage.results.repeated,
        "differing": stage.results.differing,
    }
    report.require(f"every good request has a result: {shown(missing)}", holds=not missing)
    report.require(f"which is ok: {shown(not_ok)}", holds=not not_ok)
    report.require("repeated results are the same bytes", holds=stage.results.differing == 0)


def _count_odd(report: Report, stage: Trial, sent: Sequence[Sent], dead: DeadLetters) -> None:
    account = Account()
    for each in sent:
        account.add(each, stage.results.by_request, dead)
    report.figures |= {
        "odd_batches": len(sent),
        "odd_records": account.fates.total(),
        **{fate.replace(" ", "_"): count for fate, count in sorted(account.fates.items())},
        "unaccounted": len(account.unaccounted),
    }
    report.require(
        f"every odd record is accounted for: {shown(account.unaccounted)}", holds=not account.unaccounted
    )
    report.require(f"each as it should be: {shown(account.mistaken)}", holds=not account.mistaken)


def _at(stuck: Mapping[int, int | None], sent: Sequence[Sent]) -> str:
    """Name the odd batches at which partitions stand still."""
    return shown(
        f"{each.odd.number} {each.odd.kind} at {partition}:{offset}"
        for partition, offset in stuck.items()
        for each in sent
        if each.odd.partition == partition and (offset or 0) in each.offsets
    )
