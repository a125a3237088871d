"""Where two results part: the first field, by its path, and what it holds on either side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_SHOWN_CHARS = 60
CONTEXT_CHARS = 15
ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDifference:
    """A field that two JSON values have otherwise.

    Attributes:
        path: Where it is, such as `evidence[0].score`.
        recorded: What was recorded, as JSON, shortened to where the two part.
        replayed: What came now, likewise.
    """

    path: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"{self.path}: recorded {self.recorded}, now {self.replayed}"


def first_difference(recorded: Any, replayed: Any, path: str = "") -> ResultDifference | None:
    """Find the first field that differs, in the recorded order; `None` where the values are the same JSON.

    Numbers that are equal but written otherwise differ, as do objects with their fields in another order.
    """
    if isinstance(recorded, Mapping) and isinstance(replayed, Mapping):
        return _between_objects(recorded, replayed, path)
    if isinstance(recorded, Sequence) and isinstance(replayed, Sequence) and not _is_text(recorded, replayed):
        return _between_lists(recorded, replayed, path)
    return _between(_json(recorded), _json(replayed), path)


def _between_objects(
    recorded: Mapping[str, Any], replayed: Mapping[str, Any], path: str
) -> ResultDifference | None:
    for name in (*recorded, *(name for name in replayed if name not in recorded)):
        inside = f"{path}.{name}" if path else name
        if name not in recorded or name not in replayed:
            was, now = (_json(side[name]) if name in side else ABSENT for side in (recorded, replayed))
            return _between(was, now, inside)
        found = first_difference(recorded[name], replayed[name], inside)
        if found is not None:
            return found
    return _between(
        _json(list(recorded)), _json(list(replayed)), f"order of the fields of {path or 'the result'}"
    )


def _between_lists(recorded: Sequence[Any], replayed: Sequence[Any], path: str) -> ResultDifference | None:
    for index in range(max(len(recorded), len(replayed))):
        inside = f"{path}[{index}]"
        if index >= min(len(recorded), len(replayed)):
            was, now = (_json(side[index]) if index < len(side) else ABSENT for side in (recorded, replayed))
            return _between(was, now, inside)
        found = first_difference(recorded[index], replayed[index], inside)
        if found is not None:
            return found
    return None


def _between(recorded: str, replayed: str, path: str) -> ResultDifference | None:
    if recorded == replayed:
        return None
    pairs = enumerate(zip(recorded, replayed, strict=False))
    parting = next((place for place, (was, now) in pairs if was != now), min(len(recorded), len(replayed)))
    start = max(0, parting - CONTEXT_CHARS)
    return ResultDifference(path=path, recorded=_shown(recorded, start), replayed=_shown(replayed, start))


def _shown(text: str, start: int) -> str:
    end = start + MAX_SHOWN_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _is_text(*values: object) -> bool:
    return any(isinstance(value, str) for value in values)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
