"""How a request's own widths and budgets meet the configured ones. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from pipeline.errors import ExceededLimit, LimitsExceeded
from pipeline.model import Budget, Limits

DEFAULT_RETRIEVE_K = 20
DEFAULT_RETURN_N = 5

KNOWN_WIDTHS = 1_024
"""Requests ask for the same few widths again and again."""


def configured_widths(retrieve_k: int | None, return_n: int | None, top_k: int | None) -> tuple[int, int]:
    """Return recall width and return width; the legacy `top_k` stands in for whichever is absent.

    Returns:
        `(retrieve_k, return_n)`.

    Source: `rag.retrieve-k`, `rag.return-n` and the fallback `rag.top-k`.
    """
    return (
        _first(retrieve_k, top_k, DEFAULT_RETRIEVE_K),
        _first(return_n, top_k, DEFAULT_RETURN_N),
    )


@lru_cache(maxsize=KNOWN_WIDTHS)
def override_limits(
    configured: Limits,
    *,
    ceiling: int,
    retrieve_k: int | None = None,
    return_n: int | None = None,
    max_chunks_per_document: int | None = None,
) -> Limits:
    """Apply a request's widths to the configured ones.

    A request that narrows `retrieve_k` and says nothing of `return_n` gets at most as many blocks as it asks
    for hits.

    Args:
        configured: The widths where the request names none.
        ceiling: Upper bound of each of the request's widths.
        retrieve_k: The request's recall width, at least 1.
        return_n: The request's return width, at least 1.
        max_chunks_per_document: The request's cap, at least 1.

    Raises:
        LimitsExceeded: Widths over the ceiling, or `return_n` over `retrieve_k`; all of them are named.
    """
    recall = _first(retrieve_k, configured.retrieve_k)
    most = (ceiling, "rag.max-retrieve-k")
    bounds = (
        ("retrieve_k", retrieve_k, most),
        ("return_n", return_n, min(most, (recall, "retrieve_k"))),
        ("max_chunks_per_document", max_chunks_per_document, most),
    )
    exceeded = [
        ExceededLimit(field=field, value=value, allowed=f"at most {bound} ({rule})")
        for field, value, (bound, rule) in bounds
        if value is not None and value > bound
    ]
    if exceeded:
        raise LimitsExceeded(exceeded)
    return Limits(
        retrieve_k=recall,
        return_n=_first(return_n, min(configured.return_n, recall)),
        max_chunks_per_document=_first(max_chunks_per_document, configured.max_chunks_per_document),
    )


def narrow_budget(
    configured: Budget,
    *,
    max_items: int | None = None,
    max_chars_per_item: int | None = None,
    max_total_chars: int | None = None,
) -> Budget:
    """Apply a request's budget: whichever of the two is smaller holds."""
    return replace(
        configured,
        max_items=min(configured.max_items, _first(max_items, configured.max_items)),
        max_chars_per_item=min(
            configured.max_chars_per_item, _first(max_chars_per_item, configured.max_chars_per_item)
        ),
        max_total_chars=min(configured.max_total_chars, _first(max_total_chars, configured.max_total_chars)),
    )


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)
