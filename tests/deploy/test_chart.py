"""The chart: valid by Kubernetes' own schemas, and with settings that there are."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from streams.cli.topics import topics as topics_command
from streams.settings import loading
from streams.settings.model import KafkaSettings, MetricsSettings, Settings
from streams.settings.sources import environment_name, setting_keys
from streams.worker.run import STOP_TIMEOUT_S
from tests.deploy.test_image import FINAL
from tests.support.helm import CHART, render, run_helm
from tests.support.prometheus import ALERTS, DASHBOARD

pytestmark = pytest.mark.timeout(900)  # the first test may build Helm

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
OLDEST_KUBERNETES = "1.29"
EVERYTHING = (
    "--set-json=keda.enabled=true",
    "--set-json=podMonitor.enabled=true",
    "--set-json=prometheusRule.enabled=true",
    "--set-json=dashboard.enabled=true",
    '--set-json=networkPolicy.metricsFrom=[{"namespaceSelector": {}}]',
    '--set-json=imagePullSecrets=[{"name": "registry"}]',
    '--set-json=extraVolumes=[{"name": "ca", "secret": {"secretName": "ca"}}]',
    '--set-json=extraVolumeMounts=[{"name": "ca", "mountPath": "/etc/ca"}]',
    "--set=existingSecret=lookup-secrets",
    "--set=config.kafka.security-protocol=SASL_SSL",
    "--set=config.kafka.sasl-mechanism=SCRAM-SHA-512",
)


@pytest.fixture(scope="module")
def plain(helm: Path) -> dict[str, dict[str, Any]]:
    """Return the manifests of the default values, by kind and name."""
    return _by_name(render(helm))


@pytest.fixture(scope="module")
def everything(helm: Path) -> dict[str, dict[str, Any]]:
    """Return the manifests with everything turned on."""
    return _by_name(render(helm, *EVERYTHING))


def test_the_linter_has_nothing_to_say(helm: Path) -> None:
    """`helm lint --strict` passes."""
    assert "0 chart(s) failed" in run_helm(helm, "lint", "--strict", str(CHART))


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, kubernetes_validate.latest_version()])
def test_every_manifest_is_valid_by_the_schemas_of_kubernetes(
    plain: Mapping[str, dict[str, Any]], everything: Mapping[str, dict[str, Any]], version: str
) -> None:
    """No key is misspelt and every value is of its type, in the oldest version and the newest."""
    own = [m for m in [*plain.values(), *everything.values()] if not _is_custom(m)]
    assert len(own) == 13
    for manifest in own:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schemas_refuse_what_is_no_manifest(plain: Mapping[str, dict[str, Any]]) -> None:
    """The check above would see a misspelt key."""
    wrong = {**plain["Deployment/test-lookup-stage"], "specs": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, OLDEST_KUBERNETES, strict=True)


def test_the_settings_file_loads(
    plain: Mapping[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the workers and the topics' job are given is what the code takes."""
    monkeypatch.setenv("LOOKUP_CONFIG", "")
    for name in ("test-lookup-stage", "test-lookup-stage-topics"):
        file = tmp_path / "lookup-stage.yaml"
        file.write_text(plain[f"ConfigMap/{name}"]["data"]["lookup-stage.yaml"])
        assert loading.load(file).milvus.uri == VALUES["config"]["milvus"]["uri"]


def test_every_variable_is_a_settings(everything: Mapping[str, dict[str, Any]]) -> None:
    """The containers' environment, and the keys of the secret that the scaler reads."""
    known = {environment_name(key) for key in setting_keys(Settings)}
    for container in _containers(everything):
        assert {variable["name"] for variable in container["env"]} - known == {"LOOKUP_CONFIG"}
    keys = everything["TriggerAuthentication/test-lookup-stage"]["spec"]["secretTargetRef"]
    assert {key["key"] for key in keys} <= known


def test_containers_can_do_nothing_but_their_work(everything: Mapping[str, dict[str, Any]]) -> None:
    """Not root, no capability, no privileges to gain, nothing to write to, no token of the cluster."""
    for manifest in (everything["Deployment/test-lookup-stage"], everything["Job/test-lookup-stage-topics"]):
        pod = manifest["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": FINAL.uid,
            "runAsGroup": FINAL.uid,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


@pytest.mark.parametrize("seconds", [None, 0.5, 15, 60])
def test_the_worker_has_time_to_drain(helm: Path, seconds: float | None) -> None:
    """It is not killed before it has left by itself, however long it may drain."""
    options = () if seconds is None else (f"--set-json=config.stage.drain-timeout={seconds}",)
    deployment = _by_name(render(helm, *options))["Deployment/test-lookup-stage"]
    drain = Settings.model_construct().stage.drain_timeout if seconds is None else seconds
    granted = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert drain + STOP_TIMEOUT_S < granted <= drain + STOP_TIMEOUT_S + 6


def test_probes_and_monitor_ask_the_worker_s_port(everything: Mapping[str, dict[str, Any]]) -> None:
    """Where it listens is where it is asked."""
    (worker,) = everything["Deployment/test-lookup-stage"]["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable["value"] for variable in worker["env"]}
    assert worker["ports"] == [{"name": "metrics", "containerPort": int(variables["METRICS_PORT"])}]
    assert variables["METRICS_HOST"] == "0.0.0.0"
    assert int(variables["METRICS_PORT"]) == MetricsSettings().port
    assert worker["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
    assert worker["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    (endpoint,) = everything["PodMonitor/test-lookup-stage"]["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")
    (ingress,) = everything["NetworkPolicy/test-lookup-stage"]["spec"]["ingress"]
    assert [port["port"] for port in ingress["ports"]] == [MetricsSettings().port]


def test_workers_may_connect_to_what_is_configured(plain: Mapping[str, dict[str, Any]]) -> None:
    """The network policy lets through name resolution, and the ports of the addresses in the values."""
    egress = plain["NetworkPolicy/test-lookup-stage"]["spec"]["egress"]
    allowed = {port["port"] for rule in egress for port in rule["ports"]}
    addresses = (VALUES["config"]["kafka"]["bootstrap-servers"], VALUES["config"]["milvus"]["uri"])
    assert allowed == {53} | {int(address.rpartition(":")[2]) for address in addresses}


@pytest.mark.parametrize("kind", ["Deployment", "PodDisruptionBudget", "PodMonitor"])
def test_selectors_find_the_workers_alone(everything: Mapping[str, dict[str, Any]], kind: str) -> None:
    """Not the topics' job, which has the release's other labels."""
    selector = everything[f"{kind}/test-lookup-stage"]["spec"]["selector"]["matchLabels"].items()
    worker, job = (
        everything[name]["spec"]["template"]["metadata"]["labels"].items()
        for name in ("Deployment/test-lookup-stage", "Job/test-lookup-stage-topics")
    )
    assert selector <= worker
    assert not selector <= job


def test_the_scaler_follows_the_group_s_lag_up_to_as_many_as_partitions(helm: Path) -> None:
    """Group, topic and brokers are the settings', and the deployment leaves the number to it."""
    manifests = _by_name(
        render(
            helm,
            *EVERYTHING,
            "--set=config.kafka.group-id=g,config.kafka.topics.requests=t",
            "--set-json=topics.partitions=5",
        )
    )
    scaler = manifests["ScaledObject/test-lookup-stage"]["spec"]
    (trigger,) = scaler["triggers"]
    assert scaler["scaleTargetRef"] == {"name": manifests["Deployment/test-lookup-stage"]["metadata"]["name"]}
    assert scaler["maxReplicaCount"] == 5
    assert trigger["type"] == "kafka"
    assert trigger["authenticationRef"] == {"name": "test-lookup-stage"}
    assert trigger["metadata"] == {
        "bootstrapServers": "kafka:9092",
        "consumerGroup": "g",
        "topic": "t",
        "lagThreshold": "500",
        "offsetResetPolicy": "earliest",
        "allowIdleConsumers": "false",
        "tls": "enable",
        "sasl": "scram_sha512",
    }
    assert "replicas" not in manifests["Deployment/test-lookup-stage"]["spec"]


def test_the_scaler_without_settings_uses_the_code_s_defaults(helm: Path) -> None:
    """The chart repeats three defaults, and they are the same."""
    (trigger,) = _by_name(render(helm, "--set-json=keda.enabled=true", "--set-json=config.kafka=null"))[
        "ScaledObject/test-lookup-stage"
    ]["spec"]["triggers"]
    kafka = KafkaSettings()
    asked = trigger["metadata"]
    assert asked["bootstrapServers"] == kafka.bootstrap_servers
    assert asked["consumerGroup"] == kafka.group_id
    assert asked["topic"] == kafka.topics.requests
    assert (asked["tls"], asked["sasl"]) == ("disable", "none")
    assert "authenticationRef" not in trigger


def test_topics_are_created_before_the_workers(everything: Mapping[str, dict[str, Any]]) -> None:
    """The job is a hook, as are the settings that it reads, and its command is one of ours."""
    job, settings = (everything[f"{kind}/test-lookup-stage-topics"] for kind in ("Job", "ConfigMap"))
    notes = [manifest["metadata"]["annotations"] for manifest in (settings, job)]
    assert [note["helm.sh/hook"] for note in notes] == ["pre-install,pre-upgrade"] * 2
    assert int(notes[0]["helm.sh/hook-weight"]) < int(notes[1]["helm.sh/hook-weight"])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    assert command == topics_command.name
    given = topics_command.make_context(command, list(arguments)).params
    assert (given["partitions"], given["replication"]) == (12, 3)


def test_alerts_and_dashboard_are_the_tested_ones(everything: Mapping[str, dict[str, Any]]) -> None:
    """The operator gets the very rules that Prometheus was tried with."""
    rules = everything["PrometheusRule/test-lookup-stage"]["spec"]
    assert rules == yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    shown = everything["ConfigMap/test-lookup-stage-dashboard"]["data"]["lookup-stage.json"]
    assert json.loads(shown) == json.loads(DASHBOARD.read_text(encoding="utf-8"))


def test_alerts_link_to_where_the_runbook_is(helm: Path) -> None:
    """The place is a value."""
    place = "https://example.com/RUNBOOK.md"
    options = ("--set-json=prometheusRule.enabled=true", f"--set=prometheusRule.runbookUrl={place}")
    manifests = _by_name(render(helm, *options))
    (group,) = manifests["PrometheusRule/test-lookup-stage"]["spec"]["groups"]
    assert {rule["annotations"]["runbook_url"].partition("#")[0] for rule in group["rules"]} == {place}


def test_the_chart_is_of_the_product_s_version() -> None:
    """The image that is installed by default is the one that the chart is for."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((CHART.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == project["project"]["version"]


def _by_name(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in manifests}


def _is_custom(manifest: Mapping[str, Any]) -> bool:
    return manifest["apiVersion"].partition("/")[0] in {"keda.sh", "monitoring.coreos.com"}


def _containers(manifests: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    specs = [m["spec"]["template"]["spec"] for m in manifests.values() if m["kind"] in {"Deployment", "Job"}]
    return [container for spec in specs for container in spec["containers"]]
