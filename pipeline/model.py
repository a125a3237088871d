"""The values that flow through a lookup, in the order in which they come to be.

request → hits of each path → blocks of evidence → outcome. Every value is frozen: a stage that needs another
value makes a new one. What stands in a result has no slots: its encoder takes five times as long over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pipeline.values import statically_frozen

Scalar: TypeAlias = str | int | float | bool
"""What a metadata field can be compared with. `True` is not `1`, and `"5"` is not `5`; `1` is `1.0`."""

Vector: TypeAlias = tuple[float, ...]
"""A dense embedding: finite numbers, as many as the collection has dimensions."""

ErrorCode: TypeAlias = Literal[
    "search_unavailable", "search_timeout", "search_rejected", "internal", "invalid_request"
]
LookupStatus: TypeAlias = Literal["ok", "empty", "partial", "failed", "expired"]
PathStatus: TypeAlias = Literal["ok", "failed"]
DropReason: TypeAlias = Literal[
    "empty_content", "invalid_score", "duplicate", "over_document_cap", "over_return_n", "over_budget"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that must hold of a hit's metadata: the field equals one of the values.

    Attributes:
        field: Name of the metadata field.
        any_of: The values, at least one; a field that is absent equals none of them.
    """

    field: str
    any_of: tuple[Scalar, ...]


@statically_frozen(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """What a search port is asked for: one path of a lookup's fan-out.

    Attributes:
        text: The query as the agent wrote it.
        vector: Its embedding, or `None` where neither the request nor an embedder gives one.
        limit: Most hits to return, at least 1.
        conditions: All must hold of every hit.
    """

    text: str
    vector: Vector | None
    limit: int
    conditions: tuple[Condition, ...] = ()


@statically_frozen(frozen=True, slots=True)
class SearchHit:
    """One row as a search port returned it, before anything was read into it.

    Attributes:
        id: The engine's id of the row, if it has one.
        content: The chunk's text.
        metadata: An object, the JSON text of an object, or `None`.
        score: Higher is better, whatever the engine's metric.
        distance: The engine's own figure, unconverted.
        metric: The engine's name for that figure, such as `COSINE`.
    """

    id: str | int | None = None
    content: str | None = None
    metadata: Mapping[str, object] | str | None = None
    score: float | None = None
    distance: float | None = None
    metric: str | None = None


@statically_frozen(frozen=True, slots=True, kw_only=True)
class PathHits:
    """The hits of one query, best first.

    Attributes:
        query: Index of the query in the request, from 0.
        hits: 0 to `retrieve_k` hits.
    """

    query: int
    hits: tuple[SearchHit, ...]


@statically_frozen(frozen=True)
class HitReason:
    """Why a block is there: a query found it.

    Attributes:
        query: Index of the query in the request, from 0.
        rank: Place in that query's hits, from 1.
        score: Score in that query's hits, higher is better.
    """

    query: int
    rank: int
    score: float


@statically_frozen(frozen=True, kw_only=True)
class Dropped:
    """A hit that is not in the evidence, and why.

    Attributes:
        document_id: Its evidence key.
        reason: Which rule took it out.
        query: Index of the query that found it, from 0.
        rank: Place in that query's hits, from 1.
        merged_into: For a duplicate, the `document_id` of the block that has its reason now.
    """

    document_id: str
    reason: DropReason
    query: int
    rank: int
    merged_into: str | None = None


@statically_frozen(frozen=True)
class Evidence:
    """A block of evidence: one chunk, whole after post-processing and within the budget after projection.

    Attributes:
        rank: Place in the evidence, from 1.
        document_id: The one key by which chunks are the same or not (see `pipeline.identity`).
        doc_id: The document it belongs to, if known.
        chunk_index: Its place in the document, from 0, if known.
        source: Where the document came from, else its id, else `None`.
        title: The document's title, if known.
        breadcrumb: The headings above the chunk, if known.
        content: The chunk's text, not blank; shortened to the budget.
        truncated: Whether it was shortened.
        score: Higher is better.
        hit_reasons: Which queries found it: the hit that stayed first, then its duplicates in rank order.
    """

    rank: int
    document_id: str
    doc_id: str | None
    chunk_index: int | None
    source: str | None
    title: str | None
    breadcrumb: str | None
    content: str
    truncated: bool
    score: float
    hit_reasons: tuple[HitReason, ...]


@statically_frozen(frozen=True, kw_only=True)
class Ledger:
    """What became of every hit.

    It balances: `retrieved` is the sum of all the others.

    Attributes:
        retrieved: Hits of all the queries together.
        rejected: Hits without content or without a score.
        duplicates: Hits of a chunk that a better hit has brought already.
        over_document_cap: Chunks beyond `max_chunks_per_document`.
        over_return_n: Chunks beyond `return_n`.
        over_budget: Chunks for which the budget had no room.
        projected: Evidence items.
    """

    retrieved: int = 0
    rejected: int = 0
    duplicates: int = 0
    over_document_cap: int = 0
    over_return_n: int = 0
    over_budget: int = 0
    projected: int = 0


@statically_frozen(frozen=True, kw_only=True)
class Limits:
    """The widths of a lookup, each at least 1.

    Attributes:
        retrieve_k: Recall width: most hits a path is asked for.
        return_n: Return width: most blocks after post-processing, not more than `retrieve_k`.
        max_chunks_per_document: Most blocks of one document.
    """

    retrieve_k: int
    return_n: int
    max_chunks_per_document: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much evidence an agent is given. Characters are Unicode code points.

    Attributes:
        max_items: Most evidence items.
        max_chars_per_item: Longest content of one item.
        max_total_chars: Longest sum of all contents.
        min_chars_per_item: A block is shortened to fit into what is left of the sum only where at least this
            is left, or where it is the first.
    """

    max_items: int
    max_chars_per_item: int
    max_total_chars: int
    min_chars_per_item: int


@statically_frozen(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A valid request with every default filled in.

    Attributes:
        queries: 1 to 8 texts, each one path of the fan-out.
        vectors: One embedding a query where the request brought them.
        limits: The widths in force.
        budget: The budget in force.
        conditions: All must hold of every hit: the tenant's first, then the request's filter.
        explain: Whether the outcome lists what was dropped.
    """

    queries: tuple[str, ...]
    vectors: tuple[Vector, ...] | None
    limits: Limits
    budget: Budget
    conditions: tuple[Condition, ...] = ()
    explain: bool = False


@statically_frozen(frozen=True, kw_only=True)
class Problem:
    """Something that went wrong, in words that are the same each time it does.

    Attributes:
        code: The error's kind.
        message: One sentence without clock, host or random values.
    """

    code: ErrorCode
    message: str


@statically_frozen(frozen=True, kw_only=True)
class PathReport:
    """How one query of the fan-out went.

    Attributes:
        query: Index of the query in the request, from 0.
        status: Whether the search answered.
        hits: How many hits it gave.
        error: Why it did not answer.
    """

    query: int
    status: PathStatus
    hits: int
    error: Problem | None = None


@statically_frozen(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a lookup came to.

    Attributes:
        status: `ok`, `empty`, `partial` or `failed`; `expired` where it was not searched.
        evidence: In rank order.
        paths: One report a query, in the request's order.
        ledger: What became of every hit.
        dropped: Every hit that is not in the evidence, by query and rank, where asked for.
        error: Why there is no evidence; `None` unless `status` is `failed`.
    """

    status: LookupStatus
    evidence: tuple[Evidence, ...] = ()
    paths: tuple[PathReport, ...] = ()
    ledger: Ledger = Ledger()
    dropped: tuple[Dropped, ...] = ()
    error: Problem | None = None
