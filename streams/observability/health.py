"""Whether a worker lives and whether it is ready, judged from what was last seen of it."""

from __future__ import annotations

from typing import Protocol

from streams.observability.state import WorkerState
from streams.settings.model import Settings
from streams.stage.stage import MOST_FAILURES_ALONE

MOST_SECONDS_UNSEEN = 30.0
"""The event loop shows itself every second; one that does not for so long is stuck."""

STALL_MARGIN_S = 30.0
"""Seconds a request may take longer than its deadlines add up to, before its worker counts as stuck."""


class Judge(Protocol):
    """Says what is wrong with a worker, or `None`."""

    def __call__(self, state: WorkerState, now: float, *, longest_stall_s: float) -> str | None:
        """Judge from what was last seen of it, at a moment of the monotonic clock."""


def longest_stall(settings: Settings) -> float:
    """Return the seconds for which offsets may stand still in a worker that is not stuck.

    That is the longest that one request may take: searching and publishing, and in a worker that waits for
    its search, searching again as often as it does.
    """
    tries = 1 + MOST_FAILURES_ALONE if settings.stage.when_search_is_down == "wait" else 1
    return settings.search.timeout * tries + settings.stage.publish_timeout + STALL_MARGIN_S


def why_not_live(state: WorkerState, now: float, *, longest_stall_s: float) -> str | None:
    """Return why a worker should be killed; `None` where it should not.

    Args:
        state: What was last seen of it.
        now: Seconds of the monotonic clock.
        longest_stall_s: Seconds for which offsets may stand still although there is work.
    """
    unseen = now - state.seen_at
    if unseen > MOST_SECONDS_UNSEEN:
        return f"the event loop has not run for {unseen:.0f} s"
    if state.stalled_s > longest_stall_s:
        return f"no offset has moved for {state.stalled_s:.0f} s although there is work"
    return None


def why_not_ready(state: WorkerState, now: float, *, longest_stall_s: float) -> str | None:
    """Return why a worker cannot answer requests now; `None` where it can."""
    if state.leaving:
        return "the worker is leaving"
    if not state.joined:
        return "no partitions are assigned yet"
    down = [engine for engine, circuit in state.circuits.items() if circuit != "closed"]
    if down:
        return f"the {' and the '.join(down)} cannot be reached"
    return why_not_live(state, now, longest_stall_s=longest_stall_s)
