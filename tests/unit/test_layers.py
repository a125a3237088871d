"""The rooms of the product import downwards only; `pyproject.toml` lists them from the top down."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pipeline", "streams")


def check_layers(root: Path) -> subprocess.CompletedProcess[str]:
    """Check the packages below `root` against the contracts there."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_rooms_import_downwards_only() -> None:
    """No import goes upwards, and so there is no circle between rooms."""
    done = check_layers(ROOT)
    assert done.returncode == 0, done.stdout
    assert "2 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("streams/settings/model.py", "streams.kafka.records"),
        ("streams/kafka/topics.py", "streams.wire.requests"),
        ("streams/recordings/recording.py", "streams.stage.answering"),
        ("streams/stage/stage.py", "streams.worker.agents"),
        ("streams/comparison/sides.py", "streams.contract.files"),
        ("pipeline/lookup.py", "streams.stage.stage"),
    ],
)
def test_import_that_is_turned_around_is_found(tmp_path: Path, importer: str, imported: str) -> None:
    """The check can fail: it names both ends of the import."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    changed = tmp_path / importer
    changed.write_text(f"{changed.read_text(encoding='utf-8')}\nimport {imported}\n", encoding="utf-8")
    done = check_layers(tmp_path)
    assert done.returncode == 1
    assert f"{importer.removesuffix('.py').replace('/', '.')} -> {imported}" in done.stdout


def test_room_that_is_not_listed_is_found(tmp_path: Path) -> None:
    """A new folder has to say where it stands."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "streams" / "attic.py").write_text('"""A room."""\n', encoding="utf-8")
    done = check_layers(tmp_path)
    assert done.returncode == 1
    assert "streams.attic" in done.stdout
