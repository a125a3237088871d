"""Asking a worker's own port."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from tests.support.ports import free_port

ASK_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What one path answered.

    Attributes:
        status: 0 where nobody listens.
        body: Its text.
    """

    status: int
    body: str


@dataclass(frozen=True, slots=True)
class WorkerPort:
    """The port on which a worker shows itself."""

    number: int = field(default_factory=free_port)

    @property
    def environment(self) -> dict[str, str]:
        """Settings of a worker that listens there."""
        return {"METRICS_PORT": str(self.number)}

    def get(self, path: str) -> Response:
        """Ask for a path."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.number}{path}", timeout=10) as response:
                return Response(status=response.status, body=response.read().decode())
        except urllib.error.HTTPError as error:
            return Response(status=error.code, body=error.read().decode())
        except OSError:
            return Response(status=0, body="")

    def metrics(self) -> dict[str, float]:
        """Return every sample by its series, such as `lookup_requests_total{status="ok"}`."""
        return {
            _series(sample.name, sample.labels): sample.value
            for family in text_string_to_metric_families(self.get("/metrics").body)
            for sample in family.samples
        }

    async def until(self, holds: Callable[[WorkerPort], bool], *, timeout_s: float = 30.0) -> None:
        """Ask again and again until what is expected holds."""
        async with asyncio.timeout(timeout_s):
            while not await asyncio.to_thread(holds, self):  # noqa: ASYNC110 - the worker is another process
                await asyncio.sleep(ASK_INTERVAL_S)


def _series(name: str, labels: dict[str, str]) -> str:
    if not labels:
        return name
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}"
