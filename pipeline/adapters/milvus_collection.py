"""A collection in Milvus: where it is, what its fields are called, and whether it is as it must be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.adapters.milvus_client import DataType
from pipeline.adapters.milvus_filter import MetadataLayout
from pipeline.errors import ConfigurationError

MAX_RECONNECT_WAIT_MS = 1_000
SHORTEST_SECRET = 4
"""Characters of a secret; leaving out anything shorter would tell more than it hides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MilvusCollection:
    """Where a collection is and what its fields are called.

    Attributes:
        uri: An http(s) address, or a file ending in `.db` for Milvus Lite.
        collection: Its name.
        token: A token, or `user:password`; `None` where the server asks for none.
        database: The database it is in.
        id_field: The primary key, VARCHAR or INT64.
        vector_field: The embeddings, FLOAT_VECTOR.
        content_field: The chunk's text, VARCHAR.
        metadata_layout: `field`: one field holds the metadata; `flat`: every other field of the row does.
        metadata_field: That one field, JSON, or VARCHAR with JSON text, which cannot be filtered.
        search_params: Parameters of the index, such as `{"ef": 128}`.
        ca_file: PEM file of the authorities trusted with https; `None` for the system's.
    """

    uri: str = field(repr=False)
    collection: str
    token: str | None = field(default=None, repr=False)
    database: str = "default"
    id_field: str = "id"
    vector_field: str = "vector"
    content_field: str = "content"
    metadata_layout: MetadataLayout = "field"
    metadata_field: str = "metadata"
    search_params: Mapping[str, object] = field(default_factory=dict)
    ca_file: str | None = None

    @property
    def address(self) -> str:
        """The uri without the user and password that may stand in it."""
        return re.sub(r"//[^/]*@", "//", self.uri)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show: the token and its password, and those that stand in the uri."""
        in_uri = re.search(r"//([^/]*)@", self.uri)
        pairs = (self.token or "", in_uri[1] if in_uri is not None else "")
        secrets = (each for pair in pairs for each in (pair, pair.partition(":")[2]))
        return tuple(each for each in secrets if len(each) >= SHORTEST_SECRET)

    @property
    def cannot_open(self) -> str:
        """What to say where the client makes nothing of the uri, or cannot open the file."""
        return (
            f"{self.address} cannot be opened as Milvus: it must be an http(s) address, or a file ending in"
            " .db, in an existing directory, that no other process has open"
        )

    def client_options(self, *, timeout_s: float) -> dict[str, Any]:
        """Return the arguments of the client's constructor."""
        options: dict[str, Any] = {
            "uri": self.uri,
            "token": self.token or "",
            "db_name": self.database,
            "timeout": timeout_s,
            # Shared connections outlive the client, and the event loop.
            "dedicated": True,
            # By itself the client waits up to two minutes between attempts to reach a server that was down.
            "grpc_options": {"grpc.max_reconnect_backoff_ms": MAX_RECONNECT_WAIT_MS},
        }
        if self.ca_file is not None:
            options["server_pem_path"] = self.ca_file
        return options


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionShape:
    """What the engine says of a collection's fields.

    Attributes:
        dimension: Length of its vectors.
        declared: Fields of the schema that are metadata, in its order; none with layout `field`.
        dynamic: Whether rows may have further fields.
        filterable: Whether the engine can look into the metadata.
        types: With layout `flat`, the type of every field of the schema; conditions may name those.
    """

    dimension: int
    declared: tuple[str, ...]
    dynamic: bool
    filterable: bool
    types: Mapping[str, DataType] = field(default_factory=dict)


def read_shape(description: Mapping[str, Any], collection: MilvusCollection) -> CollectionShape:
    """Read a collection's shape out of the engine's description of it.

    Raises:
        ConfigurationError: A field is missing or has a type that it must not have.
    """
    fields = {each["name"]: each for each in description["fields"]}
    name = collection.collection
    key = _checked(fields, name, collection.id_field, (DataType.VARCHAR, DataType.INT64))
    if not key.get("is_primary"):
        raise ConfigurationError(f"collection {name}: field {collection.id_field} is not the primary key")
    vector = _checked(fields, name, collection.vector_field, (DataType.FLOAT_VECTOR,))
    _checked(fields, name, collection.content_field, (DataType.VARCHAR,))
    dimension, dynamic = int(vector["params"]["dim"]), bool(description.get("enable_dynamic_field"))
    if collection.metadata_layout == "field":
        metadata = _checked(fields, name, collection.metadata_field, (DataType.JSON, DataType.VARCHAR))
        filterable = metadata["type"] == DataType.JSON
        return CollectionShape(dimension=dimension, declared=(), dynamic=dynamic, filterable=filterable)
    own = {collection.id_field, collection.vector_field, collection.content_field}
    declared = tuple(each for each in fields if each not in own and not _is_bulky(fields[each]))
    types = {each: DataType(described["type"]) for each, described in fields.items()}
    return CollectionShape(
        dimension=dimension, declared=declared, dynamic=dynamic, filterable=True, types=types
    )


def check_dimension(shape: CollectionShape, collection: MilvusCollection, embedder: int) -> None:
    """Compare a collection's vectors with an embedder's.

    Raises:
        ConfigurationError: They have different dimensions.
    """
    if shape.dimension != embedder:
        raise ConfigurationError(
            f"collection {collection.collection}: its vectors have {shape.dimension} dimensions,"
            f" the embedder's {embedder}"
        )


def check_tenant_field(shape: CollectionShape, collection: MilvusCollection, tenant_field: str) -> None:
    """Check that rows can be searched by the tenant, which is a string.

    Raises:
        ConfigurationError: No row could ever be found.
    """
    where = f"rag.tenant-field = {tenant_field}: collection {collection.collection}"
    if not shape.filterable:
        raise ConfigurationError(
            f"{where}: field {collection.metadata_field} is VARCHAR, which cannot be filtered, must be JSON"
        )
    if collection.metadata_layout == "field" or (shape.dynamic and tenant_field not in shape.types):
        return
    if tenant_field not in shape.types:
        raise ConfigurationError(f"{where}: no field {tenant_field}; it has {', '.join(shape.types)}")
    if (kind := shape.types[tenant_field]) != DataType.VARCHAR:
        raise ConfigurationError(f"{where}: field {tenant_field} is {kind.name}, must be VARCHAR")


def _checked(
    fields: Mapping[str, Mapping[str, Any]], collection: str, name: str, types: Iterable[DataType]
) -> Mapping[str, Any]:
    if name not in fields:
        raise ConfigurationError(f"collection {collection}: no field {name}; it has {', '.join(fields)}")
    found = fields[name]
    if found["type"] not in types:
        allowed = " or ".join(each.name for each in types)
        raise ConfigurationError(
            f"collection {collection}: field {name} is {DataType(found['type']).name}, must be {allowed}"
        )
    return found


def _is_bulky(described: Mapping[str, Any]) -> bool:
    """Whether a field holds vectors or lists of objects, which are no metadata."""
    name = DataType(described["type"]).name
    return "VECTOR" in name or "STRUCT" in name
