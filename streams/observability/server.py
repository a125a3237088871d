"""The worker's HTTP port for operators: `/metrics`, `/livez`, `/readyz`.

Threads serve it, so that it answers while the event loop is stuck.
"""

from __future__ import annotations

import errno
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from socketserver import TCPServer
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from pipeline.errors import ConfigurationError
from streams.settings.model import MetricsSettings

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

log = structlog.get_logger(__name__)

TEXT = "text/plain; charset=utf-8"
CLIENT_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.1

Probe = Callable[[], str | None]
"""Return what is wrong, or `None`."""


@contextmanager
def serving(
    settings: MetricsSettings, registry: CollectorRegistry, probes: Mapping[str, Probe]
) -> Iterator[int | None]:
    """Serve metrics and probes while the block runs, unless `metrics.port` is 0.

    Args:
        settings: Where to listen.
        registry: What `/metrics` shows.
        probes: By path; each answers 200, or 503 with what is wrong.

    Yields:
        The port, or `None` if nothing is served.

    Raises:
        ConfigurationError: The address cannot be listened on. One line.
    """
    if settings.port == 0:
        yield None
        return
    server = _listening(settings)
    server.set_app(_application(registry, probes))
    thread = threading.Thread(
        target=server.serve_forever, args=(POLL_INTERVAL_S,), name="metrics", daemon=True
    )
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingWSGIServer):
    block_on_close = False

    def server_bind(self) -> None:
        """Bind without looking up the host's full name, for which a slow resolver would hold up the start."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class's
        """Log an error outside the application; a client that left or sent nothing is not one."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            log.error("metrics_request_failed", exc_info=error)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    timeout = CLIENT_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's signature
        """Log nothing: probes come every few seconds."""


def _listening(settings: MetricsSettings) -> _Server:
    kind = _Server6 if ":" in settings.host else _Server
    try:
        return kind((settings.host, settings.port), _QuietHandler)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise ConfigurationError(
                f"metrics.host = {settings.host}: must be an address of this machine: {error.strerror}"
            ) from error
        raise ConfigurationError(
            f"metrics.port = {settings.port}: cannot listen on {settings.host}:{settings.port}:"
            f" {error.strerror}; each worker on a machine needs a port of its own, 0 for none"
        ) from error


def _application(registry: CollectorRegistry, probes: Mapping[str, Probe]) -> WSGIApplication:
    metrics: WSGIApplication = make_wsgi_app(registry)
    known = ", ".join(["/metrics", *probes])

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        try:
            if path == "/metrics":
                return metrics(environ, start_response)
            status, body = (
                _probed(probes[path]) if path in probes else (HTTPStatus.NOT_FOUND, f"there are {known}")
            )
        except Exception:
            log.exception("metrics_request_failed")
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, "the probe failed; see the worker's log"
        start_response(f"{status.value} {status.phrase}", [("Content-Type", TEXT)])
        return [f"{body}\n".encode()]

    return application


def _probed(probe: Probe) -> tuple[HTTPStatus, str]:
    wrong = probe()
    return (HTTPStatus.OK, "ok") if wrong is None else (HTTPStatus.SERVICE_UNAVAILABLE, wrong)
