"""Loading settings so that what is wrong with them fits into one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from pipeline.errors import ConfigurationError
from streams.settings.complaints import complaint
from streams.settings.model import MASK, Group, ProjectionSettings, RagSettings, Settings, masked
from streams.settings.sources import (
    config_file_name,
    environment_name,
    environment_values,
    file_values,
    nested,
    reading,
    setting_keys,
)

DEFAULT = "default"


def load(config_file: Path | None = None, overrides: Mapping[str, object] | None = None) -> Settings:
    """Load the settings from overrides, the environment and a file; the first that has a key wins.

    Args:
        config_file: A YAML file; `None` for the one that `LOOKUP_CONFIG` names, if any.
        overrides: Values by key, such as `{"rag.retrieve-k": 30}`.

    Raises:
        ConfigurationError: One line that names the key, the value, where it came from and what is allowed.
    """
    given = overrides or {}
    for key in given:
        _check_key(key)
    with reading(config_file):
        try:
            settings = Settings(**nested(given))
        except ValidationError as error:
            raise ConfigurationError("; ".join(_complaints(error, given))) from error
        _check_widths(settings, given)
    _check_sasl(settings)
    _check_topics(settings)
    return settings


class _Limits(Group):
    """The groups whose values can be tried on recorded lookups."""

    rag: RagSettings = RagSettings()
    projection: ProjectionSettings = ProjectionSettings()


def assignments(texts: Iterable[str], *, groups: Sequence[str]) -> dict[str, object]:
    """Read `KEY=VALUE` texts of the command line.

    Args:
        texts: The later of two for one key wins.
        groups: The first parts that keys may have.

    Raises:
        ConfigurationError: One of them is not `KEY=VALUE`, or its key is not a setting of these groups.
    """
    given: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigurationError(f"{text!r} is not KEY=VALUE, such as rag.max-chunks-per-document=3")
        _check_key(key)
        if key.partition(".")[0] not in groups:
            allowed = " and ".join(f"{group}.*" for group in groups)
            raise ConfigurationError(f"{key} cannot be set here, only {allowed} can")
        given[key] = value
    return given


def load_limits(given: Mapping[str, object]) -> tuple[RagSettings, ProjectionSettings]:
    """Read limits from values by key alone, without a file and the environment.

    Returns:
        Settings of which `model_fields_set` names what was given.

    Raises:
        ConfigurationError: One line that names the key, the value and what is allowed.
    """
    try:
        limits = _Limits(**nested(given))
    except ValidationError as error:
        raise ConfigurationError("; ".join(_complaints(error, given))) from error
    return limits.rag, limits.projection


def origin(key: str, config_file: Path | None = None, overrides: Mapping[str, object] | None = None) -> str:
    """Return where `load` with the same arguments takes a key's value from."""
    with reading(config_file):
        return _origin(key, overrides or {})


def _check_key(key: str) -> None:
    if key not in setting_keys(Settings):
        raise ConfigurationError(f"{key} is not a setting; `lookup-stage config` lists the keys")


def _origin(key: str, overrides: Mapping[str, object]) -> str:
    keys = setting_keys(Settings)
    if key in overrides:
        return "command line"
    if key in environment_values(keys):
        return f"environment {environment_name(key)}"
    if key in file_values(keys):
        return str(config_file_name())
    return DEFAULT


def effective(settings: Settings) -> dict[str, object]:
    """Return every key with the value in force; secrets are masked, those that stand in an address too."""
    values: dict[str, object] = {}
    for key in setting_keys(Settings):
        value: object = settings
        for part in key.replace("-", "_").split("."):
            value = getattr(value, part)
        values[key] = masked(value)
    limits = settings.rag.limits
    return values | {"rag.retrieve-k": limits.retrieve_k, "rag.return-n": limits.return_n}


def sources(settings: Settings, config_file: Path | None = None) -> dict[str, str]:
    """Return every key with where its value comes from."""
    widths = ("rag.retrieve-k", "rag.return-n")
    with reading(config_file):
        return {key: _origin(key, {}) for key in setting_keys(Settings)} | {
            key: _width_origin(key, settings, {}) for key in widths
        }


def _complaints(error: ValidationError, overrides: Mapping[str, object]) -> list[str]:
    keys = setting_keys(Settings)
    lines = []
    for detail in error.errors(include_url=False):
        key = _key_of(detail["loc"])
        field = keys.get(key)
        shown = MASK if field is not None and _is_secret(field) else masked(repr(detail["input"]))
        lines.append(f"{key} = {shown} ({_origin(key, overrides)}): {complaint(detail)}")
    return lines


def _key_of(location: tuple[int | str, ...]) -> str:
    """Find the setting that a place inside it belongs to."""
    parts = [str(part).replace("_", "-") for part in location]
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    known = setting_keys(Settings)
    return next((prefix for prefix in prefixes if prefix in known), ".".join(parts))


def _is_secret(field: FieldInfo) -> bool:
    return "SecretStr" in str(field.annotation)


def _check_widths(settings: Settings, overrides: Mapping[str, object]) -> None:
    limits, ceiling = settings.rag.limits, settings.rag.max_retrieve_k
    recall, returned = (
        f"{key} = {value} ({_width_origin(key, settings, overrides)})"
        for key, value in (("rag.retrieve-k", limits.retrieve_k), ("rag.return-n", limits.return_n))
    )
    if limits.retrieve_k > ceiling:
        raise ConfigurationError(
            f"{recall} must not be greater than rag.max-retrieve-k = {ceiling}"
            f" ({_origin('rag.max-retrieve-k', overrides)})"
        )
    if limits.return_n > limits.retrieve_k:
        raise ConfigurationError(f"{returned} must not be greater than {recall}")


def _width_origin(key: str, settings: Settings, overrides: Mapping[str, object]) -> str:
    """Return where a width comes from, which may be the legacy key that stands in for it."""
    given = _origin(key, overrides)
    if given == DEFAULT and settings.rag.top_k is not None:
        return f"rag.top-k, {_origin('rag.top-k', overrides)}"
    return given


def _check_sasl(settings: Settings) -> None:
    kafka = settings.kafka
    if not kafka.security_protocol.startswith("SASL"):
        return
    password = "" if kafka.sasl_password is None else kafka.sasl_password.get_secret_value()
    for key, value in (("sasl-username", kafka.sasl_username), ("sasl-password", password)):
        if not value:
            raise ConfigurationError(
                f"kafka.{key} is not set: kafka.security-protocol = {kafka.security_protocol} needs it"
            )


def _check_topics(settings: Settings) -> None:
    """Refuse one topic for two purposes: the stage would answer its own answers without end."""
    seen: dict[str, str] = {}
    for name, topic in settings.kafka.topics.model_dump().items():
        key = f"kafka.topics.{name.replace('_', '-')}"
        if topic in seen:
            raise ConfigurationError(f"{key} = {topic}: must not be the topic of {seen[topic]}")
        seen[topic] = key
