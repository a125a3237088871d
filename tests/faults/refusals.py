"""Searches that an engine refuses, in great variety, between good ones that must not suffer for them."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.adapters.milvus import unique_name
from tests.faults.load import name_of
from tests.faults.refused_collection import DIMENSION, ROWS, drop
from tests.faults.report import Report
from tests.faults.trial import Setup, Trial, trial
from tests.support.topics import read_all

ROOT = Path(__file__).parents[2]

GOOD = {"ok", "empty"}
REFUSED = {"ok", "empty", "partial", "failed", "rejected"}
REFUSED_CODES = {"search_rejected", "invalid_request"}
"""The only errors that a bad search may be told of: none that speaks of an outage."""

WIDEST = 20_000
"""More than the 16,384 that Milvus ever returns."""

SEARCH_PARAMS: Sequence[Mapping[str, object]] = ({"ef": 16}, {"ef": "64", "radius": -1.0}, {})
"""The engine takes each at the start; widths above them are legal."""

FIELDS = (
    *("id", "vector", "content", "docId", "chunkIndex", "small", "weight", "exact", "draft", "extra", "tags"),
    *(
        "names",
        "free",
        "nowhere",
        "extra.level",
        "extra.level.deeper",
        "in",
        "like",
        "and",
        "$meta",
        "1st",
        "a b",
    ),
)
SCALARS = (
    *(0, 1, -1, 3, 127, 128, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63),
    *(0.0, -0.0, 0.5, 1.5, 1e-300, 1e300, 3.4e39, 1 / 3, True, False),
    *("", "x", "doc-1", "n1", '"', "'", "\\", "\\x", "a\0b", "\u2028", "é日😀", "%", "x" * 70_000),
)
TEXTS = (" ", "\0", "x" * 8_192, "é日😀\u202e", "DROP TABLE", "\ufeff\ufffe", '"\\' * 100)
WIDTHS = (1, 2, 15, 16, 17, 63, 64, 65, 128, 150, 200, 201, 500, 1_000, 16_384, 16_385, WIDEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalLoad:
    """What is sent to each engine.

    Attributes:
        searches: How many random ones, and how many good ones.
        rate: How many of both a second.
        seed: What the random ones are drawn from.
        params: The search parameters of its workers, each of which gets its share.
    """

    searches: int
    rate: float
    seed: int
    params: Sequence[Mapping[str, object]]


def search_of(seed: str, number: int) -> dict[str, Any]:
    """Return the fields of a request: a good search if its number is even, else one that may be refused."""
    chance = random.Random(f"{seed}-{number}")
    if number % 2 == 0:
        return _good(chance)
    return _bad(chance)


async def refused_searches(
    kafka: str, engines: Mapping[str, str], directory: Path, *, load: RefusalLoad
) -> Report:
    """Send random searches between good ones, to a worker for each engine and each kind of search parameters.

    Args:
        kafka: Address of the broker.
        engines: The addresses of the engines, by name.
        directory: Where the workers' logs go.
        load: Of each engine; it is shared out among the workers.
    """
    report = Report(
        scenario="refused-searches",
        load=f"seed {load.seed}, {load.searches} random searches beside {load.searches} good ones"
        f" on each of {', '.join(engines)}",
    )
    for engine, uri in engines.items():
        async with _collection(uri) as collection:
            for turn, params in enumerate(load.params):
                settings = _settings(uri, collection, params, waits=turn % 2 == 0)
                await _run(report, kafka, directory / f"{engine}-{turn}", settings, load)
    return report


async def _run(
    report: Report, kafka: str, directory: Path, settings: Mapping[str, str], load: RefusalLoad
) -> None:
    count = 2 * -(-load.searches // len(load.params))
    seed = f"{load.seed}-{directory.name}"
    setup = Setup(settings=settings, fields=lambda number: search_of(seed, number))
    async with trial(kafka, directory, setup) as stage:
        await stage.load.send(count, rate=load.rate)
        await stage.results.complete(count)
    await _judge(report, stage, directory)


async def _judge(report: Report, stage: Trial, directory: Path) -> None:
    engine, _, _ = directory.name.partition("-")
    statuses: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for number in range(stage.load.count):
        answered = stage.results.by_request.get(name_of(number))
        statuses[number % 2 == 0][answered.status if answered is not None else "missing"] += 1
    codes = Counter[str]()
    for record in await read_all(stage.topics.bootstrap, stage.topics.results):
        codes.update(_codes(orjson.loads(record.value or b"{}")))
    logs = await asyncio.to_thread(_logs, directory)
    _add(report, f"{engine}_good", statuses[True])
    _add(report, f"{engine}_random", statuses[False])
    _add(report, f"{engine}_errors", codes)
    report.require(f"{engine}: good searches are answered", holds=set(statuses[True]) <= GOOD)
    report.require(f"{engine}: random ones are answered", holds=set(statuses[False]) <= REFUSED)
    report.require(f"{engine}: errors are refusals, not {codes}", holds=set(codes) <= REFUSED_CODES)
    report.require(f"{engine}: some are refused", holds=codes["search_rejected"] > 0)
    report.require(f"{engine}: the circuit stays closed", holds="circuit_changed" not in logs)
    # Milvus Lite returns as many hits as it is asked for.
    told = "width_refused" in logs
    report.require(f"{engine}: widths beyond the engine's are told", holds=told == (engine != "lite"))
    report.require(f"{engine}: no worker ends", holds=stage.workers.restarts == 0)


def _logs(directory: Path) -> str:
    return "".join(log.read_text() for log in directory.glob("worker-*.log"))


def _codes(result: Mapping[str, Any]) -> set[str]:
    """Return the codes of a result and its paths."""
    errors = [result["error"], *(path["error"] for path in result.get("paths") or [])]
    return {error["code"] for error in errors if error is not None}


def _add(report: Report, prefix: str, counts: Counter[str]) -> None:
    for name, count in counts.items():
        figure = report.figures.get(f"{prefix}_{name}", 0)
        assert isinstance(figure, int)
        report.figures[f"{prefix}_{name}"] = figure + count


@asynccontextmanager
async def _collection(uri: str) -> AsyncIterator[str]:
    """Yield the name of a collection to search, and drop it where others use the engine as well."""
    name = unique_name()
    command = (sys.executable, "-m", "tests.faults.refused_collection", uri, name)
    await asyncio.to_thread(subprocess.run, command, check=True, cwd=ROOT, timeout=300)
    try:
        yield name
    finally:
        if uri.startswith("http"):
            await asyncio.to_thread(drop, uri, name)


def _settings(uri: str, collection: str, params: Mapping[str, object], *, waits: bool) -> Mapping[str, str]:
    return {
        "SEARCH_PORT": "milvus-dense",
        "MILVUS_URI": uri,
        "MILVUS_COLLECTION": collection,
        "MILVUS_METADATA_LAYOUT": "flat",
        "MILVUS_SEARCH_PARAMS": json.dumps(params),
        "RAG_MAX_RETRIEVE_K": str(WIDEST),
        # A busy machine must not be taken for an outage.
        "SEARCH_ATTEMPT_TIMEOUT": "20",
        "SEARCH_TIMEOUT": "60",
        "SEARCH_CIRCUIT_FAILURES": "1",
        "STAGE_MAX_IN_FLIGHT": "32",
        "STAGE_MAX_DEAD_LETTERS_PER_MINUTE": "1000000",
        "STAGE_WHEN_SEARCH_IS_DOWN": "wait" if waits else "answer",
    }


def _good(chance: random.Random) -> dict[str, Any]:
    search: dict[str, Any] = {"query": "text", "vector": _vector(chance, DIMENSION), "retrieve_k": 10}
    if chance.random() < 0.3:
        search["filter"] = {"docId": f"doc-{chance.randrange(ROWS // 4)}"}
    return search


def _bad(chance: random.Random) -> dict[str, Any]:
    """Return a search with one to three oddities; filters and widths are what engines refuse most."""
    search = _good(chance)
    changes = chance.choices((_widen, _filter, _filter, _turn, _say, _fan_out), k=3)
    for change in dict.fromkeys(changes):
        change(chance, search)
    return search


def _widen(chance: random.Random, search: dict[str, Any]) -> None:
    weights = [10] * (len(WIDTHS) - 3) + [1, 4, 4]
    [search["retrieve_k"]] = chance.choices(WIDTHS, weights)


def _filter(chance: random.Random, search: dict[str, Any]) -> None:
    search["filter"] = {field: _values(chance) for field in chance.sample(FIELDS, chance.randint(1, 2))}


def _values(chance: random.Random) -> object:
    if chance.random() < 0.5:
        return chance.choice(SCALARS)
    return chance.choices(SCALARS, k=chance.randint(1, 4))


def _turn(chance: random.Random, search: dict[str, Any]) -> None:
    dimension = DIMENSION if chance.random() < 0.8 else chance.choice((1, DIMENSION - 1, DIMENSION + 1, 768))
    vector = chance.choice(([0.0], [1e300], [3.4e38], [1e-45], [-1.0])) * dimension
    if "vectors" in search:
        search["vectors"][0] = vector
    else:
        search["vector"] = vector


def _say(chance: random.Random, search: dict[str, Any]) -> None:
    text = chance.choice(TEXTS)
    if "queries" in search:
        search["queries"][0] = text
    else:
        search["query"] = text


def _fan_out(chance: random.Random, search: dict[str, Any]) -> None:
    count = chance.randint(2, 8)
    search["queries"] = [search.pop("query"), *["text"] * (count - 1)]
    search["vectors"] = [search.pop("vector"), *(_vector(chance, DIMENSION) for _ in range(count - 1))]


def _vector(chance: random.Random, dimension: int) -> list[float]:
    return [chance.uniform(-1, 1) for _ in range(dimension)]
