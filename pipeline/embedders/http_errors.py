"""What an embedding endpoint's HTTP status means, each class of it in one table.

| status | error | asked again | moves the circuit |
|---|---|---|---|
| 4xx, as 400, 401, 403, 404, 409, 413, 422 | `SearchFailed` | if the probe fails | if the probe fails |
| 408, 504 | `SearchTimeout` | yes | if the probe fails |
| 425, 429, 503 | `SearchUnavailable` | yes, not before `Retry-After` is over | yes |
| 502 | `SearchFailed` | yes | if the probe fails |
| any other 5xx | `SearchFailed` | yes | if the probe fails |
| 1xx, 3xx, which is not followed | `SearchUnavailable` | yes | yes |

If the probe, a text that was embedded at the start, is answered, a `SearchFailed` becomes a rejection of the
request, whose dead letter is not retryable; only 502 stays unavailability, for gateways do not look at texts.
If the probe fails too, it is an outage: of the embedder, or of its configuration, as a refused key is.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from pipeline.errors import SearchError, SearchFailed, SearchTimeout, SearchUnavailable

MAX_RETRY_AFTER_S = 3_600.0

_WORDS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "the embedder refuses the API key",
    HTTPStatus.FORBIDDEN: "the embedder refuses access",
    HTTPStatus.NOT_FOUND: "the embedder has no such address or model",
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED: "a proxy before the embedder asks for a password",
    HTTPStatus.CONFLICT: "the embedder reports a conflict",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the embedder refused the request as too large",
    HTTPStatus.TOO_EARLY: "the embedder is not ready yet",
    HTTPStatus.TOO_MANY_REQUESTS: "the embedder is overloaded",
    HTTPStatus.SERVICE_UNAVAILABLE: "the embedder is not available",
    **dict.fromkeys(range(300, 400), "the embedder redirects, which is not followed"),
    HTTPStatus.REQUEST_TIMEOUT: "the embedder did not answer in time",
    HTTPStatus.GATEWAY_TIMEOUT: "the embedder did not answer in time",
}
_TIMEOUTS = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.GATEWAY_TIMEOUT}
_LATER = {HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_SUCCESS, _CLIENT_ERRORS, _SERVER_ERRORS = range(200, 300), range(400, 500), range(500, 1_000)


def status_error(status: int, headers: Mapping[str, str]) -> SearchError | None:
    """Return the error of a status, or `None` where the body has to be read.

    Args:
        status: Of the response.
        headers: Of the response, with names in lower case.
    """
    return None if status in _SUCCESS else _error(status, headers.get("retry-after"))


def _error(status: int, retry_after: str | None) -> SearchError:
    said = f"{_words(status)} (HTTP {status})"
    if status in _TIMEOUTS:
        return SearchTimeout(said)
    if status in _LATER:
        later = SearchUnavailable(said)
        later.retry_after_s = retry_after_s(retry_after)
        return later
    if status in _CLIENT_ERRORS:
        return SearchFailed.maybe_refused(said, said, repeats=True)
    if status == HTTPStatus.BAD_GATEWAY:
        return SearchFailed(said)
    if status in _SERVER_ERRORS:
        return SearchFailed.maybe_refused(said, f"the embedder fails on the request (HTTP {status})")
    return SearchUnavailable(said)


def _words(status: int) -> str:
    if status in _CLIENT_ERRORS:
        return _WORDS.get(status, "the embedder refused the request")
    return _WORDS.get(status, "the embedder failed")


def retry_after_s(value: str | None, *, now: dt.datetime | None = None) -> float | None:
    """Read a `Retry-After` header: seconds, or a date.

    Args:
        value: Of the header; `None` if there is none.
        now: The time against which a date is held; `None` for the clock's.

    Returns:
        Seconds from 0 to `MAX_RETRY_AFTER_S`, or `None` if the value is neither.
    """
    seconds = _seconds(value or "", now)
    return None if seconds is None else min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def _seconds(value: str, now: dt.datetime | None) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(value, now)
    return seconds if math.isfinite(seconds) else None


def _seconds_until(value: str, now: dt.datetime | None) -> float | None:
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=dt.UTC)
    return (at - (now or dt.datetime.now(dt.UTC))).total_seconds()
