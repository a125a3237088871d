"""From a recording to one side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson
from pydantic import ValidationError

from pipeline.outcome import conclude
from streams.comparison.sides import Fate, Side, Texts, as_published, fates_of, items_of, texts_of
from streams.recordings.recording import Recording, RecordingUnreadable
from streams.recordings.requests import request_fields
from streams.wire.results import LookupResult, of_members


def result_digest(recording: Recording) -> str:
    """Return a digest that is the same for results that are the same to the byte."""
    return blake2b(_bytes(recording.result), digest_size=16).hexdigest()


def side_of(recording: Recording, *, explain: bool) -> Side:
    """Return what of a recording is compared.

    Args:
        recording: With or without a result.
        explain: Whether to find out what became of the hits that are not in the evidence.

    Raises:
        RecordingUnreadable: Its result is none.
    """
    result = None if recording.result is None else _result(recording.result)
    texts = texts_of(recording.answers)
    return Side(
        request_id=recording.request_id,
        queries=_queries(recording),
        status=None if result is None else result.status,
        error=None if result is None or result.error is None else result.error.code,
        answered=() if result is None else tuple(path.query for path in result.paths if path.status == "ok"),
        items=() if result is None else items_of(result.evidence, texts),
        fates=_fates(recording, result, texts) if explain and result is not None else (),
        limits=recording.limits,
        budget=recording.budget,
        index=_index(recording),
        digest=result_digest(recording),
    )


def _result(members: Mapping[str, Any]) -> LookupResult:
    try:
        return of_members(members)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RecordingUnreadable(f"is not a recording: result.{where}: {first['msg']}") from None


def _fates(recording: Recording, result: LookupResult, texts: Texts) -> tuple[Fate, ...]:
    if recording.limits is None or recording.budget is None:
        return ()
    outcome = conclude(recording.answers, limits=recording.limits, budget=recording.budget)
    return fates_of({item.document_id for item in result.evidence}, outcome, texts)


def _queries(recording: Recording) -> tuple[str, ...]:
    if recording.paths:
        return tuple(as_published(path.text) for path in recording.paths)
    fields = request_fields(recording)
    asked = fields.get("queries", fields.get("query", []))
    return tuple(as_published(str(one)) for one in (asked if isinstance(asked, list) else [asked]))


def _index(recording: Recording) -> str | None:
    index = recording.index
    return None if index is None else f"{index.collection} ({index.fingerprint or 'no fingerprint'})"


def _bytes(result: Mapping[str, Any] | None) -> bytes:
    try:
        return orjson.dumps(result)
    except TypeError:  # integers over 64 bits and lone surrogates
        return repr(result).encode("utf-8", "surrogatepass")
