"""The worker's side of recordings: which requests are recorded, and what of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson
import structlog

from pipeline.ports import DescribesIndex, KnowledgeSearchPort
from streams.kafka.records import ConsumedRecord, ProducedRecord
from streams.recordings.recording import Captured, RecordedIndex, RecordedPath, Recording, encode_recording
from streams.settings.model import Settings
from streams.stage.answering import Answer
from streams.wire.results import HEADER_REQUEST_ID

log = structlog.get_logger(__name__)

_HASH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Makes recordings of a share of the requests.

    Attributes:
        topic: Where recordings go.
        share: Which share of the requests is recorded, over 0 to 1.
        index: What is searched.
    """

    topic: str
    share: float
    index: RecordedIndex

    def record(self, request: ConsumedRecord, answer: Answer) -> ProducedRecord | None:
        """Make the recording of a request, if it is one of those that are recorded.

        A request without a readable id has no result, and no recording. What goes wrong with a recording must
        not cost the answer, so it is logged.

        Args:
            request: As it was read.
            answer: As it is published.
        """
        if (
            answer.result is None
            or answer.request_id is None
            or not is_sampled(answer.request_id, self.share)
        ):
            return None
        try:
            value = self._encoded(request, answer, answer.request_id)
        except Exception:
            log.exception("recording_failed")
            return None
        return ProducedRecord(
            topic=self.topic,
            key=request.key,
            value=value,
            headers=(("content-type", b"application/json"), (HEADER_REQUEST_ID, answer.request_id.encode())),
        )

    def _encoded(self, request: ConsumedRecord, answer: Answer, request_id: str) -> bytes:
        value, lookup = request.value or b"", answer.lookup
        is_json = lookup is not None or _object(value) is not None
        queries = () if lookup is None else lookup.queries
        recording = Recording(
            request_id=request_id,
            request={},
            raw=None if is_json else value,
            key=request.key,
            headers=request.headers,
            captured=captured(request),
            index=self.index,
            paths=tuple(RecordedPath(text=queries[path.query], answer=path) for path in answer.paths),
            limits=None if lookup is None else lookup.limits,
            budget=None if lookup is None else lookup.budget,
            result=None,
        )
        result = None if answer.result is None else answer.result.value
        return encode_recording(recording, request=value if is_json else None, result=result)


def is_sampled(request_id: str, share: float) -> bool:
    """Return whether a request is in a sample: the same id always is or never is, whoever asks."""
    digest = blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest) < int(share * 256**_HASH_BYTES)


def requested(request: ConsumedRecord, request_id: str) -> Recording:
    """Make the recording of a request alone, which nobody has answered yet."""
    value = request.value or b""
    body = _object(value)
    return Recording(
        request_id=request_id,
        request=body or {},
        raw=value if body is None else None,
        key=request.key,
        headers=request.headers,
        captured=captured(request),
        index=None,
        paths=None,
        limits=None,
        budget=None,
        result=None,
    )


def recorded_index(search: KnowledgeSearchPort, settings: Settings) -> RecordedIndex:
    """Name what is searched, and return it a fingerprint where the port, once started, tells of it."""
    if not isinstance(search, DescribesIndex):
        return RecordedIndex(collection=settings.search.port, fingerprint=None)
    index, embedding = search.index, settings.embedding
    model = embedding.model if embedding.provider == "openai" else None
    told = json.dumps([dict(index.traits), embedding.provider, model], sort_keys=True, default=str)
    digest = blake2b(told.encode(), digest_size=_HASH_BYTES)
    return RecordedIndex(collection=index.collection, fingerprint=digest.hexdigest())


def captured(request: ConsumedRecord) -> Captured:
    """Return where a request was read."""
    return Captured(
        topic=request.topic,
        partition=request.partition,
        offset=request.offset,
        timestamp_ms=request.timestamp_ms,
    )


def _object(value: bytes) -> Mapping[str, Any] | None:
    try:
        body = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None
