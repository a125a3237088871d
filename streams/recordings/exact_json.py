"""JSON of whatever a search port may bring, so that it is read back as what it was.

The fast way is orjson's; this is the way for what it refuses, or writes so that it would be read as another
thing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import orjson

from pipeline.model import SearchHit

_PLAIN = frozenset({str, int, float, bool, type(None), list, dict})
"""What orjson writes as it is read. It writes more, such as a UUID, and that would be read as text."""


_PRODUCT = ("pipeline.", "streams.")
"""Of another's dataclass in a hit's metadata no rule takes anything, as of other values that are no JSON."""


class Written(bytes):
    """JSON that is written already, and stays as it is."""


def plain_line(members: Mapping[str, Any]) -> bytes:
    """Write an object in one line, fast.

    Raises:
        TypeError: There is something in it that only `exact_line` writes.
    """
    return orjson.dumps(members, default=_fragment)


def _fragment(value: object) -> orjson.Fragment:
    if isinstance(value, Written):
        return orjson.Fragment(bytes(value))  # it takes no subclass
    raise TypeError


def is_plain(hit: SearchHit) -> bool:
    """Return whether all that a rule may look at in a hit is read back from orjson's JSON as what it is."""
    metadata = hit.metadata
    return (
        type(hit.id) in _PLAIN
        and type(hit.content) in _PLAIN
        and type(metadata) in _PLAIN
        and (not isinstance(metadata, dict) or all(type(value) in _PLAIN for value in metadata.values()))
    )


def exact_line(members: Mapping[str, Any]) -> bytes:
    """Write an object in one line.

    Integers have any size, lone surrogates are escaped, and null stands for what JSON cannot hold.

    Args:
        members: By name; the values are of JSON's kinds, dataclasses of the product, or JSON that is
            written already.
    """
    written = [b'"%s":%s' % (name.encode(), _dumps(value)) for name, value in members.items()]
    return b"{%s}" % b",".join(written)


def _dumps(value: Any) -> bytes:
    if isinstance(value, Written):
        return value
    text = json.dumps(_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Of a lone surrogate this makes the escape that JSON has for it.
    return text.encode("utf-8", "backslashreplace")


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): _json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    if is_dataclass(value) and type(value).__module__.startswith(_PRODUCT):
        return {field.name: _json(getattr(value, field.name)) for field in fields(value)}
    return None
