"""How to reach the brokers: settings become arguments of aiokafka's clients."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.helpers import create_ssl_context
from aiokafka.protocol.metadata import MetadataRequest

from pipeline.errors import ConfigurationError
from streams.settings.model import KafkaSettings

CONNECT_TIMEOUT_S = 10.0
PROBE_TIMEOUT_S = 3.0


def client_arguments(kafka: KafkaSettings) -> dict[str, Any]:
    """Return the arguments with which every aiokafka client connects.

    Raises:
        ConfigurationError: A certificate or key file cannot be used, or the brokers are not host:port.
    """
    _brokers(kafka)
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


@asynccontextmanager
async def admin_client(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Connect an admin client.

    Raises:
        ConfigurationError: One line saying why the brokers cannot be reached, and which setting to look at;
            or what they refuse while the client is in use.
    """
    arguments = client_arguments(kafka)
    client = AIOKafkaAdminClient(**arguments, request_timeout_ms=int(CONNECT_TIMEOUT_S * 1000))
    with _quiet(logging.getLogger("aiokafka")):
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await client.start()
        except (KafkaError, OSError, TimeoutError) as error:
            await client.close()
            raise ConfigurationError(await _why_unreachable(kafka, arguments)) from error
    try:
        yield client
    except KafkaError as error:
        raise ConfigurationError(
            f"kafka.bootstrap-servers = {kafka.bootstrap_servers}: the brokers refuse: {error}"
        ) from error
    finally:
        await client.close()


def _brokers(kafka: KafkaSettings) -> list[tuple[str, int]]:
    try:
        return [(host, port) for host, port, _ in collect_hosts(kafka.bootstrap_servers, randomize=False)]
    except ValueError:
        raise ConfigurationError(
            f"kafka.bootstrap-servers = {kafka.bootstrap_servers}: must be host:port, several separated by"
            " commas"
        ) from None


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence a library that logs what it raises: people should read it once, in our own words."""
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


async def _why_unreachable(kafka: KafkaSettings, arguments: dict[str, Any]) -> str:
    """Ask each broker once more: the client, when none takes it, does not say why."""
    del arguments["bootstrap_servers"]
    for host, port in _brokers(kafka):
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await _introduce(host, port, arguments)
        except (KafkaError, OSError, TimeoutError) as error:
            reason = _refusal(kafka, f"{host}:{port}", error)
            if reason is not None:
                return reason
    return f"kafka.bootstrap-servers = {kafka.bootstrap_servers}: no broker can be reached"


async def _introduce(host: str, port: int, arguments: dict[str, Any]) -> None:
    connection = await create_conn(host, port, **arguments)
    try:
        # The first request that a broker refuses from clients that have not said who they are.
        await connection.send(MetadataRequest([]))
    finally:
        connection.close()


def _refusal(kafka: KafkaSettings, broker: str, error: Exception) -> str | None:
    """Return what a broker that is there has against a client; `None` where nothing answers."""
    reason: str | None = None
    protocol = f"kafka.security-protocol = {kafka.security_protocol}"
    match error:
        case ssl.SSLCertVerificationError():
            authority = kafka.ssl_ca_file or "not set, so the system's authorities are trusted"
            reason = f"kafka.ssl-ca-file = {authority}: {broker} is not trusted: {error.verify_message}"
        case ssl.SSLError():
            reason = f"{protocol}: {broker} does not speak TLS, or no version of it that is allowed here"
        case SaslAuthenticationFailed():
            reason = f"{broker} refuses kafka.sasl-username = {kafka.sasl_username} or kafka.sasl-password"
        case UnsupportedSaslMechanismError():
            reason = f"kafka.sasl-mechanism = {kafka.sasl_mechanism}: {broker} does not offer it"
        case IllegalSaslStateError():
            reason = f"{protocol}: {broker} does not ask for SASL"
        case KafkaConnectionError() | ConnectionResetError():
            reason = f"{protocol}: {broker} hangs up; it may expect another protocol, or a client certificate"
    return reason


def _ssl_context(kafka: KafkaSettings) -> ssl.SSLContext:
    """Load the authorities trusted and the client's certificate.

    Raises:
        ConfigurationError: One line that names the setting whose file cannot be used.
    """
    authorities, certificate, key = (
        _readable("ssl-ca-file", kafka.ssl_ca_file),
        _readable("ssl-certificate-file", kafka.ssl_certificate_file),
        _readable("ssl-key-file", kafka.ssl_key_file),
    )
    context: ssl.SSLContext = _trusting("ssl-ca-file", authorities)
    if certificate is None:
        if key is not None:
            raise ConfigurationError(f"kafka.ssl-key-file = {key}: kafka.ssl-certificate-file is not set")
        return context
    _trusting("ssl-certificate-file", certificate)  # OpenSSL's own complaint tells not which file it means
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, _secret(kafka.ssl_key_password) or "")
    except OSError as error:
        raise ConfigurationError(
            f"kafka.ssl-key-file = {key}: must be PEM, belong to kafka.ssl-certificate-file, and open with"
            " kafka.ssl-key-password if it is encrypted"
        ) from error
    return context


def _readable(key: str, file: str | None) -> str | None:
    """Return the file back, once it has been read."""
    if file is not None:
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"kafka.{key} = {file}: cannot be read: {error.strerror}") from error
    return file


def _trusting(key: str, file: str | None) -> ssl.SSLContext:
    try:
        context: ssl.SSLContext = create_ssl_context(cafile=file)
    except OSError as error:
        raise ConfigurationError(f"kafka.{key} = {file}: must hold certificates in PEM form") from error
    return context


def _uses_tls(kafka: KafkaSettings) -> bool:
    return kafka.security_protocol in {"SSL", "SASL_SSL"}


def _uses_sasl(kafka: KafkaSettings) -> bool:
    return kafka.security_protocol.startswith("SASL")


def _secret(value: Any) -> str | None:
    return None if value is None else value.get_secret_value()
