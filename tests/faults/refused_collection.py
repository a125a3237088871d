"""A collection of many types of fields: `python -m tests.faults.refused_collection URI NAME`.

Run as a process of its own: Milvus Lite gives its file to one process at a time.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from pymilvus import DataType, MilvusClient

DIMENSION, ROWS = 8, 2_000
PATIENCE_S = 120.0


def create(uri: str, name: str) -> None:
    """Make the collection, with an index that is in use, and fill it."""
    client: Any = MilvusClient(uri=uri)
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=True)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=64)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIMENSION)
    schema.add_field("content", DataType.VARCHAR, max_length=256)
    schema.add_field("docId", DataType.VARCHAR, max_length=64)
    schema.add_field("chunkIndex", DataType.INT64)
    schema.add_field("small", DataType.INT8)
    schema.add_field("weight", DataType.FLOAT)
    schema.add_field("exact", DataType.DOUBLE)
    schema.add_field("draft", DataType.BOOL)
    schema.add_field("extra", DataType.JSON)
    schema.add_field("tags", DataType.ARRAY, element_type=DataType.INT64, max_capacity=8)
    schema.add_field("names", DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=8, max_length=64)
    index = MilvusClient.prepare_index_params()
    index.add_index("vector", index_type="HNSW", metric_type="COSINE", params={"M": 8, "efConstruction": 64})
    client.create_collection(name, schema=schema, index_params=index)
    client.insert(name, [_row(number) for number in range(ROWS)])
    client.flush(name)
    give_up = time.monotonic() + PATIENCE_S
    while client.describe_index(name, "vector").get("pending_index_rows"):
        if time.monotonic() > give_up:
            raise TimeoutError("the index is not built")
        time.sleep(0.2)
    client.release_collection(name)
    client.load_collection(name)
    client.close()


def drop(uri: str, name: str) -> None:
    """Remove the collection."""
    client: Any = MilvusClient(uri=uri)
    client.drop_collection(name)
    client.close()


def _row(number: int) -> dict[str, object]:
    chance = random.Random(number)
    return {
        "id": f"k{number}",
        "vector": [chance.uniform(-1, 1) for _ in range(DIMENSION)],
        "content": f"text {number}",
        "docId": f"doc-{number // 4}",
        "chunkIndex": number % 4,
        "small": number % 100,
        "weight": number / 2,
        "exact": number / 3,
        "draft": number % 2 == 0,
        "extra": {"level": number},
        "tags": [number, number + 1],
        "names": [f"n{number}"],
        "free": number,
    }


if __name__ == "__main__":
    create(*sys.argv[1:])
