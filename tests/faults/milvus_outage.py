"""Milvus killed and started again under load."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import grpc

from pipeline.adapters.milvus_client import MilvusClient, exceptions
from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.adapters.milvus_errors import quiet_client_logs
from pipeline.model import Vector
from pipeline.testing.in_memory import Row
from pipeline.testing.search_port import DIMENSION
from tests.adapters.milvus import collection_of
from tests.faults.report import Report
from tests.faults.trial import Setup, Trial, trial
from tests.faults.waiting import eventually, until
from tests.support.milvus_server import MilvusServer

Policy: TypeAlias = Literal["answer", "wait"]

ROWS = 400
BEFORE_S, AFTER_S = 2.0, 1.0
RECOVERY_S = 5.0
"""Seconds within which the stage must find evidence again, from when a search of our own does."""
PROBE_TIMEOUT_S, START_DEADLINE_S = 1.0, 120.0
NO_RETRY = {"retry_times": 0, "retry_on_rate_limit": False}
OUTAGE_CODES = {"search_unavailable", "search_timeout"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageLoad:
    """Requests a second, and the seconds between the kill and the start."""

    rate: float
    down_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """An outage of Milvus, by the loop's clock.

    Attributes:
        began: When it was killed.
        start: When it was started again.
        over: When a search of our own, on a connection of its own, was answered.
    """

    began: float
    start: float
    over: float


async def milvus_outage(
    kafka: str, server: MilvusServer, directory: Path, *, policies: Sequence[Policy], load: OutageLoad
) -> Report:
    """Kill Milvus, lets it be down, starts it again, and go on until every stage has recovered.

    Args:
        kafka: Address of the broker.
        server: Is running, and does so afterwards.
        directory: Where the workers' logs go.
        policies: Of the stages that go through the outage, one worker each.
        load: Of each stage.
    """
    report = Report(
        scenario=f"milvus-outage-{'-'.join(policies)}",
        load=f"1 worker, {load.rate:g} requests/s, Milvus killed, and started again after {load.down_s:g} s",
    )
    async with AsyncExitStack() as stack:
        collection = stack.enter_context(collection_of(server.uri, _rows()))
        stages = {
            policy: await stack.enter_async_context(
                trial(kafka, directory / policy, _setup(collection, policy))
            )
            for policy in policies
        }
        sending = [asyncio.create_task(stage.load.send(rate=load.rate)) for stage in stages.values()]
        await _all(stages, lambda stage: stage.results.statuses["ok"] > 0)
        await asyncio.sleep(BEFORE_S)
        outage = await _outage(server, collection, down_s=load.down_s)
        await _all(stages, lambda stage: _recovery_s(stage, outage) < math.inf)
        await asyncio.sleep(AFTER_S)
        for stage in stages.values():
            stage.load.stop()
        await asyncio.gather(*sending)
        for stage in stages.values():
            await stage.results.complete(stage.load.count)
    report.figures["outage_s"] = outage.over - outage.began
    for policy, stage in stages.items():
        _judge(report, stage, outage, policy)
    return report


def _judge(report: Report, stage: Trial, outage: Outage, policy: Policy) -> None:
    stage.count_results(report, prefix=f"{policy}_")
    statuses, codes = stage.results.statuses, stage.results.codes
    recovery_s = _recovery_s(stage, outage)
    report.figures |= {
        f"{policy}_recovery_s": recovery_s,
        f"{policy}_ok": statuses["ok"],
        f"{policy}_failed": statuses["failed"],
    }
    report.require(f"{policy}: evidence within {RECOVERY_S:g} s", holds=recovery_s <= RECOVERY_S)
    report.require(f"{policy}: only ok and failed", holds=set(statuses) <= {"ok", "failed"})
    report.require(f"{policy}: with the codes of an outage", holds=set(codes) <= OUTAGE_CODES)
    if policy == "wait":
        report.require(f"{policy}: none failed", holds=statuses["failed"] == 0)
        return
    report.require(f"{policy}: requests failed", holds=statuses["failed"] > 0)
    report.figures |= {f"{policy}_{code}": count for code, count in sorted(codes.items())}
    report.figures[f"{policy}_last_failed_s"] = stage.results.times("failed")[-1] - outage.over


async def _all(stages: Mapping[Policy, Trial], holds: Callable[[Trial], bool]) -> None:
    for policy, stage in stages.items():
        await until(partial(holds, stage), deadline_s=90, what=f"{policy}: evidence")


async def _outage(server: MilvusServer, collection: MilvusCollection, *, down_s: float) -> Outage:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(down_s)
    start = loop.time()
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    await eventually(lambda: asyncio.to_thread(_answers, collection), True, deadline_s=START_DEADLINE_S)
    over = loop.time()
    await starting
    return Outage(began=began, start=start, over=over)


def _answers(collection: MilvusCollection) -> bool:
    """Whether a search on a new connection is answered."""
    quiet_client_logs()
    try:
        client = MilvusClient(**collection.client_options(timeout_s=PROBE_TIMEOUT_S))
    except exceptions.MilvusException:
        return False
    try:
        client.search(
            collection.collection, data=[[1.0, 0.0, 0.0, 0.0]], limit=1, timeout=PROBE_TIMEOUT_S, **NO_RETRY
        )
    except (exceptions.MilvusException, grpc.RpcError):
        return False
    finally:
        client.close()
    return True


def _recovery_s(stage: Trial, outage: Outage) -> float:
    """Return the seconds from the end of the outage to the first evidence; 0 where that came before."""
    found = (at for at in stage.results.times("ok") if at > outage.start)
    return max(next(found, math.inf) - outage.over, 0.0)


def _rows() -> list[Row]:
    choose = random.Random(3)
    return [
        Row(
            id=str(number),
            content=f"passage {number}",
            metadata={"docId": f"doc{number % 40}", "chunkIndex": number // 40},
            vector=_direction(choose),
        )
        for number in range(ROWS)
    ]


def _fields(number: int) -> dict[str, Any]:
    return {"query": f"question {number}", "vector": list(_direction(random.Random(number)))}


def _direction(choose: random.Random) -> Vector:
    numbers = [choose.gauss(0, 1) for _ in range(DIMENSION)]
    length = math.hypot(*numbers)
    return tuple(number / length for number in numbers)


def _setup(collection: MilvusCollection, policy: Policy) -> Setup:
    settings = {
        "STAGE_WHEN_SEARCH_IS_DOWN": policy,
        "SEARCH_PORT": "milvus-dense",
        "MILVUS_URI": collection.uri,
        "MILVUS_COLLECTION": collection.collection,
        "MILVUS_ID_FIELD": collection.id_field,
        "MILVUS_VECTOR_FIELD": collection.vector_field,
        "MILVUS_CONTENT_FIELD": collection.content_field,
        "MILVUS_METADATA_FIELD": collection.metadata_field,
    }
    return Setup(settings=settings, fields=_fields)
