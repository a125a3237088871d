"""The Milvus client library, imported so that its own reading of the environment does no harm.

At import it takes `MILVUS_URI` for an address of its own and refuses the file of a Milvus Lite. That variable
is this product's setting, so the library does not get to see it. Everything here is imported from here.
"""

from __future__ import annotations

import os

_URI_VARIABLE = "MILVUS_URI"

_hidden = os.environ.pop(_URI_VARIABLE, None)
try:
    from pymilvus import AsyncMilvusClient, DataType, MilvusClient, exceptions
    from pymilvus.client.types import LoadState
finally:
    if _hidden is not None:
        os.environ[_URI_VARIABLE] = _hidden

__all__ = ["AsyncMilvusClient", "DataType", "LoadState", "MilvusClient", "exceptions"]
