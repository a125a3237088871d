"""Where spans go: to the exporters that OpenTelemetry's own environment variables name."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Tracer

from pipeline.errors import ConfigurationError
from streams.observability.tracing import SCHEMA_URL

EXPORTERS = "opentelemetry_traces_exporter"
OTLP_BY_PROTOCOL = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
FLUSH_TIMEOUT_S = 5.0
"""Seconds that a worker which ends gives a collector to take the last spans."""


@contextmanager
def exporting() -> Iterator[Tracer]:
    """Yield what makes spans, and export them in the background while the block runs.

    `OTEL_TRACES_EXPORTER` names the exporters, `otlp` by default; `OTEL_EXPORTER_OTLP_*`, `OTEL_BSP_*`,
    `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_TRACES_SAMPLER` mean what their specification
    says.

    Raises:
        ConfigurationError: One line saying which variable has a value that is none.
    """
    provider = TracerProvider(
        # A resource's own name, as the variables give it, wins.
        resource=Resource({SERVICE_NAME: "lookup-stage"}).merge(_resource()),
        shutdown_on_exit=False,
    )
    for name in _exporter_names():
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    try:
        yield provider.get_tracer("lookup-stage", schema_url=SCHEMA_URL)
    finally:
        _end(provider)


def _resource() -> Resource:
    given = Resource.create()
    if str(given.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        known = {key: value for key, value in given.attributes.items() if key != SERVICE_NAME}
        return Resource(known)
    return given


def _exporter_names() -> list[str]:
    names = [name.strip() for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(",")]
    return [name for name in names if name not in {"", "none"}]


def _exporter(name: str) -> SpanExporter:
    if name == "otlp":
        name = _otlp()
    found = [*entry_points(group=EXPORTERS, name=name)]
    if not found:
        known = ", ".join(sorted({each.name for each in entry_points(group=EXPORTERS)} | {"none"}))
        raise ConfigurationError(f"OTEL_TRACES_EXPORTER = {name!r}: must be one of {known}")
    exporter: SpanExporter = found[0].load()()
    return exporter


def _otlp() -> str:
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = os.environ.get(variable)
        if protocol:
            if protocol not in OTLP_BY_PROTOCOL:
                known = " or ".join(OTLP_BY_PROTOCOL)
                raise ConfigurationError(f"{variable} = {protocol!r}: must be {known}")
            return OTLP_BY_PROTOCOL[protocol]
    return OTLP_BY_PROTOCOL["http/protobuf"]


def _end(provider: TracerProvider) -> None:
    """Export what is left, in a thread: a collector that is gone must not hold up the worker's end."""
    ending = threading.Thread(target=provider.shutdown, name="tracing", daemon=True)
    ending.start()
    ending.join(FLUSH_TIMEOUT_S)
