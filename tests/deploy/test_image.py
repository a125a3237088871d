"""The image's recipe: clean, and carried out step by step as the user that it names."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from streams.settings.model import MetricsSettings
from tests.faults.waiting import until
from tests.support.cache import cached_directory
from tests.support.fixtures import require_tool, skip_unless_required
from tests.support.image import Image, SandboxUnavailable, read_recipe
from tests.support.probing import WorkerPort
from tests.support.worker import READY, StageTopics, reading_results, request, send_all

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy" / "Dockerfile"
BUILD, FINAL = read_recipe(RECIPE)
WHEELS = "/wheels"
OTHERS = "/others"
INSTANT_PORT = {"SEARCH_PORT": "tests.integration.search_ports:instant", "PYTHONPATH": OTHERS}
"""Another's search, as somebody might mount it into the container."""


def test_the_linter_has_nothing_to_say() -> None:
    """Hadolint finds nothing, hints included."""
    linter = require_tool(str(Path(sys.executable).with_name("hadolint")))
    done = subprocess.run([linter, str(RECIPE)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_as_nobody_known() -> None:
    """The user is a number, as Kubernetes needs it to see that it is not root."""
    assert FINAL.uid >= 10_000


def test_both_stages_have_one_base_of_a_fixed_version() -> None:
    """What was compiled against one Python runs on the same."""
    (build,), (final,) = BUILD.values("FROM"), FINAL.values("FROM")
    assert build == f"{final} AS build"
    assert final.startswith(f"python:{sys.version_info[0]}.{sys.version_info[1]}.")


def test_the_image_says_which_version_it_is() -> None:
    """Its label is the product's version."""
    labels = dict(pair.split("=", 1) for value in FINAL.values("LABEL") for pair in shlex.split(value))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert labels["org.opencontainers.image.version"] == project["version"]
    assert labels["org.opencontainers.image.licenses"] == project["license"]


def test_the_context_has_what_is_copied_and_no_more() -> None:
    """What `.dockerignore` lets through is what the recipe copies."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = {line[1:] for line in lines if line.startswith("!")}
    copied = {source for value in BUILD.values("COPY") for source in value.split()[:-1]}
    assert "*" in lines
    assert let_through == copied


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Yield the image, built by the user it names, from wheels fetched before."""
    try:
        with Image(
            recipe=RECIPE, context=ROOT, directory=tmp_path_factory.mktemp("image") / "mounts"
        ) as image:
            environment = {
                "PIP_FIND_LINKS": WHEELS,
                "PIP_NO_INDEX": "1",
                "PIP_NO_COMPILE": "1",
                "HOME": "/nowhere",
            }
            image.build(environment, read_only={_wheels(): WHEELS, ROOT / "tests": f"{OTHERS}/tests"})
            yield image
    except SandboxUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_TOOLS", missing)


@pytest.fixture
async def topics(kafka: str) -> StageTopics:
    """Return topics of the test's own."""
    topics = StageTopics(bootstrap=kafka)
    await topics.create()
    return topics


@pytest.mark.kafka
@pytest.mark.timeout(600)
async def test_the_image_starts_and_stops_as_its_user_on_a_read_only_file_system(
    image: Image, topics: StageTopics, tmp_path: Path
) -> None:
    """The command as written: it becomes ready, answers, and leaves in order."""
    port = WorkerPort()
    environment = FINAL.environment | topics.environment | INSTANT_PORT | port.environment
    healthy = image.command("final", FINAL.health_check, environment, uid=FINAL.uid)
    assert await _exit_code(healthy) == 1
    log = tmp_path / "worker.log"
    with log.open("wb") as output:
        command = image.command("final", FINAL.command, environment, uid=FINAL.uid)
        worker = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
    try:
        await until(lambda: READY in log.read_text(), deadline_s=60, what="the worker's start")
        async with reading_results(topics) as results:
            await send_all(topics, [request("r-1", query="How do I roll back?", vector=[1.0, 2.0])])
            await results.wait_for(["r-1"], timeout_s=30)
        assert await _exit_code(healthy) == 0
        worker.terminate()
        assert await asyncio.wait_for(worker.wait(), 30) == 0
    finally:
        if worker.returncode is None:
            worker.kill()


@pytest.mark.timeout(600)
def test_the_image_has_no_demo_and_says_how_to_get_it(image: Image) -> None:
    """What only the demo needs would double the image's size."""
    command = image.command("final", ["lookup-stage", "demo"], FINAL.environment, uid=FINAL.uid)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "lookup-stage: the demo needs packages that are not installed: pip install 'lookup-stage[demo]'\n"
    )


def test_the_image_s_port_is_the_one_that_is_set_by_default() -> None:
    """What is exposed, asked for health, and listened on, is one number."""
    assert FINAL.values("EXPOSE") == [FINAL.environment["METRICS_PORT"]] == [str(MetricsSettings().port)]


async def _exit_code(command: list[str]) -> int:
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    return await process.wait()


def _wheels() -> Path:
    """Fetch the packages that the image installs, in the versions that are installed here.

    What is needed to build is not installed here: pip chooses it.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = project["project"]
    pinned = _pinned([*declared["dependencies"], *declared["optional-dependencies"]["tracing"]])
    build = project["build-system"]["requires"]
    digest = hashlib.sha256("\n".join([sys.version, *pinned, *build]).encode()).hexdigest()[:16]

    def fetch(directory: Path) -> None:
        directory.chmod(0o755)  # others than its owner read it
        download = (sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(directory))
        for wanted in (["--no-deps", *pinned], build):
            subprocess.run([*download, "--only-binary=:all:", *wanted], check=True, timeout=600)

    return cached_directory(f"wheels-{digest}", fetch)


def _pinned(requirements: list[str]) -> list[str]:
    """Return all that requirements stand for here, whatever they themselves require included."""
    pending = [Requirement(requirement) for requirement in requirements]
    followed: set[str] = set()
    pinned: set[str] = set()
    while pending:
        requirement = pending.pop()
        extras = requirement.extras or {""}
        if str(requirement) in followed or not _applies(requirement, {""}):
            continue
        followed.add(str(requirement))
        pinned.add(f"{requirement.name.lower()}=={version(requirement.name)}")
        parts = [Requirement(part) for part in requires(requirement.name) or ()]
        for part in parts:
            if _applies(part, extras | {""}):
                part.marker = None
                pending.append(part)
    return sorted(pinned)


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
