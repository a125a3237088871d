"""The Milvus client library, imported so that its own reading of the environment does no harm.

At import it takes `MILVUS_URI` for an address of its own and refuses the file of a Milvus Lite. That variable
is this product's setting, so the library does not get to see it. Everything here is imported from here.
"""

from __future__ import annotations

import os

from pipeline.internals import Member, check_members

_URI_VARIABLE = "MILVUS_URI"

_hidden = os.environ.pop(_URI_VARIABLE, None)
try:
    from pymilvus import AsyncMilvusClient, DataType, MilvusClient, exceptions
    from pymilvus.client.search_result import HybridHits
    from pymilvus.client.types import LoadState
finally:
    if _hidden is not None:
        os.environ[_URI_VARIABLE] = _hidden

__all__ = ["AsyncMilvusClient", "DataType", "LoadState", "MilvusClient", "check_pymilvus", "exceptions"]

MEMBERS = tuple(
    Member(owner=HybridHits, name=name) for name in ("distances", "ids", "lazy_field_data", "start")
)
"""What is relied on of the rows of an answer, whose cells of JSON the client leaves undecoded."""


def check_pymilvus() -> None:
    """Check that pymilvus is made as the adapter expects.

    Raises:
        ConfigurationError: One line naming its version and what differs.
    """
    check_members("pymilvus", MEMBERS)
