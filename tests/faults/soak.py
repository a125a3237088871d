"""The long scenarios: `python -m tests.faults.soak [SCENARIO ...]`.

Starts the servers it needs, prints one line for each scenario, and exits 1 when one does not pass.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import secrets
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import click
import orjson

from tests.faults.broker_outages import broker_down_for_long, broker_outages
from tests.faults.dead_letters import (
    broken_sequence,
    too_large_results,
    too_many_dead_letters,
    unpublishable_results,
)
from tests.faults.ending_workers import (
    joining_and_leaving,
    killed_workers,
    refused_worker,
    terminated_workers,
)
from tests.faults.hanging_search import hanging_search, search_down_for_long
from tests.faults.memory import steady_memory
from tests.faults.milvus_outage import OutageLoad, milvus_outage
from tests.faults.odd_records import odd_records
from tests.faults.ordering import ordered_results
from tests.faults.refusals import SEARCH_PARAMS, RefusalLoad, refused_searches
from tests.faults.report import Report
from tests.support.kafka_server import KafkaServer
from tests.support.milvus_server import MilvusServer
from tests.support.ports import free_port


@dataclass(frozen=True)
class Ground:
    """Where scenarios take place: servers that are started when the first scenario asks for them.

    Attributes:
        directory: Holds the servers' data and the workers' logs.
        servers: Stops the servers.
        seed: Of the scenarios that choose at random anew each time.
    """

    directory: Path
    servers: ExitStack
    seed: int

    @cached_property
    def broker(self) -> KafkaServer:
        """A broker that is running; a scenario that stops it starts it again."""
        return self.servers.enter_context(KafkaServer(self.directory / "kafka"))

    @cached_property
    def proxied_broker(self) -> KafkaServer:
        """A broker with a listener for a proxy."""
        return self.servers.enter_context(
            KafkaServer(self.directory / "proxied-kafka", proxy_port=free_port())
        )

    @cached_property
    def milvus(self) -> MilvusServer:
        """A Milvus that is running; a scenario that kills it starts it again."""
        return self.servers.enter_context(MilvusServer(self.directory / "milvus"))


Scenario: TypeAlias = Callable[[Ground, Path], Awaitable[Report]]

SCENARIOS: Mapping[str, Scenario] = {
    "killed-workers": lambda ground, logs: killed_workers(
        ground.broker.bootstrap, logs, rate=200, length_s=120, kills=20
    ),
    "terminated-workers": lambda ground, logs: terminated_workers(
        ground.broker.bootstrap, logs, rate=200, terminations=20
    ),
    "joining-and-leaving": lambda ground, logs: joining_and_leaving(
        ground.broker.bootstrap, logs, rate=200, length_s=60
    ),
    "refused-worker": lambda ground, logs: refused_worker(ground.broker.bootstrap, logs),
    "broker-outages": lambda ground, logs: broker_outages(
        ground.broker, logs, rate=200, ends=["stop", "kill"] * 3, down_s=5
    ),
    "broker-down-for-long": lambda ground, logs: broker_down_for_long(
        ground.broker, logs, rate=100, publish_timeout_s=10
    ),
    "milvus-outage-answer": lambda ground, logs: milvus_outage(
        ground.broker.bootstrap,
        ground.milvus,
        logs,
        policies=("answer",),
        load=OutageLoad(rate=200, down_s=30),
    ),
    "milvus-outage-wait": lambda ground, logs: milvus_outage(
        ground.broker.bootstrap,
        ground.milvus,
        logs,
        policies=("wait",),
        load=OutageLoad(rate=200, down_s=30),
    ),
    "refused-searches": lambda ground, logs: refused_searches(
        ground.broker.bootstrap,
        {"standalone": ground.milvus.uri, "lite": str(ground.directory / "refused.db")},
        logs,
        load=RefusalLoad(
            searches=2_000, rate=60, seed=random.SystemRandom().randrange(10**6), params=SEARCH_PARAMS
        ),
    ),
    "hanging-search": lambda ground, logs: hanging_search(
        ground.broker.bootstrap, logs, others=64, afterwards=2_000
    ),
    # Longer than the 1,000 s for which Faust lets a consumer fetch nothing, and more than fills its buffer.
    "search-down-for-long": lambda ground, logs: search_down_for_long(
        ground.broker.bootstrap, logs, down_s=1_100, requests=20_000
    ),
    "ordering-key": lambda ground, logs: ordered_results(
        ground.broker.bootstrap, logs, ordering="key", requests=5_000
    ),
    "ordering-partition": lambda ground, logs: ordered_results(
        ground.broker.bootstrap, logs, ordering="partition", requests=5_000
    ),
    "too-many-dead-letters": lambda ground, logs: too_many_dead_letters(
        ground.broker.bootstrap, logs, limit=50, requests=2_000
    ),
    "unpublishable-deleted": lambda ground, logs: unpublishable_results(
        ground.broker.bootstrap, logs, how="deleted", requests=1_000
    ),
    "unpublishable-tiny": lambda ground, logs: unpublishable_results(
        ground.broker.bootstrap, logs, how="tiny", requests=1_000
    ),
    "broken-sequence": lambda ground, logs: broken_sequence(
        ground.broker.bootstrap, logs, rate=200, requests=3_000
    ),
    "too-large-results": lambda ground, logs: too_large_results(
        ground.broker.bootstrap, logs, requests=2_000
    ),
    "odd-records": lambda ground, logs: odd_records(
        ground.proxied_broker, logs, good=10_000, odd_batches=10_000, seed=ground.seed
    ),
    "steady-memory": lambda ground, logs: steady_memory(
        ground.broker.bootstrap, logs, requests=500_000, warm_up=50_000, most_growth=0.05
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run scenarios and return the exit code: 0 where all passed, 1 where one did not."""
    chosen = _parse(arguments)
    # What clients say of brokers that are down on purpose is of no interest.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    with ExitStack() as servers:
        ground = Ground(directory, servers, chosen.seed)
        passed = [_run(name, ground, as_json=chosen.json) for name in chosen.scenarios or SCENARIOS]
    if all(passed):
        shutil.rmtree(directory, ignore_errors=True)
        return 0
    click.echo(f"soak: the logs are in {directory}", err=True)
    return 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help=f"all, or some of: {', '.join(SCENARIOS)}"
    )
    parser.add_argument("--json", action="store_true", help="print each scenario as a JSON object")
    parser.add_argument(
        "--seed",
        type=int,
        default=secrets.randbelow(10**6),
        help="of odd-records, which prints it; by default another one each time",
    )
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.scenarios if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    return chosen


def _run(name: str, ground: Ground, *, as_json: bool) -> bool:
    click.echo(f"soak: {name} …", err=True)
    logs = ground.directory / name
    try:
        report = asyncio.run(_awaited(SCENARIOS[name], ground, logs))
    except Exception as error:  # noqa: BLE001 - the other scenarios are run all the same
        report = Report(scenario=name, load="-", broken=[f"{type(error).__name__}: {error}"])
    click.echo(orjson.dumps(report.document) if as_json else report.line)
    return report.passed


async def _awaited(scenario: Scenario, ground: Ground, logs: Path) -> Report:
    return await scenario(ground, logs)


if __name__ == "__main__":
    sys.exit(main())
