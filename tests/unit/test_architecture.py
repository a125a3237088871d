"""Which part of the product may know which."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ("values", "model", "identity", "processor", "projector", "limits", "outcome")
PURE = (*CORE, "errors", "ports", "lookup")
"""The core, and what stands around it without a third party's code."""

KAFKA = {"faust", "mode", "aiokafka", "confluent_kafka"}
TOP_LEVEL = {
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "streams",
    "pipeline",
    "tests",
    "deploy",
}


def modules(*packages: str) -> dict[str, Path]:
    """Return every module of the packages: `pipeline/testing/in_memory.py` and where it is."""
    found = {
        file.relative_to(ROOT).as_posix(): file
        for package in packages
        for file in (ROOT / package).rglob("*.py")
    }
    assert found
    return found


def imported(source: str, *, package: str = "") -> Iterator[str]:
    """Yield the full names of what a module imports, wherever in it and in whatever form."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{origin}.{name.name}" for name in node.names)


def imports_of(name: str) -> set[str]:
    """Return what the module at a path such as `pipeline/lookup.py` imports."""
    file = ROOT / name
    return set(imported(file.read_text(encoding="utf-8"), package=".".join(Path(name).parent.parts)))


def importers(names: set[str], *packages: str) -> set[str]:
    """Return the modules that import one of the top-level packages."""
    return {
        module
        for module in modules(*packages)
        if names & {found.partition(".")[0] for found in imports_of(module)}
    }


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import a.b as c, d", {"a.b", "d"}),
        ("from a.b import c, d", {"a.b.c", "a.b.d"}),
        ("def f():\n    if x:\n        import a", {"a"}),
        ("from . import a", {"here.there.a"}),
        ("from .a import b", {"here.there.a.b"}),
        ("from ..a import b", {"here.a.b"}),
    ],
)
def test_imported_sees_every_form(source: str, names: set[str]) -> None:
    """The tests below would see an import in any of these forms."""
    assert set(imported(source, package="here.there")) == names


def test_pipeline_never_imports_streams() -> None:
    """The arrow goes from the stage to the pipeline, never back."""
    assert importers({"pipeline"}, "streams")
    assert importers({"streams"}, "pipeline") == set()


def test_pipeline_knows_nothing_of_kafka() -> None:
    """Faust and every other client of Kafka stay in the stage."""
    assert importers(KAFKA, "streams")
    assert importers(KAFKA, "pipeline") == set()


@pytest.mark.parametrize("module", CORE)
def test_core_imports_only_the_standard_library_and_itself(module: str) -> None:
    """No third party's type can get into the rules, and no adapter either."""
    own = {f"pipeline.{name}" for name in (*CORE, "errors")}
    foreign = {
        name
        for name in imports_of(f"pipeline/{module}.py")
        if name.partition(".")[0] not in sys.stdlib_module_names and name.rpartition(".")[0] not in own
    }
    assert foreign == set()


def test_core_runs_on_the_standard_library() -> None:
    """The core and the lookup can be imported where no package is installed at all."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + "\n".join(
        f"import pipeline.{module}" for module in PURE
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True, timeout=60)


def test_pymilvus_stays_in_its_adapters_and_in_the_indexing() -> None:
    """Only what reads from or writes to Milvus knows its client."""
    outside = {
        module
        for module in importers({"pymilvus"}, "pipeline", "streams")
        if not module.startswith(("pipeline/adapters/milvus_", "streams/indexing/"))
    }
    assert outside == set()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_repository_holds_only_what_belongs_at_its_top() -> None:
    """Source, tests, deployment and what describes them; tools' files begin with a dot."""
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    top = {name.partition("/")[0] for name in listing.split("\0") if name}
    assert "pyproject.toml" in top
    assert {name for name in top if not name.startswith(".")} - TOP_LEVEL == set()
