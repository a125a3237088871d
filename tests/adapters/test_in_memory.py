"""The search in memory: the contract, and what its rows must be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from pipeline.adapters.coalescing import coalescing
from pipeline.errors import ConfigurationError
from pipeline.ports import KnowledgeSearchPort
from pipeline.testing.in_memory import InMemorySearch, Row
from pipeline.testing.search_port import (
    TIMEOUT_S,
    ConditionContract,
    SearchPortContract,
    asking,
    ids,
    known_rows,
    toward,
)


class TestInMemorySearch(SearchPortContract, ConditionContract):
    """The contract, over rows with ids of both kinds."""

    @pytest.fixture(params=[False, True], ids=["string ids", "integer ids"])
    def rows(self, request: pytest.FixtureRequest) -> Sequence[Row]:
        """Return the rows that are searched."""
        return known_rows(integer_ids=request.param)

    @pytest.fixture
    async def port(self, rows: Sequence[Row]) -> AsyncIterator[KnowledgeSearchPort]:
        """Yield the started port, over the rows from the farthest to the nearest."""
        port = InMemorySearch(reversed(rows))
        await port.start()
        yield port
        await port.close()


class TestInMemorySearchSharingCalls(TestInMemorySearch):
    """The same through searches that share calls."""

    @pytest.fixture
    async def port(self, rows: Sequence[Row]) -> AsyncIterator[KnowledgeSearchPort]:
        """Yield the started port."""
        port = coalescing(InMemorySearch(reversed(rows)), max_batch_size=8, max_calls=4)
        await port.start()
        yield port
        await port.close()


async def test_equal_rows_keep_their_order() -> None:
    """Among rows that are equally near the one given first is the better."""
    rows = [Row(id=index, content="same", metadata={}, vector=toward(0)) for index in (3, 1, 2)]
    assert await ids(InMemorySearch(rows), asking()) == [3, 1, 2]


async def test_vector_of_zeros_is_near_to_nothing() -> None:
    """A row without direction has score 0, not an error."""
    port = InMemorySearch([Row(id=1, content="zero", metadata={}, vector=(0.0, 0.0, 0.0, 0.0))])
    [hit] = await port.search(asking(), timeout_s=TIMEOUT_S)
    assert hit.score == 0.0


async def test_no_rows_give_no_hits() -> None:
    """An empty knowledge base is no error."""
    port = InMemorySearch([])
    await port.start()
    assert await ids(port, asking()) == []


async def test_rows_of_different_dimensions_stop_the_start() -> None:
    """A mistake in the rows is found before the first search."""
    rows = [Row(id=index, content="x", metadata={}, vector=(1.0,) * index) for index in (2, 3)]
    with pytest.raises(ConfigurationError, match=r"different dimensions: \[2, 3\]"):
        await InMemorySearch(rows).start()
