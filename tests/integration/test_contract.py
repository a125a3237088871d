"""The contract as the command writes it, held against AsyncAPI's own schema."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import pytest

from tests.support.cache import cached_directory
from tests.support.fixtures import require_tool
from tests.support.worker import run_command

SPECIFICATIONS = "@asyncapi/specs@6.11.1"
FETCH_DEADLINE_S = 120


@pytest.fixture(scope="module")
def official() -> Any:
    """Return AsyncAPI's schema of its documents, version 3.0.0, from the package that its authors publish."""
    npm = require_tool("npm")
    folder = cached_directory("asyncapi-specs-6.11.1", lambda target: _fetch(npm, target))
    return orjson.loads((folder / "package" / "schemas" / "3.0.0.json").read_bytes())


def test_document_is_one_of_asyncapi(official: Any) -> None:
    """AsyncAPI's own schema takes what the command prints, with Kafka's bindings, and not just anything."""
    printed = run_command("contract", environment={"KAFKA_SECURITY_PROTOCOL": "SSL"})
    assert printed.code == 0, printed.stderr
    document = orjson.loads(printed.stdout)
    document_schema = jsonschema_rs.validator_for(official)
    document_schema.validate(document)
    assert {server["protocol"] for server in document["servers"].values()} == {"kafka-secure"}
    for part, broken in (
        ("info", {}),
        ("channels", {"requests": {"bindings": {"kafka": {"partitions": "many"}}}}),
        ("operations", {"answerRequests": {"action": "eat"}}),
    ):
        assert not document_schema.is_valid(document | {part: broken})


def test_files_are_written_to_the_folder_that_is_named(tmp_path: Path) -> None:
    """Every file is named on standard output and is JSON; schemas say which of the dialects they are."""
    folder = tmp_path / "made" / "contract"
    written = run_command("contract", "--out", str(folder), environment={})
    assert written.code == 0, written.stderr
    files = [Path(line) for line in written.stdout.splitlines()]
    assert {file.name for file in files} == {file.name for file in folder.iterdir()}
    assert len(files) == 5
    for file in files:
        content = orjson.loads(file.read_bytes())
        assert content.keys() & {"asyncapi", "$schema"}


def test_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """A file in the folder's place is named."""
    (tmp_path / "file").touch()
    refused = run_command("contract", "--out", str(tmp_path / "file" / "inside"), environment={})
    assert refused.code != 0
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "--out" in refused.stderr


def _fetch(npm: str, target: Path) -> None:
    archive = subprocess.run(
        [npm, "pack", "--silent", SPECIFICATIONS],
        cwd=target,
        check=True,
        capture_output=True,
        text=True,
        timeout=FETCH_DEADLINE_S,
    ).stdout.strip()
    subprocess.run(["tar", "-xzf", archive], cwd=target, check=True, timeout=FETCH_DEADLINE_S)
