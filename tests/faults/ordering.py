"""Results in the order of their requests, and what goes on meanwhile."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from tests.faults.report import Report
from tests.faults.trial import Setup, Trial, trial
from tests.faults.waiting import until

KEYS, PARTITIONS = 16, 4
SLOW_MS = 2_000
SEED = 2


async def ordered_results(
    kafka: str, directory: Path, *, ordering: Literal["key", "partition"], requests: int
) -> Report:
    """Send requests of a few keys, whose searches take unlike times, behind one that is very slow.

    The results topic has as many partitions as the requests topic, and records go by their keys: so the
    results of one key, and of one partition, lie in one partition in the order in which they were published.
    """
    report = Report(
        scenario=f"ordering-{ordering}",
        load=f"1 worker, {requests} requests of {KEYS} keys in {PARTITIONS} partitions,"
        f" searches of 0 to 30 ms, the first of {SLOW_MS} ms",
    )
    setup = Setup(partitions=PARTITIONS, settings={"STAGE_ORDERING": ordering}, fields=_fields, key_of=_key)
    async with trial(kafka, directory, setup) as stage:
        await stage.load.send(requests)
        await until(lambda: _answered_of_others(stage) > 0, deadline_s=30, what="results of other keys")
        await stage.results.complete(stage.load.count)
        stage.count_results(report)
    results = stage.results.by_request
    slow = results["r-0"]
    ahead = {name for name, answered in results.items() if answered.at < slow.at}
    lanes = _lanes(stage, requests, _key if ordering == "key" else _partition(stage))
    out_of_order = sum(
        results[before].place > results[after].place
        for lane in lanes.values()
        for before, after in pairwise(lane)
    )
    own_lane = next(set(lane) for lane in lanes.values() if "r-0" in lane)
    report.figures |= {
        "lanes": len(lanes),
        "out_of_order": out_of_order,
        "answered_while_the_slow_one_ran": len(ahead),
    }
    report.require("in each lane results come in the order of requests", holds=out_of_order == 0)
    report.require("nothing of its lane overtakes the slow one", holds=not ahead & own_lane)
    report.require("other lanes go on", holds=len(ahead) > 0)
    report.require("each is answered ok", holds=not stage.results.codes)
    report.require("each is answered once", holds=stage.results.repeated == 0)
    return report


def _fields(number: int) -> dict[str, Any]:
    delay = SLOW_MS if number == 0 else random.Random(number).randint(0, 30)
    return {"query": f"question {number} after {delay} ms", "retrieve_k": 3}


def _key(number: int) -> str:
    return f"key-{random.Random(SEED + number).randrange(KEYS)}"


def _partition(stage: Trial) -> Callable[[int], str]:
    return lambda number: f"partition-{stage.results.by_request[f'r-{number}'].place[0]}"


def _lanes(stage: Trial, requests: int, lane_of: Callable[[int], str]) -> dict[str, list[str]]:
    """Return the names of the requests that must be answered one after the other, in their order."""
    lanes: defaultdict[str, list[str]] = defaultdict(list)
    for number in range(requests):
        if f"r-{number}" in stage.results.by_request:
            lanes[lane_of(number)].append(f"r-{number}")
    return lanes


def _answered_of_others(stage: Trial) -> int:
    return len(stage.results.by_request.keys() - {"r-0"})
