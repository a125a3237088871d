"""Modules of 0.1.0 that have moved: their old names can be imported, with a warning, until 0.3.

Search ports of other people import them, and so do agents written after the documentation of 0.1.0.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

MOVED = {
    "streams.agents": "streams.worker.agents",
    "streams.answering": "streams.stage.answering",
    "streams.bootstrap": "streams.worker.bootstrap",
    "streams.cloud_events": "streams.wire.cloud_events",
    "streams.configuration": "streams.settings.loading",
    "streams.connection": "streams.kafka.connection",
    "streams.consumer": "streams.worker.consumer",
    "streams.dead_letters": "streams.wire.dead_letters",
    "streams.decoding": "streams.wire.decoding",
    "streams.in_flight": "streams.stage.in_flight",
    "streams.logs": "streams.observability.logs",
    "streams.publishing": "streams.kafka.publishing",
    "streams.records": "streams.kafka.records",
    "streams.redrive": "streams.replay.redrive",
    "streams.request_rules": "streams.wire.request_rules",
    "streams.requests": "streams.wire.requests",
    "streams.results": "streams.wire.results",
    "streams.topic_reader": "streams.kafka.topic_reader",
    "streams.topics": "streams.kafka.topics",
    "pipeline.adapters.in_memory": "pipeline.testing.in_memory",
}
RENAMED = {
    "streams.decoding": {"decode": "decode_request"},
    "streams.results": {"decode": "decode_result", "encode": "encode_result"},
}


class _Alias(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a module of the old name with everything that the new one has."""
        new = import_module(MOVED[spec.name])
        warnings.warn(f"{spec.name} is {new.__name__} now", DeprecationWarning, stacklevel=2)
        module = ModuleType(spec.name, new.__doc__)
        module.__dict__.update(
            {name: value for name, value in vars(new).items() if not name.startswith("__")}
        )
        for old, name in RENAMED.get(spec.name, {}).items():
            setattr(module, old, getattr(new, name))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Execute nothing: the new module has been imported."""


class _MovedModules(MetaPathFinder):
    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that has moved, `None` for any other."""
        return spec_from_loader(fullname, _Alias()) if fullname in MOVED else None


def keep_old_names() -> None:
    """Let modules that have moved be imported by their old names."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
