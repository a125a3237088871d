"""Settings: one table of keys, read from a YAML file and the environment.

A key such as `rag.retrieve-k` is an attribute path (`settings.rag.retrieve_k`) and an environment variable
(`RAG_RETRIEVE_K`). The environment wins over the file, the file over the default.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    SecretStr,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from pipeline.limits import configured_widths
from pipeline.model import Budget, Limits
from streams.settings.sources import KeySource, environment_values, file_values, setting_keys

MASK = "**********"

_CREDENTIALS_IN_ADDRESS = re.compile(r"(?<=://)\S*(?=@)")


def masked(value: object) -> object:
    """Return a value as it may be shown: secrets are masked, those that stand in an address too."""
    if isinstance(value, SecretStr):
        return MASK
    return _CREDENTIALS_IN_ADDRESS.sub(MASK, value) if isinstance(value, str) else value


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number, not a boolean")  # noqa: TRY004 - pydantic reports ValueErrors
    return value


def _parsed_mapping(value: object) -> object:
    """In the environment a mapping is the JSON text of an object."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("must be the JSON text of an object") from None
    return value


def _sample(value: object) -> object:
    """`off` is a boolean in YAML, and everything is text in the environment."""
    if value is False:
        return "off"
    if value in ("off", "all"):
        return value
    try:
        share = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = math.nan
    if not 0 < share <= 1:
        raise ValueError("must be off, all, or the share of requests to record, over 0 and at most 1")
    return share


Count: TypeAlias = Annotated[PositiveInt, BeforeValidator(_no_boolean)]
Port: TypeAlias = Annotated[int, Field(ge=0, le=65_535), BeforeValidator(_no_boolean)]
Seconds: TypeAlias = Annotated[PositiveFloat, BeforeValidator(_no_boolean)]
Sample: TypeAlias = Annotated[Literal["off", "all"] | float, BeforeValidator(_sample)]
Name: TypeAlias = Annotated[str, Field(min_length=1, pattern=r"\S")]
JsonObject: TypeAlias = Annotated[dict[str, Any], BeforeValidator(_parsed_mapping)]


class Group(BaseModel):
    """Settings that share the first part of their keys. Its repr shows no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        return [(name, masked(value)) for name, value in super().__repr_args__()]


class RagSettings(Group):
    """Recall and return widths."""

    retrieve_k: Count | None = Field(default=None, description="width of the vector recall, per path (20)")
    return_n: Count | None = Field(default=None, description="evidence blocks after post-processing (5)")
    top_k: Count | None = Field(
        default=None, description="legacy; stands in for whichever of the two is absent"
    )
    max_chunks_per_document: Count = Field(default=2, description="most evidence blocks of one document")
    max_retrieve_k: Count = Field(default=200, description="upper bound of the widths a request may ask for")
    tenant_field: Name | None = Field(
        default=None,
        description="metadata field that must equal the request's tenant; requests without are rejected",
    )

    @property
    def limits(self) -> Limits:
        """The widths where a request names none."""
        retrieve_k, return_n = configured_widths(self.retrieve_k, self.return_n, self.top_k)
        return Limits(
            retrieve_k=retrieve_k, return_n=return_n, max_chunks_per_document=self.max_chunks_per_document
        )


class ProjectionSettings(Group):
    """Budgets of the evidence; characters are Unicode code points."""

    max_items: Count = Field(default=20, description="most evidence items")
    max_chars_per_item: Count = Field(default=2_000, description="longest content of one item, in characters")
    max_total_chars: Count = Field(default=8_000, description="longest sum of all contents, in characters")
    min_chars_per_item: Count = Field(
        default=200, description="shortest piece a block is shortened to, in characters"
    )

    @property
    def budget(self) -> Budget:
        """The budget where a request names none."""
        return Budget(**self.model_dump())


class SearchSettings(Group):
    """The search port."""

    port: Name = Field(default="milvus-dense", description="`milvus-dense`, or `package.module:factory`")
    timeout: Seconds = Field(
        default=10.0, description="seconds for embedding and searching, retries included"
    )
    attempt_timeout: Seconds = Field(default=3.0, description="seconds for one try")
    attempts: Count = Field(default=3, description="most tries of a search that is unavailable or too slow")
    max_batch_size: Count = Field(
        default=64, description="most searches that share one call of the engine, where it takes many"
    )
    max_concurrent_calls: Count = Field(
        default=16, description="most such calls at once; at most two of them are under the same filter"
    )
    circuit_failures: Count = Field(default=5, description="failures in a row after which it counts as down")
    circuit_probe_interval: Seconds = Field(
        default=1.0, description="seconds between probes while it is down"
    )


class TopicSettings(Group):
    """Names of the topics."""

    requests: Name = Field(default="lookup.requests", description="topic the requests come from")
    results: Name = Field(default="lookup.results", description="topic the results go to")
    dead_letters: Name = Field(
        default="lookup.dead-letters", description="topic for what could not be answered"
    )
    recordings: Name = Field(default="lookup.recordings", description="topic for recordings")


SecurityProtocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Compression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
SaslMechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class KafkaSettings(Group):
    """The brokers and how to reach them."""

    bootstrap_servers: Name = Field(
        default="localhost:9092", description="host:port, several separated by commas"
    )
    group_id: Name = Field(default="lookup-stage", description="consumer group of the workers")
    group_instance_id: Name | None = Field(
        default=None, description="static membership: a name of its own for each worker, kept over restarts"
    )
    topics: TopicSettings = TopicSettings()
    security_protocol: SecurityProtocol = Field(
        default="PLAINTEXT", description="how connections are protected"
    )
    sasl_mechanism: SaslMechanism = Field(default="PLAIN", description="how users are authenticated")
    sasl_username: Name | None = Field(default=None, description="user, with SASL")
    sasl_password: SecretStr | None = Field(default=None, description="password, with SASL")
    ssl_ca_file: Name | None = Field(
        default=None, description="PEM file of the authorities trusted, with SSL"
    )
    ssl_certificate_file: Name | None = Field(
        default=None, description="PEM file of the client's certificate"
    )
    ssl_key_file: Name | None = Field(default=None, description="PEM file of the client's key")
    ssl_key_password: SecretStr | None = Field(default=None, description="password of the client's key")
    compression: Compression = Field(
        default="zstd",
        description="codec of results, dead letters and recordings: none, gzip, snappy, lz4 or zstd",
    )
    session_timeout: Seconds = Field(
        default=10.0, description="seconds after which a silent worker loses its partitions"
    )


class MilvusSettings(Group):
    """The collection and how to search it."""

    uri: Name = Field(
        default="http://localhost:19530", description="http(s) address, or a file for Milvus Lite"
    )
    token: SecretStr | None = Field(default=None, description="token, or user:password")
    database: Name = Field(default="default", description="database of the collection")
    collection: Name = Field(default="knowledge", description="collection to search")
    id_field: Name = Field(default="id", description="primary key")
    vector_field: Name = Field(default="vector", description="field of the embeddings")
    content_field: Name = Field(default="content", description="field of the chunk's text")
    metadata_layout: Literal["field", "flat"] = Field(
        default="field",
        description="`field`: one JSON or JSON-text field holds them; `flat`: fields of the row",
    )
    metadata_field: Name = Field(default="metadata", description="field of the metadata, with layout `field`")
    search_params: JsonObject = Field(default={}, description='parameters of the index, such as {"ef": 128}')
    ca_file: Name | None = Field(default=None, description="PEM file of the authorities trusted, with https")


class EmbeddingSettings(Group):
    """How queries become vectors."""

    provider: Literal["wordllama", "openai", "none"] = Field(
        default="wordllama",
        description="`wordllama` (embedded), `openai` (any compatible endpoint), or `none`",
    )
    base_url: Name = Field(
        default="http://localhost:8080/v1", description="address of the endpoint, with `openai`"
    )
    model: Name = Field(default="text-embedding-3-small", description="name of the model, with `openai`")
    api_key: SecretStr | None = Field(default=None, description="key, with `openai`")
    batch_size: Count = Field(default=64, description="most texts in one call, with `openai`")


class StageSettings(Group):
    """The worker."""

    ordering: Literal["none", "key", "partition"] = Field(
        default="none",
        description="whose requests are answered in order: nobody's, one key's, one partition's",
    )
    when_search_is_down: Literal["answer", "wait"] = Field(
        default="answer", description="`answer` with `failed` at once, or `wait` until it is back"
    )
    max_dead_letters_per_minute: Count = Field(
        default=1_000,
        description="dead letters that trying again cannot help, after which the worker stops",
    )
    recording: Sample = Field(
        default="off",
        description="which requests are recorded: `off`, `all`, or a share of them such as 0.01",
    )
    max_in_flight: Count = Field(default=256, description="most requests in work at once")
    drain_timeout: Seconds = Field(
        default=15.0, description="seconds to finish what is in flight before leaving"
    )
    publish_timeout: Seconds = Field(default=30.0, description="seconds for the brokers to confirm a result")
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto", description="`json`, `console`, or `auto`: console on a terminal"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe log line"
    )
    log_content: bool = Field(
        default=False, description="also log every request and its result whole: query text and evidence"
    )

    @property
    def recorded_share(self) -> float:
        """The share of the requests that is recorded, 0 to 1."""
        return {"off": 0.0, "all": 1.0}[self.recording] if isinstance(self.recording, str) else self.recording


class MetricsSettings(Group):
    """The port for those who run the worker."""

    host: Name = Field(
        default="127.0.0.1", description="address of `/metrics`, `/livez` and `/readyz`; 0.0.0.0 for all"
    )
    port: Port = Field(default=9464, description="their port, one for each worker of a machine; 0 for none")


class TracingSettings(Group):
    """Traces."""

    enabled: bool = Field(
        default=False,
        description="OpenTelemetry spans, exported as the `OTEL_*` variables say; needs the extra `tracing`",
    )


class Settings(BaseSettings):
    """Every setting of the stage. Frozen; secrets are masked in its repr.

    `Settings()` reads the file that `LOOKUP_CONFIG` names and the environment; `loading.load`
    does so with errors that people can read.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    rag: RagSettings = RagSettings()
    projection: ProjectionSettings = ProjectionSettings()
    search: SearchSettings = SearchSettings()
    kafka: KafkaSettings = KafkaSettings()
    milvus: MilvusSettings = MilvusSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    stage: StageSettings = StageSettings()
    metrics: MetricsSettings = MetricsSettings()
    tracing: TracingSettings = TracingSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base class's signature
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base class's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base class's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, the first wins: arguments, environment, file."""
        keys = setting_keys(cls)
        return (
            init_settings,
            KeySource(settings_cls, environment_values(keys)),
            KeySource(settings_cls, file_values(keys)),
        )
