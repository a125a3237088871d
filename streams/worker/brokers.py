"""How Faust reaches the brokers: settings become its addresses and credentials."""

from __future__ import annotations

import faust

from streams.kafka.connection import client_arguments
from streams.settings.model import KafkaSettings


def broker_urls(kafka: KafkaSettings) -> list[str]:
    """Return the brokers' addresses as Faust names them."""
    return [f"kafka://{server.strip()}" for server in kafka.bootstrap_servers.split(",")]


def broker_credentials(kafka: KafkaSettings) -> faust.types.auth.CredentialsT | None:
    """Return what Faust needs to connect, `None` for plaintext.

    Raises:
        ConfigurationError: A certificate or key file cannot be used.
    """
    arguments = client_arguments(kafka)
    context = arguments.get("ssl_context")
    if "sasl_mechanism" in arguments:
        return faust.SASLCredentials(
            username=arguments["sasl_plain_username"],
            password=arguments["sasl_plain_password"],
            mechanism=arguments["sasl_mechanism"],
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context)
