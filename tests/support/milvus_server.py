"""Milvus standalone, run from the server binary that the ``milvus`` wheel carries."""

import base64
import http.client
import importlib.util
import json
import logging
import lzma
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import yaml
from pymilvus import MilvusClient
from pymilvus.client.types import LoadState
from pymilvus.exceptions import MilvusException

from tests.support.cache import cached_directory
from tests.support.certificates import ServerCertificate
from tests.support.ports import free_port, free_ports
from tests.support.processes import ServerProcess

_PLACEHOLDER = re.compile(r"\{\{\s*(?P<name>\w+)(?:\(\w+\))?(?::\s*(?P<default>.*?))?\s*\}\}")
_COMPONENTS = ("rootCoord", "proxy", "queryCoord", "queryNode", "indexNode", "dataCoord", "dataNode")
_SESSIONS = "by-dev/meta/session/"
_PROBE_TIMEOUT_S = 2.0

# Its orderly shutdown takes one second or more than twenty, as its components happen to wait for each other,
# and saves nothing: what it has confirmed is in its write-ahead log.
_STOP_GRACE_S = 2.0


class MilvusUnavailable(RuntimeError):
    """Milvus cannot be run here: the message names what is missing."""


class MilvusServer:
    """A Milvus standalone whose ports and data survive restarts; none of its ports is a default one.

    Its ports are open on every interface: this version cannot be bound to loopback. ``start``, ``stop`` and
    ``kill`` block: call them through ``asyncio.to_thread`` where a loop must go on.
    """

    def __init__(
        self,
        data_directory: Path,
        *,
        authorization: bool = False,
        certificate: ServerCertificate | None = None,
    ) -> None:
        """Choose ports and write the configuration; nothing is started.

        Args:
            data_directory: Holds data, logs and configuration; made if need be.
            authorization: Serve only clients that bring ``token``.
            certificate: Serve TLS with this certificate, which must be valid: ``start`` asks through it.
                Clients show none.

        Raises:
            MilvusUnavailable: The wheel is not installed.
        """
        wheel = _wheel_data()
        version = metadata.version("milvus")
        programs = cached_directory(f"milvus-{version}", lambda target: _unpack(wheel, target))
        self._directory = data_directory = data_directory.absolute()
        self._certificate = certificate
        self._port, self._metrics_port, self._etcd_port = free_ports(3)
        self.token = "root:Milvus" if authorization else ""
        for name in ("configs", "data", "logs"):
            (data_directory / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel / "glog.conf", data_directory / "configs")
        self._write_configuration((wheel / "config.yaml.template").read_text())
        self._process = ServerProcess(
            (str(programs / "milvus"), "run", "standalone"),
            directory=data_directory,
            # Milvus lets any environment variable named like a setting override it, so it inherits none.
            environment={
                "PATH": os.defpath,
                "LD_LIBRARY_PATH": str(programs),
                "DEPLOY_MODE": "STANDALONE",
                "METRICS_PORT": str(self._metrics_port),
                "MILVUS_RUN_DIR": str(data_directory / "run"),
            },
        )

    @property
    def uri(self) -> str:
        """Address for clients."""
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Process id of the server while it runs, else None."""
        return self._process.pid

    def start(self, *, deadline_s: float = 120.0) -> None:
        """Start the server and wait until it answers for every collection it had loaded.

        Raises:
            ServerFailed: It exited or was not ready within ``deadline_s``.
        """
        self._process.start(self._is_ready, deadline_s=deadline_s)

    def stop(self) -> None:
        """End the server with SIGTERM, and with SIGKILL if it is still there after a few seconds."""
        self._process.stop(grace_s=_STOP_GRACE_S)

    def kill(self) -> None:
        """End the server with SIGKILL; ``start`` finds its data again."""
        self._process.kill()

    def __enter__(self) -> Self:
        """Start the server."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the server."""
        self.stop()

    def _write_configuration(self, template: str) -> None:
        ports = {name: str(free_port()) for name in re.findall(r"\w+_port\b", template)}
        data = self._directory / "data"
        values = {
            **ports,
            "proxy_port": str(self._port),
            "etcd_port": str(self._etcd_port),
            "etcd_data_dir": str(data / "etcd"),
            "local_storage_dir": str(data),
            "rocksmq_data_dir": str(data / "rocksmq"),
            "system_log_path": "",
        }
        text = _PLACEHOLDER.sub(lambda match: values.get(match["name"], match["default"]), template)
        settings: dict[str, Any] = yaml.safe_load(text)
        etcd = self._directory / "configs" / "etcd.yaml"
        etcd.write_text(yaml.safe_dump(_etcd_settings(self._etcd_port, peer_port=free_port())))
        settings["etcd"]["config"] = {"path": str(etcd)}
        for component in _COMPONENTS:
            settings[component]["ip"] = "127.0.0.1"
        common = settings["common"]
        # A server that comes back from SIGKILL waits for the sessions it left behind to expire.
        common["session"]["ttl"] = 5
        common["security"]["authorizationEnabled"] = bool(self.token)
        if self._certificate is not None:
            common["security"]["tlsMode"] = 1
            settings["tls"]["serverPemPath"] = str(self._certificate.certificate)
            settings["tls"]["serverKeyPath"] = str(self._certificate.key)
        (self._directory / "configs" / "milvus.yaml").write_text(yaml.safe_dump(settings))

    def _is_ready(self) -> bool:
        healthy = _request(self._metrics_port, "GET", "/healthz") is not None
        return healthy and self._is_rid_of_earlier_nodes() and self._answers()

    def _is_rid_of_earlier_nodes(self) -> bool:
        """Whether the sessions a killed process left behind are gone: work given to its nodes would fail."""
        query = {
            "key": _base64(_SESSIONS),
            "range_end": _base64(_SESSIONS[:-1] + chr(ord(_SESSIONS[-1]) + 1)),
            "keys_only": True,
        }
        answer = _request(self._etcd_port, "POST", "/v3/kv/range", json.dumps(query))
        if answer is None:
            return False
        keys = [base64.b64decode(entry["key"]).decode() for entry in json.loads(answer)["kvs"]]
        # A node's name ends in a number that each process takes anew: `querynode-7`.
        kinds = [key.removeprefix(_SESSIONS).partition("-")[0] for key in keys]
        return len(kinds) == len(set(kinds))

    def _answers(self) -> bool:
        try:
            with _quiet_pymilvus(), closing(self._client()) as client:
                for collection in client.list_collections(timeout=_PROBE_TIMEOUT_S):
                    state = client.get_load_state(collection, timeout=_PROBE_TIMEOUT_S)["state"]
                    # A collection counts as loaded before its segments can be searched again.
                    if state != LoadState.NotLoad:
                        client.query(collection, filter="", limit=1, timeout=_PROBE_TIMEOUT_S)
        except (MilvusException, grpc.RpcError):
            return False
        return True

    def _client(self) -> MilvusClient:
        tls = {} if self._certificate is None else {"server_pem_path": str(self._certificate.authority)}
        # pymilvus shares connections by address and token, whatever certificates they were opened with.
        return MilvusClient(self.uri, token=self.token, timeout=_PROBE_TIMEOUT_S, dedicated=True, **tls)


def _request(port: int, method: str, path: str, body: str | None = None) -> bytes | None:
    """Return the body of an answer with status 200, and None for any other and for no answer at all."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PROBE_TIMEOUT_S)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.read() if response.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@contextmanager
def _quiet_pymilvus() -> Iterator[None]:
    """Keep pymilvus from logging a traceback for every call that a starting server refuses."""
    logger = logging.getLogger("pymilvus")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _etcd_settings(port: int, *, peer_port: int) -> dict[str, str | int]:
    """Return the settings of the etcd inside Milvus, which without them takes the two default ports.

    It has no peers to wait for: the short times only let it elect itself sooner (milliseconds).
    """
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return {
        "name": "default",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "heartbeat-interval": 30,
        "election-timeout": 300,
    }


def _wheel_data() -> Path:
    spec = importlib.util.find_spec("milvus")
    if spec is None or spec.origin is None:
        raise MilvusUnavailable("running Milvus needs the `milvus` wheel, which is not installed")
    return Path(spec.origin).parent / "data"


def _unpack(wheel: Path, target: Path) -> None:
    for packed in (wheel / "bin").glob("*.lzma"):
        program = target / packed.stem
        with lzma.open(packed) as source, program.open("wb") as sink:
            shutil.copyfileobj(source, sink)
        program.chmod(0o755)
