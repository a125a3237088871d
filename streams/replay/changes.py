"""Other limits for recorded lookups: what a stage configured otherwise would have made of the same hits."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import orjson

from pipeline.errors import ConfigurationError
from pipeline.limits import configured_widths
from pipeline.model import Budget, Limits, Lookup, PathHits
from streams.recordings.recording import RecordedPath, Recording, RecordingUnreadable
from streams.recordings.requests import request_value
from streams.settings.model import ProjectionSettings, RagSettings
from streams.wire.decoding import RequestUnreadable, decode_request
from streams.wire.request_rules import RequestRules, check
from streams.wire.requests import RequestInvalid
from streams.wire.results import encode_result, rejected_result


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """Values that are set otherwise. What a request asks for itself goes before them, as in the stage.

    Attributes:
        widths: New values of `Limits`, by field.
        budget: New values of `Budget`, by field.
        max_width: Upper bound of what requests may ask for.
    """

    widths: dict[str, int]
    budget: dict[str, int]
    max_width: int

    def __call__(self, recording: Recording) -> Recording:
        """Return the recording as the stage would have made it.

        A request that asks for more than the new limits allow is rejected.

        Raises:
            RecordingUnreadable: The request in it is none.
            ConfigurationError: It takes a search to know: more hits than were recorded are asked for; or
                `rag.return-n` would be greater than `rag.retrieve-k`.
        """
        if recording.limits is None or recording.budget is None:
            return recording
        try:
            lookup = self._lookup(recording, recording.limits, recording.budget)
        except RequestInvalid as error:
            return replace(recording, paths=(), limits=None, budget=None, result=_rejected(error))
        paths = recording.paths and _narrowed(recording, lookup.limits.retrieve_k)
        return replace(recording, paths=paths, limits=lookup.limits, budget=lookup.budget)

    def _lookup(self, recording: Recording, limits: Limits, budget: Budget) -> Lookup:
        rules = RequestRules(
            limits=replace(limits, **self.widths),
            max_width=self.max_width,
            budget=replace(budget, **self.budget),
            tenant_field=None,
            dimension=None,
        )
        try:
            request, lookup = check(decode_request(request_value(recording), recording.headers), rules)
        except RequestUnreadable as error:
            raise RecordingUnreadable(f"request {recording.request_id}: {error}") from error
        widths = rules.limits
        if request.retrieve_k is None and widths.return_n > widths.retrieve_k:
            raise ConfigurationError(
                f"rag.return-n = {widths.return_n} must not be greater than rag.retrieve-k ="
                f" {widths.retrieve_k} (request {recording.request_id})"
            )
        return lookup


def limit_change(rag: RagSettings, projection: ProjectionSettings) -> LimitChange:
    """Make a change of the values that are set; those that are not stay as they were recorded.

    Raises:
        ConfigurationError: A value decides what is searched, so that recorded hits cannot tell.
    """
    if rag.tenant_field is not None:
        raise ConfigurationError(f"--set rag.tenant-field={rag.tenant_field}: changes the search: use --live")
    widths = rag.model_dump(
        include=rag.model_fields_set & {"retrieve_k", "return_n", "max_chunks_per_document"}
    )
    if rag.top_k is not None:
        retrieve_k, return_n = configured_widths(rag.retrieve_k, rag.return_n, rag.top_k)
        widths |= {"retrieve_k": retrieve_k, "return_n": return_n}
    return LimitChange(
        widths=widths,
        budget=projection.model_dump(include=projection.model_fields_set),
        max_width=rag.max_retrieve_k if "max_retrieve_k" in rag.model_fields_set else sys.maxsize,
    )


def _narrowed(recording: Recording, retrieve_k: int) -> tuple[RecordedPath, ...]:
    """Leave of each path the hits that a narrower search would have given: its best."""
    recorded = retrieve_k if recording.limits is None else recording.limits.retrieve_k
    paths = recording.paths or ()
    if retrieve_k > recorded and any(len(path.answer.hits.hits) == recorded for path in paths):
        raise ConfigurationError(
            f"rag.retrieve-k = {retrieve_k}: of request {recording.request_id} the first {recorded} hits were"
            " recorded: use --live"
        )
    return paths if retrieve_k >= recorded else tuple([_cut(path, retrieve_k) for path in paths])


def _cut(path: RecordedPath, retrieve_k: int) -> RecordedPath:
    answer = path.answer
    hits = PathHits(query=answer.query, hits=answer.hits.hits[:retrieve_k])
    return replace(path, answer=replace(answer, hits=hits))


def _rejected(error: RequestInvalid) -> dict[str, Any]:
    members: dict[str, Any] = orjson.loads(encode_result(rejected_result(error)))
    return members
