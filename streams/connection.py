"""How to reach the brokers: one place where settings become arguments of aiokafka and Faust."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import faust
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.helpers import create_ssl_context

from pipeline.errors import ConfigurationError
from streams.settings import KafkaSettings

CONNECT_TIMEOUT_S = 10.0


def client_arguments(kafka: KafkaSettings) -> dict[str, Any]:
    """Gives the arguments with which every aiokafka client connects.

    Raises:
        ConfigurationError: A certificate or key file cannot be used.
    """
    arguments: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "security_protocol": kafka.security_protocol,
    }
    if _uses_tls(kafka):
        arguments["ssl_context"] = _ssl_context(kafka)
    if _uses_sasl(kafka):
        arguments |= {
            "sasl_mechanism": kafka.sasl_mechanism,
            "sasl_plain_username": kafka.sasl_username,
            "sasl_plain_password": _secret(kafka.sasl_password),
        }
    return arguments


def broker_urls(kafka: KafkaSettings) -> list[str]:
    """Gives the brokers as Faust names them."""
    return [f"kafka://{server.strip()}" for server in kafka.bootstrap_servers.split(",")]


def broker_credentials(kafka: KafkaSettings) -> faust.types.auth.CredentialsT | None:
    """Gives what Faust needs to connect; `None` for plaintext.

    Raises:
        ConfigurationError: A certificate or key file cannot be used.
    """
    context = _ssl_context(kafka) if _uses_tls(kafka) else None
    if _uses_sasl(kafka):
        return faust.SASLCredentials(
            username=kafka.sasl_username,
            password=_secret(kafka.sasl_password),
            mechanism=kafka.sasl_mechanism,
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context)


@asynccontextmanager
async def admin_client(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Connects an admin client.

    Raises:
        ConfigurationError: One line saying why the brokers cannot be reached.
    """
    client = AIOKafkaAdminClient(**client_arguments(kafka), request_timeout_ms=int(CONNECT_TIMEOUT_S * 1000))
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            with _quiet(logging.getLogger("aiokafka")):
                await client.start()
    except (KafkaError, OSError, TimeoutError) as error:
        await client.close()
        raise ConfigurationError(_unreachable(kafka, error)) from error
    try:
        yield client
    finally:
        await client.close()


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silences a library that logs what it raises: people should read it once, in our own words."""
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _unreachable(kafka: KafkaSettings, error: Exception) -> str:
    if isinstance(error, KafkaConnectionError | TimeoutError | OSError) and not isinstance(
        error, ssl.SSLError
    ):
        return f"kafka.bootstrap-servers = {kafka.bootstrap_servers}: no broker can be reached"
    return f"kafka.bootstrap-servers = {kafka.bootstrap_servers}: {' '.join(str(error).split())}"


def _ssl_context(kafka: KafkaSettings) -> ssl.SSLContext:
    try:
        context: ssl.SSLContext = create_ssl_context(
            cafile=kafka.ssl_ca_file,
            certfile=kafka.ssl_certificate_file,
            keyfile=kafka.ssl_key_file,
            password=_secret(kafka.ssl_key_password),
        )
        return context  # noqa: TRY300 - the annotation above types what aiokafka leaves untyped
    except OSError as error:
        raise ConfigurationError(f"the TLS files of kafka.ssl-* cannot be used: {error}") from error


def _uses_tls(kafka: KafkaSettings) -> bool:
    return kafka.security_protocol in {"SSL", "SASL_SSL"}


def _uses_sasl(kafka: KafkaSettings) -> bool:
    return kafka.security_protocol.startswith("SASL")


def _secret(value: Any) -> str | None:
    return None if value is None else value.get_secret_value()
