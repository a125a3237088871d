"""Search parameters that Milvus wants to be at least as large as the search is wide."""

from __future__ import annotations

from collections.abc import Mapping

AT_LEAST_THE_WIDTH = ("ef", "reorder_k", "search_list")
"""Of HNSW, SCANN and DISKANN: how many candidates the index keeps, of which the best are returned."""


def widened(search_params: Mapping[str, object], limit: int) -> dict[str, object]:
    """Return the parameters for a search of a width: those that Milvus would refuse as too small are raised.

    Args:
        search_params: As configured. Whatever is no positive whole number stays for the engine to judge.
        limit: Most hits that the search may return.
    """
    params = dict(search_params)
    for name in AT_LEAST_THE_WIDTH:
        size = _positive(params.get(name))
        if size is not None and size < limit:
            params[name] = limit
    return params


def _positive(value: object) -> int | None:
    """Read a number as Milvus does, which takes digits for one."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    return value if type(value) is int and value > 0 else None
