"""The files of the contract."""

from __future__ import annotations

from typing import Any

import orjson

from streams.contract.asyncapi import asyncapi_document
from streams.contract.schemas import (
    dead_letter_headers_schema,
    recording_schema,
    request_schema,
    result_schema,
)
from streams.settings.model import KafkaSettings, RagSettings


def contract_files(kafka: KafkaSettings, rag: RagSettings) -> dict[str, dict[str, Any]]:
    """Return the contract of a stage with these settings: file names and JSON objects."""
    return {
        "asyncapi.json": asyncapi_document(kafka, rag),
        "lookup-request.schema.json": request_schema(rag),
        "lookup-result.schema.json": result_schema(),
        "dead-letter-headers.schema.json": dead_letter_headers_schema(),
        "recording.schema.json": recording_schema(),
    }


def written(content: dict[str, Any]) -> bytes:
    """Return the bytes of one of the files."""
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
