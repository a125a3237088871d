"""Which request the current task works on, for its log lines."""

from __future__ import annotations

from structlog.contextvars import bind_contextvars, clear_contextvars

MOST_ID_CHARS = 200
"""A longer id is not valid, and contexts outlive their requests: timers keep them."""


def work_is_about(partition: int, offset: int) -> None:
    """Add the record's partition and offset to the log lines of the current task."""
    clear_contextvars()
    bind_contextvars(partition=partition, offset=offset)


def request_is(request_id: str) -> None:
    """Add the request's id, at most 200 characters of it, to the log lines of the current task."""
    bind_contextvars(request_id=request_id[:MOST_ID_CHARS])
