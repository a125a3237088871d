"""The port for those who run the worker."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog
from prometheus_client import CollectorRegistry, Counter

from pipeline.errors import ConfigurationError
from streams.observability.server import Probe, serving
from streams.settings.model import MetricsSettings
from tests.support.ports import free_port
from tests.support.probing import Response, WorkerPort


def registry() -> CollectorRegistry:
    """Return a registry with one metric."""
    registry = CollectorRegistry()
    Counter("asked", "how often", registry=registry).inc(3)
    return registry


def settings(port: int, host: str = "127.0.0.1") -> MetricsSettings:
    """Return settings."""
    return MetricsSettings(host=host, port=port)


def well() -> None:
    """Find nothing wrong."""


def ill() -> str:
    """Find something wrong."""
    return "the worker is leaving"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/livez", 200, "ok\n"),
        ("/livez?verbose", 200, "ok\n"),
        ("/readyz", 503, "the worker is leaving\n"),
        ("/", 404, "there are /metrics, /livez, /readyz\n"),
    ],
)
def test_probe_answers_with_what_is_wrong(path: str, status: int, body: str) -> None:
    """200 where nothing is, 503 with a reason where something is, 404 for what there is not."""
    port = WorkerPort()
    probes: dict[str, Probe] = {"/livez": well, "/readyz": ill}
    with serving(settings(port.number), registry(), probes):
        assert port.get(path) == Response(status=status, body=body)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [("*/*", "text/plain"), ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text")],
)
def test_metrics_come_in_the_format_that_is_asked_for(accept: str, content_type: str) -> None:
    """Prometheus's own text, or OpenMetrics."""
    port = free_port()
    with serving(settings(port), registry(), {}):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.headers["Content-Type"].startswith(content_type)
            assert b"asked_total 3.0" in response.read()


async def test_probe_answers_while_the_event_loop_is_stuck() -> None:
    """Only so can it say that it is."""
    port = WorkerPort()
    with serving(settings(port.number), registry(), {"/livez": ill}), ThreadPoolExecutor(1) as elsewhere:
        answered = elsewhere.submit(port.get, "/livez")
        while not answered.done():
            time.sleep(0.01)  # noqa: ASYNC251 - the loop must not run
    assert answered.result().status == 503


async def test_probe_answers_while_another_client_says_nothing() -> None:
    """A connection that is held open takes one thread, not the port."""
    port = WorkerPort()
    with serving(settings(port.number), registry(), {"/livez": well}):
        silent = socket.create_connection(("127.0.0.1", port.number))
        assert (await asyncio.to_thread(port.get, "/livez")).status == 200
        silent.close()


def test_port_is_free_again_afterwards() -> None:
    """The next worker has it at once."""
    port = WorkerPort()
    for _ in range(2):
        with serving(settings(port.number), registry(), {"/livez": well}) as number:
            assert (number, port.get("/livez").status) == (port.number, 200)
    assert port.get("/livez").status == 0


def test_port_zero_serves_nothing() -> None:
    """It is how to turn it off."""
    with serving(settings(0), registry(), {}) as number:
        assert number is None


def test_port_that_is_taken_is_named() -> None:
    """With what to do about it."""
    port = free_port()
    with (
        serving(settings(port), registry(), {}),
        pytest.raises(ConfigurationError) as refused,
        serving(settings(port), registry(), {}),
    ):
        pass
    assert str(refused.value) == (
        f"metrics.port = {port}: cannot listen on 127.0.0.1:{port}: Address already in use;"
        " each worker on a machine needs a port of its own, 0 for none"
    )


@pytest.mark.parametrize(
    ("host", "begin"),
    [
        ("no such host", "metrics.host = no such host: must be"),
        ("192.0.2.1", "metrics.host = 192.0.2.1: must"),
    ],
)
def test_host_that_is_not_this_machines_is_named(host: str, begin: str) -> None:
    """Whether it has no address or another machine's."""
    with (
        pytest.raises(ConfigurationError) as refused,
        serving(settings(free_port(), host), registry(), {}),
    ):
        pass
    assert str(refused.value).startswith(begin)


def test_host_may_be_of_ip_version_6() -> None:
    """Kubernetes may probe over either."""
    port = free_port()
    with (
        serving(settings(port, "::1"), registry(), {"/livez": well}),
        urllib.request.urlopen(f"http://[::1]:{port}/livez", timeout=10) as response,
    ):
        assert response.status == 200


async def test_client_that_leaves_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is written past the log's own form, whatever goes wrong in an answer."""
    port = WorkerPort()
    answering = threading.Event()

    def slow() -> str:
        answering.wait(60)
        return "x" * 10_000_000

    with serving(settings(port.number), registry(), {"/livez": slow, "/readyz": well}):
        leaving = socket.create_connection(("127.0.0.1", port.number))
        leaving.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        leaving.close()
        answering.set()
        assert (await asyncio.to_thread(port.get, "/readyz")).status == 200
    assert capfd.readouterr().err == ""


def test_client_that_sends_nothing_is_left(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time limit, and without a word on standard error."""
    monkeypatch.setattr("streams.observability.server._QuietHandler.timeout", 0.05)
    port = WorkerPort()
    with (
        serving(settings(port.number), registry(), {}),
        socket.create_connection(("127.0.0.1", port.number), timeout=60) as silent,
    ):
        assert silent.recv(1) == b""
    assert capfd.readouterr().err == ""


def test_probe_that_fails_is_logged() -> None:
    """In the log's own form; the probe answers 500 and the port goes on."""
    port = WorkerPort()

    def broken() -> str:
        raise ValueError("a fault of ours")

    with (
        structlog.testing.capture_logs() as logs,
        serving(settings(port.number), registry(), {"/livez": broken, "/readyz": well}),
    ):
        assert port.get("/livez").status == 500
        assert port.get("/readyz").status == 200
    assert [line["event"] for line in logs] == ["metrics_request_failed"]
