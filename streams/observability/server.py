"""The port for those who run the worker: `/metrics`, `/livez`, `/readyz`.

It is served by threads, so that it answers also while the event loop is stuck.
"""

from __future__ import annotations

import errno
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from pipeline.errors import ConfigurationError
from streams.settings.model import MetricsSettings

log = structlog.get_logger(__name__)

TEXT = "text/plain; charset=utf-8"
CLIENT_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.1

Probe = Callable[[], str | None]
"""Says what is wrong, or `None`."""


@contextmanager
def serving(
    settings: MetricsSettings, registry: CollectorRegistry, probes: Mapping[str, Probe]
) -> Iterator[int | None]:
    """Serves metrics and probes while the block runs, unless the settings turn that off.

    Args:
        settings: Where to listen.
        registry: What `/metrics` shows.
        probes: By path; each answers 200, or 503 with what is wrong.

    Yields:
        The port, or `None` where it is off.

    Raises:
        ConfigurationError: One line saying why it cannot listen there.
    """
    if settings.port == 0:
        yield None
        return
    server = _listening(settings, _handler(registry, probes))
    thread = threading.Thread(
        target=server.serve_forever, args=(POLL_INTERVAL_S,), name="metrics", daemon=True
    )
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class's
        """Logs an error in an answer; that the client has left is none."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            log.error("metrics_request_failed", exc_info=error)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _listening(settings: MetricsSettings, handler: type[BaseHTTPRequestHandler]) -> ThreadingTCPServer:
    kind = _Server6 if ":" in settings.host else _Server
    try:
        return kind((settings.host, settings.port), handler)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise ConfigurationError(
                f"metrics.host = {settings.host}: must be an address of this machine: {error.strerror}"
            ) from error
        raise ConfigurationError(
            f"metrics.port = {settings.port}: cannot listen on {settings.host}:{settings.port}:"
            f" {error.strerror}; each worker on a machine needs a port of its own, 0 for none"
        ) from error


def _handler(registry: CollectorRegistry, probes: Mapping[str, Probe]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT_S

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, encode(registry), content_type)
            elif path in probes:
                wrong = probes[path]()
                status = HTTPStatus.OK if wrong is None else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, f"{wrong or 'ok'}\n".encode(), TEXT)
            else:
                known = ", ".join(["/metrics", *probes])
                self._answer(HTTPStatus.NOT_FOUND, f"there are {known}\n".encode(), TEXT)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's signature
            """Logs nothing: probes come every few seconds."""

        def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
