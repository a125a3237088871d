"""Quix Streams: a streaming data frame, which works on one message after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pymilvus import MilvusClient
from quixstreams import Application

from pipeline.embedders.word_llama import load
from pipeline.model import Lookup, SearchHit
from streams.settings.model import Settings
from streams.worker.bootstrap import milvus_collection
from tests.benchmarks.peers.job import answered, understood
from tests.benchmarks.ports import hits_of


def main() -> None:
    """Answer requests until it is ended."""
    settings = Settings()
    kafka = settings.kafka
    search = _milvus(settings) if settings.search.port == "milvus-dense" else _instant
    app = Application(
        broker_address=kafka.bootstrap_servers,
        consumer_group=kafka.group_id,
        auto_offset_reset="earliest",
        loglevel="ERROR",
        producer_extra_config={"enable.idempotence": True, "acks": "all"},
    )
    requests = app.topic(kafka.topics.requests, value_deserializer="bytes")
    results = app.topic(kafka.topics.results, value_serializer="bytes")

    def look_up(value: bytes) -> bytes:
        request, lookup = understood(value, settings)
        return answered(request, lookup, search(lookup))

    app.dataframe(requests).apply(look_up).to_topic(results)
    app.run()


def _instant(lookup: Lookup) -> Sequence[SearchHit]:
    return hits_of(lookup.limits.retrieve_k)


def _milvus(settings: Settings) -> Callable[[Lookup], Sequence[SearchHit]]:
    collection, model = milvus_collection(settings), load()
    client = MilvusClient(uri=collection.uri)

    def search(lookup: Lookup) -> Sequence[SearchHit]:
        found: Any = client.search(
            collection.collection,
            data=model.embed(list(lookup.queries), norm=True).tolist(),
            anns_field=collection.vector_field,
            limit=lookup.limits.retrieve_k,
            output_fields=[collection.content_field, collection.metadata_field],
            search_params={"params": dict(collection.search_params)},
        )
        return [
            SearchHit(
                id=row["id"],
                content=row["entity"][collection.content_field],
                metadata=row["entity"][collection.metadata_field],
                score=row["distance"],
                distance=row["distance"],
                metric="COSINE",
            )
            for row in found[0]
        ]

    return search


if __name__ == "__main__":
    main()
