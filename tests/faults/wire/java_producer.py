"""Orders sent by Kafka's own Java client, in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.wire.orders import ClientRecord, Delivery, Order
from tests.support.kafka_server import KafkaUnavailable, fetch_kafka

SOURCE = Path(__file__).with_name("OddProducer.java")
STOP_S = 30.0


class JavaProducer:
    """A Java process that takes one order after the other; blocks."""

    def __init__(self, bootstrap: str, topic: str, log_file: Path) -> None:
        """Take the broker's address, the topic, and where the process's complaints go.

        Raises:
            KafkaUnavailable: There is no Java compiler.
        """
        if shutil.which("javac") is None:
            raise KafkaUnavailable("running Kafka's Java producer needs javac, which is not on the PATH")
        # Java compiles a single source file in memory.
        options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dlog4j2.level=OFF")
        self._command = ("java", *options, "-cp", f"{fetch_kafka()}/*", str(SOURCE), bootstrap, topic)
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, order: Order) -> Sequence[Delivery]:
        """Send an order, and return what became of each record.

        Raises:
            RuntimeError: The process has ended.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(_fields(order)).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline().decode()
        if not line:
            raise RuntimeError(f"the Java producer has ended: {self._log_file.read_text()[-2_000:]}")
        return [int(field) if field.isdigit() else field for field in line.rstrip("\n").split("\t")]

    def __enter__(self) -> Self:
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        try:
            # Without orders it ends.
            self._process.communicate(timeout=STOP_S)
        finally:
            self._process.kill()
            self._process.wait()


def _fields(order: Order) -> list[str]:
    records = [_record(record) for record in order.records]
    return [str(order.partition), order.codec.name.lower(), order.ending, *records]


def _record(record: ClientRecord) -> str:
    headers = ",".join(f"{_text(name.encode())}:{_text(value)}" for name, value in record.headers)
    timestamp = "-" if record.timestamp_ms is None else str(record.timestamp_ms)
    return ";".join((timestamp, _text(record.key), _text(record.value), headers))


def _text(data: bytes | None) -> str:
    return "-" if data is None else b64encode(data).decode()
