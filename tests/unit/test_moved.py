"""Old names of modules that have moved."""

from __future__ import annotations

import importlib
import sys

import pytest

from streams.moved import MOVED, RENAMED
from streams.settings import KafkaSettings, Settings
from streams.settings import model as settings_model


@pytest.mark.parametrize(("old", "new"), MOVED.items(), ids=MOVED)
def test_old_name_is_the_new_module_and_says_so(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever imported it goes on, and is told once where it is now."""
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=rf"^{old} is {new} now$"):
        module = importlib.import_module(old)
    current = importlib.import_module(new)
    public = {name for name in vars(current) if not name.startswith("_")}
    assert all(getattr(module, name) is getattr(current, name) for name in public)
    for name, meant in RENAMED.get(old, {}).items():
        assert getattr(module, name) is getattr(current, meant)
    monkeypatch.delitem(sys.modules, old)


def test_settings_are_where_search_ports_import_them_from() -> None:
    """A factory of somebody's own search port takes them."""
    assert Settings is settings_model.Settings
    assert KafkaSettings is settings_model.KafkaSettings


def test_module_that_never_was_is_not_found() -> None:
    """Other names are none of ours."""
    with pytest.raises(ModuleNotFoundError, match=r"streams\.nowhere"):
        importlib.import_module("streams.nowhere")
