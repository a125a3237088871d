"""The lookup stage on Kafka. What stands in `__all__` is for users; everything else is internal.

The names are imported when they are first used, so that an agent loads no more than its client needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streams.moved import keep_old_names

if TYPE_CHECKING:
    from pipeline.guard import CitationCheck, CitedDocument, check_citations, extract_citations
    from pipeline.model import Dropped, Evidence, HitReason, Ledger, Limits, PathReport, Problem
    from streams.client import ClientClosed, LookupClient, ResultUnreadable, connected_client
    from streams.settings.loading import load as load_settings
    from streams.settings.model import Settings
    from streams.wire.requests import FieldProblem
    from streams.wire.results import LookupResult, Rejection

__all__ = [
    "CitationCheck",
    "CitedDocument",
    "ClientClosed",
    "Dropped",
    "Evidence",
    "FieldProblem",
    "HitReason",
    "Ledger",
    "Limits",
    "LookupClient",
    "LookupResult",
    "PathReport",
    "Problem",
    "Rejection",
    "ResultUnreadable",
    "Settings",
    "check_citations",
    "connected_client",
    "extract_citations",
    "load_settings",
]

_MODULES = {
    "pipeline.guard": ("CitationCheck", "CitedDocument", "check_citations", "extract_citations"),
    "pipeline.model": ("Dropped", "Evidence", "HitReason", "Ledger", "Limits", "PathReport", "Problem"),
    "streams.client": ("ClientClosed", "LookupClient", "ResultUnreadable", "connected_client"),
    "streams.settings.loading": ("load_settings",),
    "streams.settings.model": ("Settings",),
    "streams.wire.requests": ("FieldProblem",),
    "streams.wire.results": ("LookupResult", "Rejection"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_OWN_NAMES = {"load_settings": "load"}


keep_old_names()


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), _OWN_NAMES.get(name, name))


def __dir__() -> list[str]:
    """List what is exported."""
    return sorted(__all__)
