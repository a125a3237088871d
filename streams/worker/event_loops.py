"""Which event loop a worker runs on."""

from __future__ import annotations

import asyncio


def use_fastest() -> None:
    """Let every event loop of this process, Faust's threads' too, be uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
