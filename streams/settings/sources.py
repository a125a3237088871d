"""Where settings come from: a YAML file with the specification's keys, and environment variables."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from pipeline.errors import ConfigurationError

CONFIG_FILE_VARIABLE = "LOOKUP_CONFIG"

LEAST_LIKENESS = 0.9
"""Of two names of which one is taken for a slip of the other: a letter in ten, say."""

LEAST_SHARE = 0.75
"""Of a setting's name that is left where its last words are missing: KAFKA_BOOTSTRAP."""

_NEEDLESS_WORDS = ("NAME", "FILE", "PATH", "S", "SECONDS", "MS", "COUNT", "VALUE", "ADDRESS")
"""What people put after a setting's name."""

_KUBERNETES_VARIABLE = re.compile(
    r".+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""What Kubernetes and Docker set in each container for a service of that name."""

_given_file: ContextVar[Path | None] = ContextVar("given_file", default=None)


class KeySource(PydanticBaseSettingsSource):
    """A source of settings by key: `{"rag.retrieve-k": 20}`."""

    def __init__(self, settings_cls: type[BaseSettings], values: Mapping[str, object]) -> None:
        """Initialize with the values by key; every key is one of the settings'."""
        super().__init__(settings_cls)
        self._values = nested(values)

    def get_field_value(
        self,
        field: FieldInfo,  # noqa: ARG002 - the base class's signature
        field_name: str,
    ) -> tuple[Any, str, bool]:
        """Return the value of one group of settings."""
        return self._values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return all values, nested by group."""
        return self._values


def setting_keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """List every key of a settings model with its field, in the order of declaration."""
    return dict(_keys(model, ""))


def environment_name(key: str) -> str:
    """Return a key's environment variable: `rag.retrieve-k` is `RAG_RETRIEVE_K`."""
    return key.replace(".", "_").replace("-", "_").upper()


def environment_values(keys: Iterable[str]) -> dict[str, object]:
    """Read the environment; an empty variable counts as absent."""
    return {key: value for key in keys if (value := os.environ.get(environment_name(key)))}


def misspelt_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Find variables that are nearly the name of a setting, and so have no effect.

    Other programs' variables (`KAFKA_OPTS`, `KAFKA_HOME`, those of Kubernetes' services) are not near enough,
    and a setting that is set under its own name is not missed.

    Args:
        environment: Variables by name; an empty one counts as absent.

    Returns:
        For each such variable the name that was probably meant.
    """
    from streams.settings.model import Settings  # which imports this module

    known = [*map(environment_name, setting_keys(Settings)), CONFIG_FILE_VARIABLE]
    absent = [name for name in known if not environment.get(name)]
    given = [name for name, value in environment.items() if value and name not in known]
    nearest = {name: _nearest(name, absent) for name in given if not _KUBERNETES_VARIABLE.fullmatch(name)}
    return {name: meant for name, meant in nearest.items() if meant is not None}


def _nearest(name: str, known: Iterable[str]) -> str | None:
    plain = environment_name(name)
    likeness = {meant: difflib.SequenceMatcher(None, plain, meant).ratio() for meant in known}
    near = [
        meant
        for meant, ratio in likeness.items()
        if ratio >= (LEAST_SHARE if _begins(plain, meant) else LEAST_LIKENESS)
    ]
    return max(near, key=lambda meant: likeness[meant], default=None)


def _begins(name: str, meant: str) -> bool:
    """Return whether a name lacks the last words of another, or has a few more."""
    return meant.startswith(f"{name}_") or name in {f"{meant}_{word}" for word in _NEEDLESS_WORDS}


@contextmanager
def reading(config_file: Path | None) -> Iterator[None]:
    """Make a file the settings' own for the block; `None` leaves it to `LOOKUP_CONFIG`."""
    token = _given_file.set(config_file)
    try:
        yield
    finally:
        _given_file.reset(token)


def config_file_name() -> str | None:
    """Name the file that settings are read from, if any."""
    given = _given_file.get()
    return os.environ.get(CONFIG_FILE_VARIABLE) or None if given is None else str(given)


def file_values(keys: Iterable[str]) -> dict[str, object]:
    """Read the settings' file, if there is one.

    Raises:
        ConfigurationError: The file cannot be read, is not a mapping, or has a key that is none.
    """
    name = config_file_name()
    if name is None:
        return {}
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name}: cannot be read: {_one_line(error)}") from error
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # What YAML says of a line quotes it, and there may be a secret in it.
        raise ConfigurationError(f"{name}: is not YAML{_place(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{name}: must be a mapping of keys, not {type(content).__name__}")
    known = list(keys)
    values = dict(_flattened(content, "", known))
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; `lookup-stage config` lists the keys"
            raise ConfigurationError(f"{name}: {key} is not a setting{hint}")
    return values


def nested(values: Mapping[str, object]) -> dict[str, Any]:
    """Nest values by the parts of their keys, as the settings model has them."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *groups, leaf = key.replace("-", "_").split(".")
        branch = tree
        for group in groups:
            branch = branch.setdefault(group, {})
        branch[leaf] = value
    return tree


def _keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        key = prefix + name.replace("_", "-")
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{key}.")
        else:
            yield key, field


def _flattened(content: Mapping[Any, Any], prefix: str, known: list[str]) -> Iterator[tuple[str, object]]:
    for name, value in content.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in known:
            yield from _flattened(value, f"{key}.", known)
        else:
            yield key, value


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f": see line {mark.line + 1}, column {mark.column + 1}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
