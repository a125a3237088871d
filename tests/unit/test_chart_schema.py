"""The chart knows the settings: its schema of them is made from the code.

`python -m tests.unit.test_chart_schema` writes that part of `values.schema.json` anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streams.settings.model import Settings
from streams.settings.sources import setting_keys

SCHEMA = Path(__file__).parents[2] / "deploy" / "helm" / "lookup-stage" / "values.schema.json"
NOT_IN_THE_CHART = ("metrics", "kafka.group-instance-id")
"""The chart sets the port itself; and pods of one deployment cannot each have a name that is kept."""


def test_the_schema_of_the_settings_is_that_of_the_code() -> None:
    """Every key that may stand in `config`, with its type; the module writes it anew."""
    assert json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]["config"] == config_schema()


def config_schema() -> dict[str, Any]:
    """Make the schema of `config` out of the settings' own declarations, without secrets."""
    model = Settings.model_json_schema()
    schema = _kebab(model, model["$defs"])
    secrets = (key for key, field in setting_keys(Settings).items() if "SecretStr" in str(field.annotation))
    for key in (*NOT_IN_THE_CHART, *secrets):
        *groups, leaf = key.split(".")
        branch = schema
        for group in groups:
            branch = branch["properties"][group]
        del branch["properties"][leaf]
    return schema


def _kebab(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's schema with the keys' own spelling, and what it refers to in its place."""
    if "$ref" in schema:
        return _kebab(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "properties" in schema:
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                name.replace("_", "-"): _kebab(each, definitions)
                for name, each in schema["properties"].items()
            },
        }
    if "anyOf" in schema:
        # In values, null takes a key away.
        kept = [_kebab(each, definitions) for each in schema["anyOf"] if each.get("type") != "null"]
        return kept[0] if len(kept) == 1 else {"anyOf": kept}
    return {name: value for name, value in schema.items() if name not in {"title", "default", "description"}}


if __name__ == "__main__":
    content = json.loads(SCHEMA.read_text(encoding="utf-8"))
    content["properties"]["config"] = config_schema()
    SCHEMA.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
