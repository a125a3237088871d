"""JSON Schemas of the wire types, with the words of their docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any, TypeAlias

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DEFINITIONS = "#/$defs/"

_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)


def schema_of(wire_type: type, *, mode: JsonSchemaMode) -> Schema:
    """Make the schema of a type.

    Args:
        wire_type: A pydantic model or a dataclass.
        mode: `validation` for what is read, `serialization` for what is written: then every field is there.
    """
    schema = TypeAdapter(wire_type).json_schema(
        mode=mode, ref_template=f"{DEFINITIONS}{{model}}", schema_generator=_FromDocstrings
    )
    title, description = schema.pop("title"), schema.pop("description")
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    return {"$schema": DIALECT, "title": title, "description": description, **schema, **definitions}


def descriptions(wire_type: type) -> tuple[str, dict[str, str]]:
    """Read a docstring: what the type is, and what it says of each attribute."""
    text = inspect.cleandoc(wire_type.__doc__ or "")
    summary, _, attributes = text.partition("\n\nAttributes:\n")
    return _one_line(summary), {name: _one_line(about) for name, about in _ATTRIBUTE.findall(attributes)}


class _FromDocstrings(GenerateJsonSchema):
    """Describes types and fields in the words of their docstrings, and leaves out what says nothing."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Add the descriptions of a pydantic model."""
        return _described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """Add the descriptions of a dataclass."""
        return _described(super().dataclass_schema(schema), schema["cls"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Name no defaults: what is absent has the stage's own."""
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the base class's signature
        """Make no titles out of fields' names."""
        return False

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,  # noqa: FBT001 - the base class's signature
    ) -> bool:
        """Say that a field is always there: where it is written, every one is."""
        return self.mode == "serialization" or super().field_is_required(field, total)


def _described(schema: JsonSchemaValue, wire_type: type) -> JsonSchemaValue:
    schema["description"], fields = descriptions(wire_type)
    for name, field in schema.get("properties", {}).items():
        if name in fields:
            field["description"] = fields[name]
    return schema


def _one_line(text: str) -> str:
    return " ".join(text.replace("`None`", "null").split())
