"""Check the members of other libraries on which this product relies although they promise nothing of them.

Each library has one module that touches such members, and a list of them. A worker checks the lists when it
starts, so that an upgrade which renames one of them is told at once, in one line, and not in silence.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from types import CodeType

from pipeline.errors import ConfigurationError

PRODUCT = "lookup-stage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a library's class or module.

    Attributes:
        owner: The class or module.
        name: Its name; of an attribute that instances have, one that `__init__` assigns.
        parameters: Names of a function's parameters, in order; `None` where they do not matter.
    """

    owner: object
    name: str
    parameters: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{getattr(self.owner, '__name__', self.owner)}.{self.name}"

    @property
    def fault(self) -> str | None:
        """What is wrong with it, or `None`."""
        if not _is_there(self.owner, self.name):
            return f"{self} is missing"
        if self.parameters is not None:
            found = tuple(inspect.signature(getattr(self.owner, self.name)).parameters)
            if found != self.parameters:
                return f"{self} takes ({', '.join(found)}), not ({', '.join(self.parameters)})"
        return None


def check_members(library: str, members: Iterable[Member]) -> None:
    """Check that a library has the members on which this product relies.

    Args:
        library: The distribution's name.
        members: What is relied on.

    Raises:
        ConfigurationError: One line that names the library's version, each member that is not as
            expected, and the versions that are supported.
    """
    faults = [fault for member in members if (fault := member.fault) is not None]
    if faults:
        found = f"{library} {version(library)}"
        raise ConfigurationError(
            f"{found} is not supported: {'; '.join(faults)}; install {_supported(library)}"
        )


def _is_there(owner: object, name: str) -> bool:
    if hasattr(owner, name):
        return True
    return isinstance(owner, type) and any(name in code.co_names for code in _initializers(owner))


def _initializers(owner: type) -> Iterator[CodeType]:
    for each in owner.__mro__:
        code = getattr(vars(each).get("__init__"), "__code__", None)
        if code is not None:
            yield code


def _supported(library: str) -> str:
    try:
        required = requires(PRODUCT) or []
    except PackageNotFoundError:
        required = []
    named = (text.partition(";")[0].strip() for text in required)
    return next((text for text in named if text.startswith(library)), f"a version that {PRODUCT} allows")
