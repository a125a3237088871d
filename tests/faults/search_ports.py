"""Search ports for the scenarios, as `search.port: package.module:factory` finds them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from aiokafka.producer.transaction_manager import TransactionManager

from pipeline.errors import SearchUnavailable
from pipeline.model import SearchHit, SearchQuery
from streams.settings.model import Settings
from tests.integration.search_ports import InstantSearch

SWITCH = "SEARCH_IS_DOWN_WHILE"
BATCHES_BEFORE_GAP = 40

_DELAY = re.compile(r"after (\d+) ms")


class PacedSearch(InstantSearch):
    """Takes as long as a query's text says: `after 20 ms`. Else like the instant one."""

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Wait, then answer."""
        delay = _DELAY.search(query.text)
        if delay is not None:
            await asyncio.sleep(int(delay[1]) / 1_000)
        return await super().search(query, timeout_s=timeout_s)


class SwitchedSearch(PacedSearch):
    """Is down for as long as a file exists."""

    def __init__(self, switch: Path) -> None:
        """Initialize with the file."""
        self._switch = switch

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Answer, or say that it is down."""
        if await asyncio.to_thread(self._switch.exists):
            raise SearchUnavailable("it is switched off")
        return await super().search(query, timeout_s=timeout_s)


def paced(settings: Settings) -> PacedSearch:
    """Make the port; needs no setting."""
    del settings
    return PacedSearch()


def switched(settings: Settings) -> SwitchedSearch:
    """Make the port; the environment names the file."""
    del settings
    return SwitchedSearch(Path(os.environ[SWITCH]))


def out_of_sequence(settings: Settings) -> PacedSearch:
    """Make the port, and let this process's producer leave a gap in its sequence after some batches."""
    batches, increment = count(1), TransactionManager.increment_sequence_number

    def leave_gap(self: TransactionManager, partition: object, records: int) -> None:
        increment(self, partition, records + (next(batches) == BATCHES_BEFORE_GAP))

    TransactionManager.increment_sequence_number = leave_gap
    return paced(settings)
