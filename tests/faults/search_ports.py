"""Search ports for the scenarios, as `search.port: package.module:factory` finds them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import count

from aiokafka.producer.transaction_manager import TransactionManager

from pipeline.model import SearchHit, SearchQuery
from streams.settings import Settings
from tests.integration.search_ports import InstantSearch

BATCHES_BEFORE_GAP = 40

_DELAY = re.compile(r"after (\d+) ms")


class PacedSearch(InstantSearch):
    """Takes as long as a query's text says: `after 20 ms`. Else like the instant one."""

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Waits, then answers."""
        delay = _DELAY.search(query.text)
        if delay is not None:
            await asyncio.sleep(int(delay[1]) / 1_000)
        return await super().search(query, timeout_s=timeout_s)


def paced(settings: Settings) -> PacedSearch:
    """Makes the port; needs no setting."""
    del settings
    return PacedSearch()


def out_of_sequence(settings: Settings) -> PacedSearch:
    """Makes the port, and lets this process's producer leave a gap in its sequence after some batches."""
    batches, increment = count(1), TransactionManager.increment_sequence_number

    def leave_gap(self: TransactionManager, partition: object, records: int) -> None:
        increment(self, partition, records + (next(batches) == BATCHES_BEFORE_GAP))

    TransactionManager.increment_sequence_number = leave_gap
    return paced(settings)
