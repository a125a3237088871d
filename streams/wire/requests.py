"""Requests as agents send them: what they may hold, and saying what is wrong with them."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeAlias

import orjson
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)

from streams.wire.rfc3339 import RFC3339_SCHEMA, parse_time

MAX_REQUEST_ID_CHARS = 200
MAX_QUERIES = 8
MAX_QUERY_CHARS = 8_192
MAX_HINTS_BYTES = 16 * 1_024
MAX_DIMENSION = 32_768
"""No engine has longer vectors."""
MAX_FILTER_VALUES = 1_000
MAX_SHOWN_CHARS = 80

# Patterns are written so that every engine reads them alike: no classes that some take for ASCII alone.
NOT_BLANK_PATTERN = r"[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""Finds a character that is not white space."""

FILTER_FIELD_PATTERN = r"^[^\x00-,/:-@\[-^`{-\x7f]*$"
"""Of ASCII only letters, digits, `_`, `-` and `.`; what other characters are letters it cannot say."""

_SCALARS = ["string", "number", "boolean"]
_FILTER_FIELD = re.compile(r"[\w.\-]{1,200}")


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _moment(value: object) -> datetime:
    return parse_time(value if isinstance(value, str) else "")


def _small(hints: Any) -> Any:
    try:
        size = len(orjson.dumps(hints))
    except TypeError as error:
        raise ValueError(f"must be JSON: {error}") from error
    if size > MAX_HINTS_BYTES:
        raise ValueError(f"must be at most {MAX_HINTS_BYTES} bytes of JSON, not {size}")
    return hints


def _filter(value: dict[str, Any]) -> dict[str, Any]:
    for field, wanted in value.items():
        if not _FILTER_FIELD.fullmatch(field):
            raise ValueError(f"field names are 1 to 200 letters, digits, '_', '-' or '.', not {shown(field)}")
        options = wanted if isinstance(wanted, list) else [wanted]
        if not options or not all(isinstance(option, str | int | float) for option in options):
            raise ValueError(
                f"{field} must be a string, number, boolean or a list of at least one, not {shown(wanted)}"
            )
    if sum(len(wanted) if isinstance(wanted, list) else 1 for wanted in value.values()) > MAX_FILTER_VALUES:
        raise ValueError(f"must have at most {MAX_FILTER_VALUES} values")
    return value


NotBlank: TypeAlias = Annotated[
    StrictStr,
    Field(min_length=1, json_schema_extra={"pattern": NOT_BLANK_PATTERN}),
    AfterValidator(_not_blank),
]
Count: TypeAlias = Annotated[StrictInt, Field(ge=1)]
Query: TypeAlias = Annotated[
    StrictStr,
    Field(min_length=1, max_length=MAX_QUERY_CHARS, json_schema_extra={"pattern": NOT_BLANK_PATTERN}),
    AfterValidator(_not_blank),
]
# Of a vector the first wrong number is named: naming a million would hold up everybody's requests.
Embedding: TypeAlias = Annotated[
    list[StrictFloat], Field(min_length=1, max_length=MAX_DIMENSION, fail_fast=True)
]


Conditions: TypeAlias = Annotated[
    dict[str, Any],
    AfterValidator(_filter),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"minLength": 1, "maxLength": 200, "pattern": FILTER_FIELD_PATTERN},
            "maxProperties": MAX_FILTER_VALUES,
            "additionalProperties": {
                "type": [*_SCALARS, "array"],
                "items": {"type": _SCALARS},
                "minItems": 1,
                "maxItems": MAX_FILTER_VALUES,
            },
        }
    ),
]
Moment: TypeAlias = Annotated[AwareDatetime, BeforeValidator(_moment), WithJsonSchema(RFC3339_SCHEMA)]


class RequestedBudget(BaseModel):
    """A budget that narrows the configured one: of each figure the smaller holds.

    Attributes:
        max_items: Most evidence items.
        max_chars_per_item: Longest content of one item, in Unicode code points.
        max_total_chars: Longest sum of all contents, in Unicode code points.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    max_items: Count | None = None
    max_chars_per_item: Count | None = None
    max_total_chars: Count | None = None


class LookupRequest(BaseModel):
    """A question to the knowledge base, as agents send it.

    Unknown fields are ignored, and null counts as absent.

    Attributes:
        request_id: Whom the result is for: 1 to 200 characters. The id of a CloudEvent (the header `ce_id` in
            binary mode) stands in for it where it is absent.
        query: What to look up. Either this or `queries` must be given.
        queries: Several texts to look up at once, each one path of the search.
        vector: Embedding of a single query, of the collection's dimension.
        vectors: Embeddings, one for each query.
        retrieve_k: Recall width: most hits of each query.
        return_n: Return width: most evidence blocks, not more than `retrieve_k`.
        max_chunks_per_document: Most evidence blocks of one document.
        filter: Metadata fields, each with a value that it must equal or a list of such values; all must hold.
            `"5"` is not `5`, and `true` is not `1`.
        tenant: Whose documents are searched; required where tenants are kept apart.
        budget: How much evidence there may be.
        expires_at: RFC 3339 time with an offset, after which the result is `expired`. A leap second is read
            as the start of the second after it. The expirytime of a CloudEvent (the header `ce_expirytime` in
            binary mode) stands in for it where it is absent.
        explain: Whether the result says of every hit that is not in the evidence why it is not.
        hints: Any JSON of at most 16 KiB; echoed in the result, never evidence.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    request_id: Annotated[StrictStr, Field(min_length=1, max_length=MAX_REQUEST_ID_CHARS)]
    query: Query | None = None
    queries: Annotated[list[Query], Field(min_length=1, max_length=MAX_QUERIES)] | None = None
    vector: Embedding | None = None
    vectors: Annotated[list[Embedding], Field(min_length=1, max_length=MAX_QUERIES)] | None = None
    retrieve_k: Count | None = None
    return_n: Count | None = None
    max_chunks_per_document: Count | None = None
    filter: Conditions | None = None
    tenant: NotBlank | None = None
    budget: RequestedBudget | None = None
    expires_at: Moment | None = None
    explain: StrictBool | None = None
    hints: Annotated[Any, AfterValidator(_small)] = None

    @property
    def all_queries(self) -> tuple[str, ...]:
        """The queries, in whichever of the two fields they came."""
        return tuple(self.queries or ()) if self.query is None else (self.query,)

    @property
    def all_vectors(self) -> tuple[tuple[float, ...], ...] | None:
        """The embeddings, in whichever of the two fields they came."""
        if self.vector is not None:
            return (tuple(self.vector),)
        return None if self.vectors is None else tuple(tuple(vector) for vector in self.vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """What is wrong with one field of a request.

    Attributes:
        field: Its name, with `.` before a key and `[n]` around an index inside it.
        value: What it holds, shortened.
        problem: What is allowed.
    """

    field: str
    value: str
    problem: str


class RequestInvalid(Exception):
    """A request with a readable id is not valid.

    Attributes:
        request_id: Whom to answer.
        problems: At least one.
        hints: The request's own, where nothing is wrong with them.
    """

    def __init__(self, request_id: str, problems: Iterable[FieldProblem], hints: Any = None) -> None:
        self.request_id = request_id
        self.problems = tuple(problems)
        self.hints = hints
        super().__init__("; ".join(f"{p.field} = {p.value}: {p.problem}" for p in self.problems))


def shown(value: object) -> str:
    """Return a value as a person should see it in an error: at most 80 characters."""
    text = _REPR.repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 1]}…"


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = MAX_SHOWN_CHARS
_REPR.maxlist = _REPR.maxdict = 4
