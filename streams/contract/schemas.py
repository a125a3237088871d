"""The JSON Schemas (draft 2020-12) of everything that agents and operators see on the topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

from streams.contract.recording_line import RecordingLine
from streams.contract.wire_types import DIALECT, Schema, descriptions, schema_of
from streams.recordings.recording import VERSION, Recording
from streams.settings.model import RagSettings
from streams.wire.cloud_events import BATCH, HEADER_CONTENT_TYPE, HEADER_EXPIRY_TIME, HEADER_ID, STRUCTURED
from streams.wire.dead_letters import ErrorHeaders, error_header
from streams.wire.requests import MAX_QUERIES, MAX_REQUEST_ID_CHARS, LookupRequest
from streams.wire.results import COPIED_HEADERS, HEADER_REQUEST_ID, HEADER_STATUS, LookupResult, ResultStatus
from streams.wire.rfc3339 import RFC3339_SCHEMA
from streams.wire.trace_context import HEADER_TRACESTATE

LEFT_TO_THE_STAGE = (
    "request_id: required, unless the id of a CloudEvent stands in for it",
    "vector, vectors: the collection's dimension",
    "return_n: not more than the request's own retrieve_k",
    "expires_at: a day that its month has, a leap second only where a day of UTC ends; whether it is past",
    "filter: at most 1,000 values in all its lists together; names with letters beyond ASCII",
    "hints: at most 16 KiB",
    "integers: written without a decimal point, and of at most 64 bits; numbers: in the range of doubles",
    "text: no lone surrogates; the whole: nested less deep than JSON parsers go",
)
"""What the stage asks of a request beyond what its schema can say."""

_WIDTHS = ("retrieve_k", "return_n", "max_chunks_per_document")
_NULL: Schema = {"type": "null"}
_DIGITS: Schema = {"type": "string", "pattern": "^-?[0-9]+$"}


def request_schema(rag: RagSettings) -> Schema:
    """Return the schema of requests: it takes whatever a stage with these settings takes.

    What else the stage refuses is in `LEFT_TO_THE_STAGE`.
    """
    schema = schema_of(LookupRequest, mode="validation")
    for name in _WIDTHS:
        schema["properties"][name]["anyOf"][0]["maximum"] = rag.max_retrieve_k
    schema["allOf"] = [_one_of_query_and_queries(), *_one_vector_for_each_query(), _default_recall(rag)]
    if rag.tenant_field is not None:
        schema["required"].append("tenant")
        schema["properties"]["tenant"]["anyOf"].remove(_NULL)
    return schema


def result_schema() -> Schema:
    """Return the schema of results."""
    schema = schema_of(LookupResult, mode="serialization")
    schema["required"].remove("dropped")
    schema["properties"]["dropped"]["anyOf"].remove(_NULL)
    schema["allOf"] = [
        {"if": _holds("status", {"const": status}), "then": {"properties": rules}}
        for status, rules in _STATUS_RULES.items()
    ]
    return schema


def request_headers_schema() -> Schema:
    """Return the schema of the headers of requests that mean something, their values as text."""
    return _object(
        "LookupRequestHeaders",
        "Headers of a request that mean something; others are kept in its dead letter.",
        {
            HEADER_CONTENT_TYPE: {
                "type": "string",
                "description": (
                    f"{STRUCTURED} for a CloudEvent in structured mode, with or without parameters. {BATCH}"
                    " and other formats of CloudEvents are refused; any other type makes no difference."
                ),
            },
            HEADER_ID: {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_REQUEST_ID_CHARS,
                "description": "CloudEvents' id: stands in for request_id where the value has none.",
            },
            HEADER_EXPIRY_TIME: RFC3339_SCHEMA
            | {
                "description": "CloudEvents' expiry time: stands in for expires_at where the value has none.",
            },
            **_copied_headers(),
        },
        required=(),
    )


def event_schema(request: Schema) -> Schema:
    """Return the schema of a CloudEvent in structured mode that carries a request.

    Args:
        request: Schema of its data.
    """
    text: Schema = {"type": "string", "minLength": 1}
    attributes: dict[str, Schema] = {
        "specversion": {"const": "1.0", "description": "Version of CloudEvents."},
        "id": text
        | {
            "maxLength": MAX_REQUEST_ID_CHARS,
            "description": "Stands in for request_id where the data has none.",
        },
        "source": text | {"description": "Who asks; ignored."},
        "type": text | {"description": "Kind of the event; ignored."},
        "expirytime": RFC3339_SCHEMA
        | {"description": "The expiry time extension: stands in for expires_at where the data has none."},
        "datacontenttype": text
        | {"description": "Type of the data. Text is read as JSON where it is given and is not JSON."},
    }
    data: dict[str, Schema] = {
        "data": {
            "anyOf": [request, {"type": "string"}],
            "description": "The request; as text only under a datacontenttype that is not JSON.",
        },
        "data_base64": {
            "type": "string",
            "contentEncoding": "base64",
            "description": "The JSON of the request in Base64, instead of data.",
        },
    }
    schema = _object(
        "LookupRequestEvent",
        "A CloudEvent in structured mode whose data is a request; other attributes are ignored.",
        attributes | data,
        required=("specversion", "id", "source", "type"),
    )
    return schema | {"oneOf": [{"required": [name]} for name in data]}


def result_headers_schema() -> Schema:
    """Return the schema of the headers of results, their values as text."""
    own: dict[str, Schema] = {
        "content-type": {"const": "application/json"},
        HEADER_REQUEST_ID: {"type": "string", "description": "The request's id."},
        HEADER_STATUS: {"enum": list(get_args(ResultStatus)), "description": "The result's status."},
    }
    return _object("LookupResultHeaders", "Headers of a result.", own | _copied_headers(), required=own)


def dead_letter_headers_schema() -> Schema:
    """Return the schema of the headers that a dead letter has behind the request's own, values as text."""
    summary, about = descriptions(ErrorHeaders)
    types = get_type_hints(ErrorHeaders)
    properties = {
        error_header(field.name): _as_text(types[field.name]) | {"description": about[field.name]}
        for field in fields(ErrorHeaders)
    }
    always = [error_header(field.name) for field in fields(ErrorHeaders) if field.default is MISSING]
    return _object("DeadLetterHeaders", summary, properties, required=always)


def recording_schema() -> Schema:
    """Return the schema of recordings."""
    summary, about = descriptions(Recording)
    schema = schema_of(RecordingLine, mode="serialization") | {"title": "Recording", "description": summary}
    for name, field in schema["properties"].items():
        field.setdefault("description", about.get(name))
    schema["properties"]["v"]["const"] = VERSION
    schema["properties"]["exact"] = {
        "const": True,
        "description": "There where numbers must be read without turning integers into doubles.",
    }
    return schema


_NO_EVIDENCE: Schema = {"maxItems": 0}
_STATUS_RULES: dict[str, dict[str, Schema]] = {
    "ok": {"evidence": {"minItems": 1}, "error": _NULL},
    "empty": {"evidence": _NO_EVIDENCE, "error": _NULL},
    "partial": {"paths": {"minItems": 2}, "error": _NULL},
    "failed": {"evidence": _NO_EVIDENCE, "error": {"$ref": "#/$defs/Problem"}},
    "expired": {"evidence": _NO_EVIDENCE, "paths": {"maxItems": 0}, "error": _NULL},
    "rejected": {"evidence": _NO_EVIDENCE, "limits": _NULL, "error": {"$ref": "#/$defs/Rejection"}},
}
"""What a status says of the other fields."""


def _one_of_query_and_queries() -> Schema:
    return {"oneOf": [_holds("query", {"type": "string"}), _holds("queries", {"type": "array"})]}


def _one_vector_for_each_query() -> list[Schema]:
    several = (
        {
            "if": _holds("queries", {"type": "array", "minItems": count, "maxItems": count}),
            "then": {
                "properties": {"vectors": {"minItems": count, "maxItems": count}}
                | ({"vector": _NULL} if count > 1 else {})
            },
        }
        for count in range(1, MAX_QUERIES + 1)
    )
    return [
        {
            "if": _holds("vector", {"type": "array"}),
            "then": {"properties": {"vectors": _NULL}},
        },
        {
            "if": _holds("query", {"type": "string"}),
            "then": {"properties": {"vectors": {"maxItems": 1}}},
        },
        *several,
    ]


def _default_recall(rag: RagSettings) -> Schema:
    """Bound the return width of a request that says nothing of its recall."""
    return {
        "if": {"properties": {"retrieve_k": _NULL}},
        "then": {"properties": {"return_n": {"maximum": rag.limits.retrieve_k}}},
    }


def _holds(name: str, schema: Schema) -> Schema:
    """Say that a field is there and is like that."""
    return {"required": [name], "properties": {name: schema}}


def _copied_headers() -> dict[str, Schema]:
    about = dict.fromkeys(sorted(COPIED_HEADERS), "Copied from the request to its result.")
    about[HEADER_TRACESTATE] += " Several are joined into one, in order."
    return {name: {"type": "string", "description": text} for name, text in about.items()}


def _as_text(wire_type: Any) -> Schema:
    """Return the schema of the text of a value."""
    if wire_type is bool:
        return {"enum": ["true", "false"]}
    if wire_type in (int, int | None):
        return dict(_DIGITS)
    values = get_args(wire_type)
    return {"enum": list(values)} if values else {"type": "string"}


def _object(title: str, about: str, properties: Mapping[str, Schema], *, required: Iterable[str]) -> Schema:
    return {
        "$schema": DIALECT,
        "title": title,
        "description": about,
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
    }
