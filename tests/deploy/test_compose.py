"""The Compose file: well-formed, of tested versions, and with settings that there are."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema_rs import Draft202012Validator

from streams.settings.model import Settings
from streams.settings.sources import environment_name, setting_keys
from streams.worker.run import STOP_TIMEOUT_S
from tests.support.fixtures import require_tool, skip_unless_required
from tests.support.kafka_server import KAFKA_VERSION, KafkaServer, KafkaUnavailable
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN = {name: service for name, service in SERVICES.items() if "build" in service}


def test_the_file_is_valid_by_the_compose_specification() -> None:
    """It passes the specification's own schema."""
    assert _violations(COMPOSE) == []


def test_the_schema_refuses_what_is_no_compose_file() -> None:
    """The check above would see a misspelt key."""
    assert len(_violations({"services": {"worker": {"image": "x", "enviroment": {"A": "b"}}}})) == 1


@pytest.mark.parametrize("name", OWN)
def test_every_variable_of_our_services_is_a_settings(name: str) -> None:
    """No variable is misspelt, none was renamed in the code alone."""
    known = {environment_name(key) for key in setting_keys(Settings)}
    assert set(OWN[name]["environment"]) - known == set()


@pytest.mark.parametrize("name", OWN)
def test_our_services_can_do_nothing_but_their_work(name: str) -> None:
    """No capability, no new privileges, nothing to write to."""
    service = OWN[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_worker_has_time_to_drain() -> None:
    """It is not killed before it has left by itself."""
    needed = Settings.model_construct().stage.drain_timeout + STOP_TIMEOUT_S
    assert int(SERVICES["worker"]["stop_grace_period"].removesuffix("s")) > needed


def test_every_dependency_can_come_true() -> None:
    """Who is waited for to be healthy has a health check; who is to complete is a job of ours."""
    for service in SERVICES.values():
        for name, dependency in service.get("depends_on", {}).items():
            needed = SERVICES[name]
            if dependency["condition"] == "service_healthy":
                assert "test" in needed["healthcheck"]
            else:
                assert dependency["condition"] == "service_completed_successfully"
                assert needed["command"][0] in {"topics", "index"}


def test_every_file_that_is_mounted_exists() -> None:
    """Docker would make an empty folder in its place."""
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", [])]
    sources = [re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", mount).partition(":")[0] for mount in mounts]
    files = [source for source in sources if source.startswith(".")]
    assert len(files) == 6
    for file in files:
        assert (FILE.parent / file).exists(), file


def test_servers_are_of_the_versions_that_the_tests_run_on() -> None:
    """Nobody is the first to try a combination."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (milvus,) = (
        re.split("[=;]+", requirement)[1]
        for requirement in project["project"]["optional-dependencies"]["test"]
        if requirement.startswith("milvus==")
    )
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert SERVICES["milvus"]["image"] == f"milvusdb/milvus:v{milvus}"


class _ComposeKafka(KafkaServer):
    """A broker with what the Compose file sets, and nothing else, on free ports of this machine."""

    def _defaults(self) -> dict[str, str]:
        properties = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
            for name, value in SERVICES["kafka"]["environment"].items()
        }
        ports = {"9092": free_port(), "9093": self._controller_port, "29092": self._port}
        for name in ("listeners", "advertised.listeners", "controller.quorum.voters"):
            properties[name] = re.sub(
                r":(\d+)\b",
                lambda port: f":{ports[port[1]]}",
                properties[name].replace("://:", "://127.0.0.1:"),
            )
        return properties | {"log.dirs": str(self._directory / "data")}


@pytest.mark.kafka
def test_what_is_set_for_kafka_starts_a_broker_that_the_machine_reaches(tmp_path: Path) -> None:
    """The image makes properties of its variables; with these the broker answers where it is published."""
    try:
        server = _ComposeKafka(tmp_path / "kafka")
    except KafkaUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_KAFKA", missing)
    with server:
        assert server.pid is not None


def test_prometheus_is_of_the_version_that_the_tests_run_on() -> None:
    """Debian's, as the package says."""
    prometheus = require_tool("prometheus")
    said = subprocess.run([prometheus, "--version"], capture_output=True, text=True, timeout=60, check=True)
    version = re.search(r"version (\d+\.\d+)\.", said.stdout + said.stderr)
    assert version is not None
    assert SERVICES["prometheus"]["image"].startswith(f"prom/prometheus:v{version[1]}.")


def _violations(compose: dict[str, Any]) -> list[str]:
    validator = Draft202012Validator(get_builtin_schema("vendor.compose-spec"))
    return [error.message for error in validator.iter_errors(compose)]
