"""With each member of a library renamed on which the product relies, the start says so in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import faust
import pytest
from aiokafka.consumer.fetcher import PartitionRecords

from pipeline.adapters import milvus_client
from pipeline.errors import ConfigurationError
from pipeline.internals import Member
from streams.kafka import tolerant_fetcher
from streams.worker import faust_members

CHECKS: tuple[tuple[Callable[[], None], str, Iterable[Member]], ...] = (
    (faust_members.check_faust, "faust-streaming", faust_members.members()),
    (tolerant_fetcher.check_aiokafka, "aiokafka", tolerant_fetcher.members()),
    (milvus_client.check_pymilvus, "pymilvus", milvus_client.MEMBERS),
)
CASES = [
    pytest.param(check, library, member, id=str(member))
    for check, library, members in CHECKS
    for member in members
    if member.parameters is None
]


@pytest.mark.parametrize("check", [check for check, _, _ in CHECKS])
def test_installed_versions_pass(check: Callable[[], None]) -> None:
    """The versions that the suite runs with have every member."""
    check()


@pytest.mark.parametrize(("check", "library", "member"), CASES)
def test_member_that_is_renamed_is_named(
    check: Callable[[], None], library: str, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the library, its version and what to install: an upgrade is never found out in silence."""
    rename(member, monkeypatch)
    found = rf"^{library} [\d.a-z]+ is not supported: .*{re.escape(str(member))} is missing"
    with pytest.raises(ConfigurationError, match=rf"{found}.*; install {library}"):
        check()


@pytest.mark.parametrize(
    ("check", "owner"),
    [
        (faust_members.check_faust, faust.Event),
        (tolerant_fetcher.check_aiokafka, PartitionRecords),
    ],
)
def test_constructor_that_takes_something_else_is_named(
    check: Callable[[], None], owner: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is constructed for each message is checked by its parameters."""

    def made_otherwise(self: object, other: object) -> None:
        del self, other

    monkeypatch.setattr(owner, "__init__", made_otherwise)
    with pytest.raises(ConfigurationError, match=rf"{owner.__name__}\.__init__ takes \(self, other\), not "):
        check()


def rename(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rename a member in every class that has it, be it only in what `__init__` assigns."""
    assert isinstance(member.owner, type)
    for owner in member.owner.__mro__:
        if member.name in vars(owner):
            monkeypatch.delattr(owner, member.name)
        initializer = vars(owner).get("__init__")
        code = getattr(initializer, "__code__", None)
        if initializer is not None and code is not None:
            names = tuple(f"{name}_renamed" if name == member.name else name for name in code.co_names)
            monkeypatch.setattr(initializer, "__code__", code.replace(co_names=names))
