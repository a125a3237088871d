"""One scenario's surroundings: topics, supervised workers, a load and its results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.load import Fields, KeyOf, Load, name_of, paced
from tests.faults.report import Figure, Report
from tests.faults.results import Results, reading
from tests.faults.supervisor import Supervisor
from tests.support.worker import StageTopics

PACED_PORT = {
    "SEARCH_PORT": "tests.faults.search_ports:paced",
    "EMBEDDING_PROVIDER": "none",
}
SESSION_TIMEOUT_S = 6
"""The shortest that brokers allow by default: what a killed worker held stands still for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A stage under test.

    Attributes:
        topics: Its topics.
        workers: Its workers.
        load: Sends its requests.
        results: Reads its results.
    """

    topics: StageTopics
    workers: Supervisor
    load: Load
    results: Results

    def count_results(self, report: Report, *, prefix: str = "") -> None:
        """Put the figures of the results into a report, and require that none is missing or differs.

        Args:
            report: Of the scenario.
            prefix: Of the figures' names, where there are several stages.
        """
        results, count = self.results, self.load.count
        latencies = results.latencies_s(self.load.sent_at) or [0.0]
        figures: dict[str, Figure] = {
            "requests": count,
            "without_result": results.missing(count),
            "repeated": results.repeated,
            "differing": results.differing,
            "median_s": latencies[len(latencies) // 2],
            "slowest_s": latencies[-1],
            "resent": self.load.resent,
            "restarts": self.workers.restarts,
        }
        report.figures |= {f"{prefix}{name}": figure for name, figure in figures.items()}
        report.require("every request has a result", holds=results.missing(count) == 0)
        report.require("repeated results are the same bytes", holds=results.differing == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a scenario's stage is like.

    Attributes:
        workers: How many to start.
        partitions: Of each topic.
        settings: What differs from a stage on the paced port.
        fields: What the request of a number asks.
        key_of: Its key.
        topics: Made here; by default under a name of their own.
    """

    workers: int = 1
    partitions: int = 4
    settings: Mapping[str, str] = field(default_factory=dict)
    fields: Fields = paced
    key_of: KeyOf = name_of
    topics: StageTopics | None = None


@asynccontextmanager
async def trial(kafka: str, directory: Path, setup: Setup) -> AsyncIterator[Trial]:
    """Make topics and start workers on them; when the block begins they are ready.

    Args:
        kafka: Address of the broker.
        directory: Where the workers' logs go.
        setup: What the stage is like.
    """
    topics = setup.topics or StageTopics(bootstrap=kafka)
    await topics.create(partitions=setup.partitions)
    environment = topics.environment | PACED_PORT | {"KAFKA_SESSION_TIMEOUT": str(SESSION_TIMEOUT_S)}
    async with (
        reading(topics, partitions=setup.partitions) as results,
        Supervisor(environment | dict(setup.settings), directory, workers=setup.workers) as supervisor,
    ):
        await supervisor.ready()
        yield Trial(
            topics=topics,
            workers=supervisor,
            load=Load(topics, fields=setup.fields, key_of=setup.key_of),
            results=results,
        )
