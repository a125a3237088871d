"""The format of a recording: one lookup with everything its result was made of, as one line of JSON.

Frozen replay is exact: of what `decode` gives back the pure core makes the same bytes as of what was encoded.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from itertools import starmap
from operator import itemgetter
from typing import Any

import orjson

from pipeline.errors import LookupStageError
from pipeline.model import Budget, Limits, PathHits, Problem, SearchHit
from pipeline.outcome import PathAnswer
from pipeline.values import statically_frozen
from streams.kafka.records import Headers
from streams.recordings.exact_json import Written, exact_line, is_plain, plain_line

VERSION = 1

_HIT_VALUES = itemgetter("id", "content", "metadata", "score", "distance", "metric")
"""In the order in which a `SearchHit` takes them."""


class RecordingUnreadable(LookupStageError):
    """Something is not a recording, or not one that this version can read. One line."""


@statically_frozen(frozen=True, slots=True, kw_only=True)
class RecordedPath:
    """One query of the fan-out and what the search said to it.

    Attributes:
        text: The query.
        answer: Its index, its hits as the port returned them, before identity, and its error.
    """

    text: str
    answer: PathAnswer


@statically_frozen(frozen=True, slots=True, kw_only=True)
class Captured:
    """Where and when the request was read.

    Attributes:
        topic: Topic of the request.
        partition: Its partition there.
        offset: Its offset there.
        timestamp_ms: Milliseconds since the epoch, as the topic keeps them.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@statically_frozen(frozen=True, slots=True, kw_only=True)
class RecordedIndex:
    """What was searched.

    Attributes:
        collection: Its name.
        fingerprint: Another one means that the index, or the embedder, is another; `None` where the search
            port tells nothing of it.
    """

    collection: str
    fingerprint: str | None


@statically_frozen(frozen=True, slots=True, kw_only=True)
class Recording:
    """One lookup.

    Attributes:
        request_id: The request's id, from wherever it came.
        request: The request as it was sent, every field of it; empty where `raw` is there.
        raw: The request's bytes where they are not a JSON object, or one for lenient parsers only.
        key: The request's key.
        headers: The request's headers, in order.
        captured: Where the request was read.
        index: What was searched, `None` where nobody knows.
        paths: One for each query, in order; none where the result is not made of hits (`rejected`, `expired`,
            or failed outside the search); `None` where the request alone was recorded.
        limits: The widths in force, `None` where the request was not valid, or recorded alone.
        budget: The budget in force, `None` as with `limits`.
        result: The result as it was published, `None` where the request alone was recorded.
    """

    request_id: str
    request: Mapping[str, Any]
    raw: bytes | None = None
    key: bytes | None
    headers: Headers
    captured: Captured
    index: RecordedIndex | None
    paths: tuple[RecordedPath, ...] | None
    limits: Limits | None
    budget: Budget | None
    result: Mapping[str, Any] | None

    @property
    def answers(self) -> tuple[PathAnswer, ...]:
        """What `pipeline.outcome.conclude` takes: the paths' answers, in order."""
        return tuple([path.answer for path in self.paths or ()])


def encode_recording(
    recording: Recording, *, request: bytes | None = None, result: bytes | None = None
) -> bytes:
    """Return a recording as one line of JSON, without the line's end.

    Numbers that JSON does not know (NaN, infinite) and values that are no JSON become null: no rule takes
    them for anything. Integers of more than 64 bits and lone surrogates stay what they are; a line that has
    any says `"exact": true`, since many parsers would read such integers as floats.

    Args:
        recording: What to write.
        request: The request's JSON, written untouched in the place of `recording.request`.
        result: The result's JSON, written untouched in the place of `recording.result`.
    """
    paths = recording.paths
    members: dict[str, Any] = {
        "v": VERSION,
        "request_id": recording.request_id,
        "request": recording.request if request is None else Written(_in_one_line(request)),
        "raw": _base64(recording.raw),
        "key": _base64(recording.key),
        "headers": [(name, _base64(value)) for name, value in recording.headers],
        "captured": recording.captured,
        "index": recording.index,
        "paths": None if paths is None else [_path_members(path) for path in paths],
        "limits": recording.limits,
        "budget": recording.budget,
        "result": recording.result if result is None else Written(result),
    }
    if all(is_plain(hit) for path in paths or () for hit in path.answer.hits.hits):
        try:
            return plain_line(members)
        except TypeError:
            pass
    return exact_line({"v": VERSION, "exact": True, **members})


def decode_recording(line: bytes) -> Recording:
    """Read a recording.

    Raises:
        RecordingUnreadable: It is none, or of another version.
    """
    try:
        members = _members(line)
    except (ValueError, RecursionError):
        raise RecordingUnreadable("is not JSON") from None
    if not isinstance(members, dict) or "v" not in members:
        raise RecordingUnreadable("is not a recording: it has no field v")
    if members["v"] != VERSION:
        raise RecordingUnreadable(
            f"is of version {members['v']!r:.20}, this lookup-stage reads version {VERSION}"
        )
    try:
        return _recording(members)
    except KeyError as error:
        raise RecordingUnreadable(f"is not a recording: it has no field {error.args[0]}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise RecordingUnreadable(f"is not a recording: {error}") from None


def _recording(members: Mapping[str, Any]) -> Recording:
    paths, limits, budget, index = members["paths"], members["limits"], members["budget"], members["index"]
    request, result = _object(members, "request"), members["result"]
    if not isinstance(members["request_id"], str):
        raise TypeError("request_id is not text")
    if paths and (limits is None or budget is None):
        raise ValueError("it has hits, but no limits or no budget")
    if paths and len({_query(path) for path in paths}) < len(paths):
        raise ValueError("two of its paths are of one query")
    return Recording(
        request_id=members["request_id"],
        request=_as_the_stage_reads(request) if members.get("exact") else request,
        raw=_bytes(members["raw"]),
        key=_bytes(members["key"]),
        headers=tuple([(name, _bytes(value)) for name, value in members["headers"]]),
        captured=Captured(**members["captured"]),
        index=None if index is None else RecordedIndex(**index),
        paths=None if paths is None else tuple([_path(path) for path in paths]),
        limits=None if limits is None else Limits(**_counts(limits)),
        budget=None if budget is None else Budget(**_counts(budget)),
        result=None if result is None else _object(members, "result"),
    )


def hits_of(rows: Iterable[Mapping[str, Any]]) -> tuple[SearchHit, ...]:
    """Read hits from objects that have all fields of one; what else they have is ignored."""
    return tuple(starmap(SearchHit, map(_HIT_VALUES, rows)))


def _query(path: Mapping[str, Any]) -> int:
    query = path["query"]
    if type(query) is not int:
        raise TypeError("the query of a path is not an index")
    return query


def _path(path: Mapping[str, Any]) -> RecordedPath:
    # Straight into the values: replay is to keep up with reading the lines.
    query, error = path["query"], path["error"]
    answer = PathAnswer(
        query=query,
        hits=PathHits(query=query, hits=hits_of(path["hits"])),
        error=None if error is None else Problem(**error),
    )
    return RecordedPath(text=path["text"], answer=answer)


def _path_members(path: RecordedPath) -> dict[str, Any]:
    answer = path.answer
    return {
        "query": answer.query,
        "text": path.text,
        "status": "ok" if answer.error is None else "failed",
        "error": answer.error,
        "hits": answer.hits.hits,
    }


def _members(line: bytes) -> Any:
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError:  # as it does for lone surrogates
        return json.loads(line)
    if isinstance(members, dict) and members.get("exact"):
        return json.loads(line)
    return members


def _as_the_stage_reads(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request's integers over 64 bits as the floats that the stage takes them for."""
    read: Mapping[str, Any] = orjson.loads(json.dumps(request))
    return read


def _object(members: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = members[name]
    if not isinstance(value, dict):
        raise TypeError(f"{name} is not an object")
    return value


def _counts(members: Mapping[str, Any]) -> Mapping[str, int]:
    for name, count in members.items():
        if type(count) is not int or count < 1:
            raise TypeError(f"{name} is not a count")
    return members


def _in_one_line(request: bytes) -> bytes:
    # Outside strings, where JSON escapes them, line ends mean nothing.
    return b" ".join(request.splitlines())


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b2a_base64(value, newline=False).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else a2b_base64(text, strict_mode=True)
