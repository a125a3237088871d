"""An AsyncAPI 3.0 document of the stage: its topics, what is on them, and what it does with them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from streams.contract.examples import REQUEST, REQUEST_EVENT, example_result
from streams.contract.schemas import (
    LEFT_TO_THE_STAGE,
    dead_letter_headers_schema,
    event_schema,
    recording_schema,
    request_headers_schema,
    request_schema,
    result_headers_schema,
    result_schema,
)
from streams.contract.wire_types import DEFINITIONS
from streams.settings.model import KafkaSettings, RagSettings
from streams.wire.cloud_events import STRUCTURED

ASYNCAPI = "3.0.0"
KAFKA_BINDING = "0.5.0"
JSON = "application/json"

_SCHEMAS = "#/components/schemas/"
_MESSAGES = "#/components/messages/"
_SASL_TYPES = {"PLAIN": "plain", "SCRAM-SHA-256": "scramSha256", "SCRAM-SHA-512": "scramSha512"}


def asyncapi_document(kafka: KafkaSettings, rag: RagSettings) -> dict[str, Any]:
    """Describe a stage with these settings, seen from the stage: it receives requests and sends the rest."""
    return {
        "asyncapi": ASYNCAPI,
        "info": _info(),
        "defaultContentType": JSON,
        "servers": _servers(kafka),
        "channels": _channels(kafka),
        "operations": _operations(kafka),
        "components": {
            "messages": _messages(),
            "schemas": _schemas(rag),
            **_security_schemes(kafka),
        },
    }


def _info() -> dict[str, Any]:
    beyond = "\n".join(f"- {rule}" for rule in LEFT_TO_THE_STAGE)
    return {
        "title": "lookup-stage",
        "version": version("lookup-stage"),
        "description": (
            "Answers lookup requests with projected chunk evidence. Delivery is at-least-once: a repeated"
            " request has an equal result. Every request whose id can be read gets a result, of whatever"
            f" status.\n\nWhat a request is held to beyond what its schema can say:\n{beyond}"
        ),
        "license": {"name": "Apache-2.0"},
    }


def _servers(kafka: KafkaSettings) -> dict[str, Any]:
    secure = kafka.security_protocol.endswith("SSL")
    server: dict[str, Any] = {"protocol": "kafka-secure" if secure else "kafka"}
    if kafka.security_protocol.startswith("SASL"):
        server["security"] = [{"$ref": "#/components/securitySchemes/sasl"}]
    hosts = [host.strip() for host in kafka.bootstrap_servers.split(",")]
    return {f"kafka{number}": {"host": host, **server} for number, host in enumerate(hosts, start=1)}


def _security_schemes(kafka: KafkaSettings) -> dict[str, Any]:
    if not kafka.security_protocol.startswith("SASL"):
        return {}
    return {"securitySchemes": {"sasl": {"type": _SASL_TYPES[kafka.sasl_mechanism]}}}


def _channels(kafka: KafkaSettings) -> dict[str, Any]:
    topics = kafka.topics
    return {
        "requests": _channel(topics.requests, "Questions of agents.", "LookupRequest", "LookupRequestEvent"),
        "results": _channel(topics.results, "Their answers.", "LookupResult"),
        "deadLetters": _channel(
            topics.dead_letters, "Requests without an answer, and why they have none.", "DeadLetter"
        ),
        "recordings": _channel(
            topics.recordings, "Lookups with everything that their results were made of.", "Recording"
        ),
    }


def _channel(topic: str, about: str, *messages: str) -> dict[str, Any]:
    return {
        "address": topic,
        "description": about,
        "messages": {message: {"$ref": _MESSAGES + message} for message in messages},
        "bindings": {"kafka": {"topic": topic, "bindingVersion": KAFKA_BINDING}},
    }


def _operations(kafka: KafkaSettings) -> dict[str, Any]:
    group = {"groupId": {"type": "string", "const": kafka.group_id}, "bindingVersion": KAFKA_BINDING}
    receive = _operation("receive", "requests", "LookupRequest", "LookupRequestEvent") | {
        "bindings": {"kafka": group},
        "reply": {
            "channel": {"$ref": "#/channels/results"},
            "messages": [{"$ref": "#/channels/results/messages/LookupResult"}],
        },
    }
    return {
        "answerRequests": receive,
        "sendDeadLetters": _operation("send", "deadLetters", "DeadLetter"),
        "sendRecordings": _operation("send", "recordings", "Recording"),
    }


def _operation(action: str, channel: str, *messages: str) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"} for message in messages],
    }


def _messages() -> dict[str, Any]:
    return {
        "LookupRequest": _message(
            "A request, as JSON; with the headers of CloudEvents in binary mode or without.",
            headers="LookupRequestHeaders",
            payload="LookupRequest",
            key="Chosen by the agent, such as its session; results carry it too.",
        )
        | {"examples": [{"payload": REQUEST}]},
        "LookupRequestEvent": _message(
            "A request as the data of a CloudEvent in structured mode, one event in a record.",
            headers="LookupRequestHeaders",
            payload="LookupRequestEvent",
            key="Chosen by the agent, such as its session; results carry it too.",
        )
        | {"contentType": STRUCTURED, "examples": [{"payload": REQUEST_EVENT}]},
        "LookupResult": _message(
            "A result, as JSON.",
            headers="LookupResultHeaders",
            payload="LookupResult",
            key="The request's; its id where it has none.",
        )
        | {
            "correlationId": {"location": "$message.payload#/request_id"},
            "examples": [{"payload": example_result()}],
        },
        "DeadLetter": _message(
            "A request that could not be answered with evidence.",
            headers="DeadLetterHeaders",
            payload="DeadLetter",
            key="The request's.",
        )
        | {"contentType": "application/octet-stream"},
        "Recording": _message("A recorded lookup, as JSON.", payload="Recording", key="The request's."),
    }


def _message(about: str, *, payload: str, key: str, headers: str | None = None) -> dict[str, Any]:
    binding = {"key": {"type": "string", "description": key}, "bindingVersion": KAFKA_BINDING}
    message: dict[str, Any] = {"summary": about, "payload": {"$ref": _SCHEMAS + payload}}
    if headers is not None:
        message["headers"] = {"$ref": _SCHEMAS + headers}
    return message | {"bindings": {"kafka": binding}}


def _schemas(rag: RagSettings) -> dict[str, Any]:
    """Return all schemas beside each other; AsyncAPI's own dialect knows every keyword that they use."""
    request = request_schema(rag)
    request["required"].remove("request_id")  # a CloudEvent's id may stand in for it
    together: dict[str, Any] = {
        "DeadLetter": {"description": "The request's value, byte for byte, whatever it is."}
    }
    for schema in (
        request,
        event_schema({"$ref": _SCHEMAS + request["title"]}),
        result_schema(),
        recording_schema(),
        request_headers_schema(),
        result_headers_schema(),
        dead_letter_headers_schema(),
    ):
        together |= schema.pop("$defs", {})
        del schema["$schema"]
        together[schema["title"]] = schema
    pointing: dict[str, Any] = _pointing_at_components(together)
    return pointing


def _pointing_at_components(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: value.replace(DEFINITIONS, _SCHEMAS) if name == "$ref" else _pointing_at_components(value)
            for name, value in schema.items()
        }
    return [_pointing_at_components(each) for each in schema] if isinstance(schema, list) else schema
