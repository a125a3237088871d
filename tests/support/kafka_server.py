"""Apache Kafka on loopback: one node in KRaft mode, run from the jars of Maven Central."""

import base64
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.cache import cached_directory
from tests.support.kafka_security import KafkaSecurity
from tests.support.ports import free_ports
from tests.support.processes import ServerFailed, ServerProcess

KAFKA_VERSION = "4.4.0"

# In the minutes a test run lasts, the optimising compiler and the concurrent collector take more of the
# processor than they give back: without them the broker starts sooner and carries more records a second.
_JVM_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_FETCH_DEADLINE_S = 600.0
_FORMAT_DEADLINE_S = 60.0
_PROBE_TIMEOUT_S = 1.0

# Kafka brings log4j but no binding of slf4j to it, and without one it logs nothing.
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lookup-stage</groupId>
  <artifactId>kafka-server</artifactId>
  <version>{KAFKA_VERSION}</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>2.25.5</version>
    </dependency>
  </dependencies>
</project>
"""

_LOGGING = {
    "status": "error",
    "appender.file.type": "File",
    "appender.file.name": "file",
    "appender.file.layout.type": "PatternLayout",
    "appender.file.layout.pattern": "[%d] %p %m (%c)%n",
    "rootLogger.level": "INFO",
    "rootLogger.appenderRef.file.ref": "file",
}

# One node holds every replica, and one partition of each internal topic is enough for a test's groups.
_ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    # A broker that comes back from SIGKILL may only register once the session it left behind has expired.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    # Tests send records of any time: what is old must not be deleted while they read.
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


class KafkaUnavailable(RuntimeError):
    """Kafka cannot be run here: the message names what is missing or which step failed."""


class KafkaServer:
    """A broker with its controller in one process, on ports and data that survive restarts.

    ``start``, ``stop`` and ``kill`` block: call them through ``asyncio.to_thread`` where a loop must go on.
    """

    def __init__(
        self,
        data_directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        security: KafkaSecurity | None = None,
        proxy_port: int | None = None,
    ) -> None:
        """Choose ports and write the configuration; nothing is started, but the jars are fetched if need be.

        Args:
            data_directory: Holds data, logs and configuration; made if need be.
            properties: Server properties that add to or replace the defaults.
            security: Adds a listener with a port of its own; the plain one stays.
            proxy_port: Adds a listener for a proxy on that loopback port: clients who ask it are sent there.

        Raises:
            KafkaUnavailable: Java is missing, or the jars are and cannot be fetched.
        """
        self._java = _find("java")
        self._libraries = fetch_kafka()
        self._directory = data_directory = data_directory.absolute()
        self._security = security
        self._proxy_port = proxy_port
        self._port, self._controller_port, self._secure_port, self._proxied_port = free_ports(4)
        data_directory.mkdir(parents=True, exist_ok=True)
        log = data_directory / "server.log"
        logging = self._write("log4j2.properties", {**_LOGGING, "appender.file.fileName": str(log)})
        self._properties = self._write("server.properties", {**self._defaults(), **(properties or {})})
        self._process = ServerProcess(
            (*self._jvm(f"-Dlog4j2.configurationFile={logging}"), "kafka.Kafka", str(self._properties)),
            directory=data_directory,
            environment=os.environ,
            logs=(log,),
        )

    @property
    def bootstrap(self) -> str:
        """Address of the plain listener."""
        return f"127.0.0.1:{self._port}"

    @property
    def secure_bootstrap(self) -> str:
        """Address of the secure listener.

        Raises:
            ValueError: The server was made without ``security``.
        """
        if self._security is None:
            raise ValueError("this server has no secure listener")
        return f"127.0.0.1:{self._secure_port}"

    @property
    def proxied_bootstrap(self) -> str:
        """Address of the listener that a proxy relays to.

        Raises:
            ValueError: The server was made without ``proxy_port``.
        """
        self._require_proxy()
        return f"127.0.0.1:{self._proxied_port}"

    @property
    def proxy_address(self) -> str:
        """Address where clients of that listener look for the proxy.

        Raises:
            ValueError: The server was made without ``proxy_port``.
        """
        self._require_proxy()
        return f"127.0.0.1:{self._proxy_port}"

    @property
    def pid(self) -> int | None:
        """Process id of the broker while it runs, else None."""
        return self._process.pid

    def start(self, *, deadline_s: float = 60.0) -> None:
        """Start the broker, formatting its storage the first time, and wait until it serves every partition.

        Raises:
            ServerFailed: It exited or was not ready within ``deadline_s``.
        """
        if not (self._directory / "data" / "meta.properties").exists():
            self._format()
        self._process.start(self._is_ready, deadline_s=deadline_s)

    def stop(self) -> None:
        """Shut the broker down in order, and kill it if that takes more than 30 s."""
        self._process.stop(grace_s=30.0)

    def kill(self) -> None:
        """End the broker with SIGKILL; ``start`` finds its data again."""
        self._process.kill()

    def __enter__(self) -> Self:
        """Start the broker."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the broker."""
        self.stop()

    def _require_proxy(self) -> None:
        if self._proxy_port is None:
            raise ValueError("this server has no listener for a proxy")

    def _defaults(self) -> dict[str, str]:
        ports = {"PLAINTEXT": self._port, "CONTROLLER": self._controller_port}
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        secure: dict[str, str] = {}
        if self._security is not None:
            ports["SECURE"] = self._secure_port
            protocols["SECURE"] = self._security.protocol
            secure = self._security.listener_properties("SECURE", self._directory)
        advertised: dict[str, str] = {}
        if self._proxy_port is not None:
            elsewhere = ports | {"PROXIED": self._proxy_port}
            del elsewhere["CONTROLLER"]
            advertised = {"advertised.listeners": _addresses(elsewhere)}
            ports["PROXIED"], protocols["PROXIED"] = self._proxied_port, "PLAINTEXT"
        return {
            **_ONE_NODE,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": _addresses(ports),
            **advertised,
            "listener.security.protocol.map": ",".join(f"{name}:{what}" for name, what in protocols.items()),
            "log.dirs": str(self._directory / "data"),
            **secure,
        }

    def _write(self, name: str, properties: Mapping[str, str]) -> Path:
        path = self._directory / name
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def _jvm(self, *options: str) -> tuple[str, ...]:
        return (self._java, *_JVM_OPTIONS, *options, "-cp", f"{self._libraries}/*")

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        credentials = self._security.scram_credentials() if self._security is not None else ()
        command = (
            *self._jvm("-Dlog4j2.level=OFF"),
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={cluster_id}",
            f"--config={self._properties}",
            *(f"--add-scram={credential}" for credential in credentials),
        )
        try:
            _run(command, deadline_s=_FORMAT_DEADLINE_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise ServerFailed(f"formatting Kafka's storage failed: {error}\n{error.output}") from error

    def _is_ready(self) -> bool:
        """Whether the broker answers and leads every partition, also those found again after a crash."""
        client = AdminClient(
            {"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 100, "log_level": 0}
        )
        try:
            cluster = client.list_topics(timeout=_PROBE_TIMEOUT_S)
        except KafkaException:
            return False
        leaders = {part.leader for topic in cluster.topics.values() for part in topic.partitions.values()}
        return bool(cluster.brokers) and leaders <= set(cluster.brokers)


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def fetch_kafka() -> Path:
    """Return the directory of Kafka's jars, fetching them from Maven Central the first time.

    Raises:
        KafkaUnavailable: Maven is missing, or the fetch failed.
    """
    return cached_directory(f"kafka-{KAFKA_VERSION}", _fetch_jars) / "libs"


def _fetch_jars(directory: Path) -> None:
    maven = _find("mvn")
    pom = directory / "pom.xml"
    pom.write_text(_POM)
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={directory / 'libs'}")
    try:
        _run((maven, "-q", "-B", "-f", str(pom), *goal), deadline_s=_FETCH_DEADLINE_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise KafkaUnavailable(f"fetching Kafka {KAFKA_VERSION} failed: {error}\n{error.output}") from error


def _run(command: Sequence[str], *, deadline_s: float) -> None:
    subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=deadline_s, check=True
    )


def _find(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise KafkaUnavailable(f"running Kafka needs {program}, which is not on the PATH")
    return path
