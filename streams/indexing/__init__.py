"""Filling a collection: documents into chunks, chunks into Milvus."""

from streams.indexing.documents import read_source
from streams.indexing.indexer import IndexReport, index_documents, plan_index
from streams.indexing.milvus_index import MilvusIndex

__all__ = ["IndexReport", "MilvusIndex", "index_documents", "plan_index", "read_source"]
