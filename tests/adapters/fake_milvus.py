"""A Milvus that answers as it is told, over the real protocol: for failures that none gives on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from pymilvus import DataType
from pymilvus.grpc_gen import common_pb2, milvus_pb2, milvus_pb2_grpc, schema_pb2

_LOADED = 3
_DIMENSION = 4


class FakeMilvus(milvus_pb2_grpc.MilvusServiceServicer):  # type: ignore[misc]
    """One collection as it must be, and searches that all fail in one way.

    Attributes:
        uri: Its address, once it serves.
        searches: How many searches have arrived.
        fails_with: The status that the protocol ends a search with, if any.
        details: The words that go with it.
        status: The status that stands in a search's answer otherwise.
        metric: The metric of its index.
        hangs: Names of the calls that are never answered.
        arrived: Set once a search has arrived.
        given_up: Set once the client has given up a call that hangs.
    """

    def __init__(self) -> None:
        """Make one whose searches find nothing."""
        self.uri = ""
        self.searches = 0
        self.fails_with: grpc.StatusCode | None = None
        self.details = "host-7 said no after 12.3 ms"
        self.status = common_pb2.Status()
        self.metric = "COSINE"
        self.hangs: tuple[str, ...] = ()
        self.arrived = asyncio.Event()
        self.given_up = asyncio.Event()

    async def Connect(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the protocol's
        """Accept every client."""
        return milvus_pb2.ConnectResponse(identifier=1)

    async def DescribeCollection(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        """Have whatever collection is asked for."""
        await self._hang("DescribeCollection")
        size = [common_pb2.KeyValuePair(key="dim", value=str(_DIMENSION))]
        fields = [
            schema_pb2.FieldSchema(name="id", is_primary_key=True, data_type=DataType.VARCHAR),
            schema_pb2.FieldSchema(name="vector", data_type=DataType.FLOAT_VECTOR, type_params=size),
            schema_pb2.FieldSchema(name="content", data_type=DataType.VARCHAR),
            schema_pb2.FieldSchema(name="metadata", data_type=DataType.JSON),
        ]
        return milvus_pb2.DescribeCollectionResponse(
            schema=schema_pb2.CollectionSchema(name=request.collection_name, fields=fields)
        )

    async def DescribeIndex(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        """Have an index."""
        metric = common_pb2.KeyValuePair(key="metric_type", value=self.metric)
        index = milvus_pb2.IndexDescription(index_name="vector", field_name="vector", params=[metric])
        return milvus_pb2.DescribeIndexResponse(index_descriptions=[index])

    async def GetLoadState(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        """Have loaded everything."""
        return milvus_pb2.GetLoadStateResponse(state=_LOADED)

    async def Search(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        """Fail as it is told."""
        self.searches += 1
        self.arrived.set()
        await self._hang("Search")
        if self.fails_with is not None:
            await context.abort(self.fails_with, self.details)
        return milvus_pb2.SearchResults(status=self.status)

    async def _hang(self, call: str) -> None:
        if call in self.hangs:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.set()


@asynccontextmanager
async def fake_milvus() -> AsyncIterator[FakeMilvus]:
    """Yield one that serves on a port of its own."""
    fake = FakeMilvus()
    server = grpc.aio.server()
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(fake, server)
    fake.uri = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield fake
    finally:
        await server.stop(grace=None)
