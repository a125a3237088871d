"""One side of a comparison: what of a recording is compared. Frozen values."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pipeline.model import Budget, DropReason, Evidence, Limits, Outcome
from pipeline.outcome import PathAnswer

FateReason: TypeAlias = DropReason | Literal["unexplained"]
"""Why a hit is not in the evidence; `unexplained` where this code would have kept it."""

_FURTHEST_FIRST: tuple[FateReason, ...] = (
    "unexplained",
    "over_budget",
    "over_return_n",
    "over_document_cap",
    "duplicate",
    "invalid_score",
    "empty_content",
)
"""Of several hits of one key the one that came furthest tells why the key is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A piece of evidence.

    Attributes:
        rank: Place in the evidence, from 1.
        key: Its evidence key.
        doc_id: The document it belongs to, if known.
        source: Where the document came from, if known.
        title: The document's title, if known.
        content: The text as the agent saw it.
        truncated: Whether that was shortened.
        score: Higher is better.
        text: Digest of the whole text, before it was shortened.
    """

    rank: int
    key: str
    doc_id: str | None
    source: str | None
    title: str | None
    content: str
    truncated: bool
    score: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a key that was retrieved and is not in the evidence.

    Attributes:
        key: The evidence key.
        reason: The rule that took it out.
        merged_into: For a duplicate, the key that has its place.
        text: Digest of its text.
    """

    key: str
    reason: FateReason
    merged_into: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A request as one of the two files has it.

    Attributes:
        request_id: The request's id.
        queries: Its texts.
        status: The result's status; `None` where the request was recorded without a result.
        error: The result's error code, if it has one.
        answered: Indexes of the queries that the search answered, ascending; none where nothing was searched.
        items: The evidence, in rank order.
        fates: Why the other hits are not in the evidence, a key once; empty where nobody asked.
        limits: The widths in force, if known.
        budget: The budget in force, if known.
        index: What was searched: collection and fingerprint, if known.
        digest: Digest of the result's bytes.
    """

    request_id: str
    queries: tuple[str, ...]
    status: str | None
    error: str | None
    answered: tuple[int, ...]
    items: tuple[Item, ...]
    fates: tuple[Fate, ...]
    limits: Limits | None
    budget: Budget | None
    index: str | None
    digest: str


Texts: TypeAlias = Mapping[tuple[int, int], str]
"""The whole text of each hit, by query and rank in that query's hits."""


def texts_of(answers: Iterable[PathAnswer]) -> Texts:
    """Return the texts of all hits that have one."""
    return {
        (answer.query, rank): hit.content
        for answer in answers
        for rank, hit in enumerate(answer.hits.hits, start=1)
        if isinstance(hit.content, str)
    }


def items_of(evidence: Iterable[Evidence], texts: Texts) -> tuple[Item, ...]:
    """Return evidence as it is compared.

    Args:
        evidence: In rank order.
        texts: Of the hits behind it, as far as they were recorded: where it was shortened, they tell whether
            it is another text or another length.
    """
    return tuple(
        Item(
            rank=item.rank,
            key=item.document_id,
            doc_id=item.doc_id,
            source=item.source,
            title=item.title,
            content=item.content,
            truncated=item.truncated,
            score=item.score,
            text=_digest(_whole_text(item, texts)),
        )
        for item in evidence
    )


def fates_of(kept: Collection[str], outcome: Outcome, texts: Texts) -> tuple[Fate, ...]:
    """Return why hits are not in the evidence.

    Args:
        kept: The keys that are.
        outcome: The same lookup concluded again from its hits.
        texts: Of the hits.

    Returns:
        One fate a key that is not in the evidence, that of the hit that came furthest.
    """
    fates: dict[str, Fate] = {}
    for fate in sorted(_all_fates(outcome, texts), key=lambda fate: _FURTHEST_FIRST.index(fate.reason)):
        if fate.key not in kept:
            fates.setdefault(fate.key, fate)
    return tuple(fates.values())


def _all_fates(outcome: Outcome, texts: Texts) -> Iterator[Fate]:
    for item in outcome.evidence:
        text = _digest(_whole_text(item, texts))
        yield Fate(key=as_published(item.document_id), reason="unexplained", merged_into=None, text=text)
    for drop in outcome.dropped:
        text = _digest(texts.get((drop.query, drop.rank), ""))
        into = None if drop.merged_into is None else as_published(drop.merged_into)
        yield Fate(key=as_published(drop.document_id), reason=drop.reason, merged_into=into, text=text)


def as_published(text: str) -> str:
    """Return text as results have it: UTF-8 cannot hold lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def _whole_text(item: Evidence, texts: Texts) -> str:
    reasons = item.hit_reasons[:1]  # its own; those of its duplicates follow
    return next((texts[at] for at in ((one.query, one.rank) for one in reasons) if at in texts), item.content)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
