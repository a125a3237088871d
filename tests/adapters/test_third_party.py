"""A later adapter replaces the search without a change to the pipeline: the contract, by `search.port`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from pipeline.errors import ConfigurationError
from pipeline.ports import KnowledgeSearchPort
from pipeline.testing.in_memory import Row
from pipeline.testing.search_port import ConditionContract, SearchPortContract, known_rows
from streams.settings.model import MilvusSettings, SearchSettings, Settings
from streams.worker.bootstrap import running_search


class TestThirdPartySearch(SearchPortContract, ConditionContract):
    """The contract, over a port that only a setting names."""

    @pytest.fixture(params=["strings", "integers"])
    def ids(self, request: pytest.FixtureRequest) -> str:
        """Which kind of ids the rows have."""
        return str(request.param)

    @pytest.fixture
    def rows(self, ids: str) -> Sequence[Row]:
        """Return the rows that are searched."""
        return known_rows(integer_ids=ids == "integers")

    @pytest.fixture
    async def port(self, ids: str) -> AsyncIterator[KnowledgeSearchPort]:
        """Yield the started port."""
        settings = Settings(
            search=SearchSettings(port="tests.adapters.third_party:create"),
            milvus=MilvusSettings(collection=ids),
        )
        async with running_search(settings, None) as port:
            yield port


@pytest.mark.parametrize("name", ["nobody.knows:it", "tests.adapters.third_party:nothing", "no-colon", ":"])
async def test_factory_that_is_not_there_is_named(name: str) -> None:
    """One line with the setting, its value and what is allowed."""
    with pytest.raises(ConfigurationError, match=r"must be 'milvus-dense' or 'package\.module:factory'"):
        async with running_search(Settings(search=SearchSettings(port=name)), None):
            pass
