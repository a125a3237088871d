"""The benchmarks' command: `python -m tests.benchmarks`; `--help` tells the rest."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import orjson

from tests.benchmarks import collection, compression, core, rates, timing
from tests.benchmarks.figures import Figure
from tests.benchmarks.frameworks.turns import frameworks
from tests.benchmarks.latency import latency
from tests.benchmarks.rates import Setup
from tests.integration.corpus import sentences
from tests.support.kafka_server import KAFKA_VERSION, KafkaServer
from tests.support.milvus_server import MilvusServer

PACKAGES = (
    "aiokafka",
    "cramjam",
    "faust-streaming",
    "uvloop",
    "orjson",
    "pymilvus",
    "milvus",
    "wordllama",
    "faststream",
    "quixstreams",
    "haystack-ai",
    "llama-index-core",
    "langchain-core",
    "langchain-classic",
)

WITHOUT_SERVERS = {"core", "compression", "frameworks"}

MOST_DRAWN = 100

Say = Callable[[str], object]
Scenario = Callable[[Setup, int, float, Say], Iterator[Figure]]

SCENARIOS: dict[str, Scenario] = {
    "core": lambda _setup, rounds, _scale, say: core.core(rounds, say),
    "compression": lambda _setup, rounds, _scale, say: compression.compression(rounds, say),
    "milvus": rates.milvus_rates,
    "instant": rates.instant_rates,
    "latency": lambda setup, _rounds, scale, say: latency(setup, 15 * scale, say),
    "scale": timing.scale,
    "pauses": lambda setup, rounds, _scale, say: timing.pauses(setup, 2 * rounds, say),
    "frameworks": lambda _setup, rounds, _scale, say: frameworks(rounds, say),
}


def main() -> None:
    """Run the scenarios that are named, else all, and print their figures."""
    arguments = _arguments()
    rounds, scale = (1, 0.4) if arguments.quick else (3, 1.0)
    names = arguments.scenarios or list(SCENARIOS)
    about = _about(rounds)
    _print(*(f"{name}: {value}" for name, value in about.items()), "")
    figures: dict[str, list[Figure]] = {}
    with ExitStack() as stack:
        setup = (
            stack.enter_context(_prepared())
            if set(names) - WITHOUT_SERVERS
            else Setup(bootstrap="", environment={}, queries=())
        )
        for name in names:
            figures[name] = []
            for figure in SCENARIOS[name](setup, rounds, scale, _say):
                figures[name].append(figure)
                _print(str(figure))
    if arguments.json:
        arguments.json.write_bytes(_as_json(about, figures))
    if arguments.plot:
        _plot(arguments.plot, figures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=main.__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--quick", action="store_true", help="one round of fewer requests")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--plot", type=Path, help="picture of the ratios, .svg or .png")
    arguments = parser.parse_args()
    for name in arguments.scenarios:
        if name not in SCENARIOS:
            parser.error(f"{name} is not a scenario, must be one of {', '.join(SCENARIOS)}")
    return arguments


@contextmanager
def _prepared() -> Iterator[Setup]:
    """Yield brokers, an engine and a collection: those of the environment, else its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bootstrap = os.environ.get("LOOKUP_KAFKA_BOOTSTRAP")
        if not bootstrap:
            bootstrap = stack.enter_context(KafkaServer(folder / "kafka")).bootstrap
        uri = os.environ.get("LOOKUP_MILVUS_URI")
        if not uri:
            uri = stack.enter_context(MilvusServer(folder / "milvus")).uri
        environment = {"MILVUS_URI": uri, "MILVUS_COLLECTION": collection.NAME, "METRICS_PORT": "0"}
        os.environ |= environment
        _say(f"indexing {collection.CHUNKS} chunks")
        collection.index_corpus(folder, uri)
        yield Setup(bootstrap=bootstrap, environment=environment, queries=sentences()[:500])


def _about(rounds: int) -> dict[str, str]:
    versions = {package: _version(package) for package in PACKAGES}
    return {
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "kafka": KAFKA_VERSION,
        **{package: found for package, found in versions.items() if found is not None},
        "chunks": f"{collection.CHUNKS}, 256 dimensions, HNSW, sealed",
        "rounds": f"{rounds}, interleaved; medians",
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _as_json(about: dict[str, str], figures: dict[str, list[Figure]]) -> bytes:
    shown = {
        name: [dataclasses.asdict(figure) | {"met": figure.met} for figure in each]
        for name, each in figures.items()
    }
    return orjson.dumps({"about": about, "figures": shown}, option=orjson.OPT_INDENT_2)


def _plot(file: Path, figures: dict[str, list[Figure]]) -> None:
    """Draw how much better or worse than its bound each figure is."""
    from matplotlib.figure import Figure as Picture

    bounded = [(figure, figure.margin) for each in figures.values() for figure in each if figure.margin]
    picture = Picture(figsize=(9, 0.4 * len(bounded) + 1), layout="constrained")
    axes = picture.subplots()
    names = [figure.name for figure, _ in bounded]
    powers = [math.log10(min(margin, MOST_DRAWN)) for _, margin in bounded]
    axes.barh(names, powers, color=["tab:green" if figure.met else "tab:red" for figure, _ in bounded])
    axes.axvline(0, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda power, _place: f"{10**power:.2g}")
    axes.set_xlabel("times better than its bound; what is left of 1 misses it")
    picture.savefig(file)


def _say(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()


def _print(*lines: str) -> None:
    _say("")
    sys.stdout.write("\n".join((*lines, "")))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
