"""Members of other libraries are checked before they are relied on."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest

from pipeline.errors import ConfigurationError
from pipeline.internals import Member, check_members


class Library:
    """Stands in for a library's class."""

    made_by_the_class = 1

    def __init__(self) -> None:
        self._set_at_first = 2

    def method(self, one: int, *, two: int) -> int:
        """Return what `later` sets."""
        self.set_later = one + two
        return self.set_later


class Derived(Library):
    """Inherits all of it, with an `__init__` of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._own = 3


@pytest.mark.parametrize("owner", [Library, Derived])
@pytest.mark.parametrize("name", ["made_by_the_class", "_set_at_first", "method"])
def test_member_that_is_there_passes(owner: type, name: str) -> None:
    """Whether the class has it, or its instances from the start, be it by inheritance."""
    check_members("orjson", [Member(owner=owner, name=name), Member(owner=Derived, name="_own")])


@pytest.mark.parametrize("name", ["renamed", "set_later"])
def test_member_that_is_not_there_is_named_with_the_version(name: str) -> None:
    """What instances get only later cannot be relied on. The line says what to install."""
    with pytest.raises(ConfigurationError) as refused:
        check_members("orjson", [Member(owner=Library, name="method"), Member(owner=Library, name=name)])
    found = re.escape(f"orjson {version('orjson')} is not supported: Library.{name} is missing; install ")
    line = rf"{found}orjson.*<4.*"
    assert re.fullmatch(line, str(refused.value))


def test_parameters_are_compared_by_name_and_order() -> None:
    """A function that is called otherwise now is not the one that was relied on."""
    check_members("orjson", [Member(owner=Library, name="method", parameters=("self", "one", "two"))])
    with pytest.raises(
        ConfigurationError, match=r"Library\.method takes \(self, one, two\), not \(self, one\)"
    ):
        check_members("orjson", [Member(owner=Library, name="method", parameters=("self", "one"))])


def test_every_fault_is_told_at_once() -> None:
    """An upgrade is looked at once."""
    members = [Member(owner=Library, name="a"), Member(owner=Library, name="b")]
    with pytest.raises(ConfigurationError, match=r"Library\.a is missing; Library\.b is missing; install "):
        check_members("orjson", members)
