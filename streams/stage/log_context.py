"""Which request the work at hand is about, so that log lines can say it.

It is kept in the context of the request's task, and looked at only where a line is logged.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any

MOST_ID_CHARS = 200
"""An id that is longer is none, and contexts outlive their requests: timers keep them."""

_request: ContextVar[tuple[int, int, str | None] | None] = ContextVar("request", default=None)


def work_is_about(partition: int, offset: int, request_id: str | None = None) -> None:
    """Says which record the current task works on, and whose request it is once that is known."""
    _request.set((partition, offset, None if request_id is None else request_id[:MOST_ID_CHARS]))


def add_request(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Adds partition, offset and request id to a log line about a request."""
    request = _request.get()
    if request is not None:
        line["partition"], line["offset"], request_id = request
        if request_id is not None:
            line["request_id"] = request_id
    return line
