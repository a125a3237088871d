"""Settings: their keys, where they come from, and what a person is told of one that is wrong."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, get_args, get_origin

import pytest
from pydantic import SecretStr, ValidationError

from pipeline.errors import ConfigurationError
from pipeline.model import Limits
from streams.settings.loading import effective, load, origin
from streams.settings.model import MASK, Settings
from streams.settings.sources import environment_name, setting_keys
from tests.builders import limits

WriteFile: TypeAlias = Callable[[str], Path]

SECRET = "5EC7E7"
FIELDS = setting_keys(Settings)
KEYS = list(FIELDS)
SECRET_KEYS = [key for key, field in FIELDS.items() if SecretStr in get_args(field.annotation)]
SECONDS_KEYS = [key for key, field in FIELDS.items() if isinstance(field.default, float)]
COUNT_KEYS = ["rag.retrieve-k", "rag.return-n", "rag.top-k"]
COUNT_KEYS += [key for key, field in FIELDS.items() if type(field.default) is int]
SWITCH_KEYS = [key for key, field in FIELDS.items() if isinstance(field.default, bool)]
CHOICES = {
    key: get_args(field.annotation)[1]
    for key, field in FIELDS.items()
    if get_origin(field.annotation) is Literal
}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no setting in from outside, and none that `load` sets out of the test."""
    monkeypatch.setenv("LOOKUP_CONFIG", "")
    for key in KEYS:
        monkeypatch.delenv(environment_name(key), raising=False)


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Return a function that writes a configuration file."""

    def written(text: str) -> Path:
        path = tmp_path / "lookup.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def complaint(config_file: Path | None = None, overrides: dict[str, object] | None = None) -> str:
    """Return the one line with which loading is refused."""
    with pytest.raises(ConfigurationError) as refused:
        load(config_file, overrides)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    return message


def sample(key: str) -> tuple[str, object]:
    """Return text that is a value of the key, and the value as it is shown."""
    if key in COUNT_KEYS or key in SECONDS_KEYS:
        return "20", 20
    if key in SWITCH_KEYS:
        return "true", True
    if key == "milvus.search-params":
        return '{"ef": 20}', {"ef": 20}
    if key == "stage.recording":
        return "0.5", 0.5
    text = CHOICES.get(key, "a-name")
    return text, MASK if key in SECRET_KEYS else text


# Keys and names


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("rag.retrieve-k", 20),
        ("rag.return-n", 5),
        ("rag.top-k", None),
        ("rag.max-chunks-per-document", 2),
        ("rag.max-retrieve-k", 200),
        ("rag.tenant-field", None),
        ("projection.max-items", 20),
        ("projection.max-chars-per-item", 2_000),
        ("projection.max-total-chars", 8_000),
        ("projection.min-chars-per-item", 200),
        ("search.port", "milvus-dense"),
        ("kafka.bootstrap-servers", "localhost:9092"),
        ("kafka.group-id", "lookup-stage"),
        ("kafka.security-protocol", "PLAINTEXT"),
        ("kafka.sasl-username", None),
        ("kafka.sasl-password", None),
        ("kafka.ssl-ca-file", None),
        ("kafka.topics.requests", "lookup.requests"),
        ("kafka.topics.results", "lookup.results"),
        ("kafka.topics.dead-letters", "lookup.dead-letters"),
        ("kafka.topics.recordings", "lookup.recordings"),
        ("milvus.uri", "http://localhost:19530"),
        ("milvus.token", None),
        ("milvus.collection", "knowledge"),
    ],
)
def test_default_where_nothing_is_set(key: str, default: object) -> None:
    """Every key of the specification has its default."""
    assert effective(load())[key] == default
    assert origin(key) == "default"


def test_default_widths_where_nothing_is_set() -> None:
    """The recall is 20 wide and the return 5."""
    assert load().rag.limits == limits(retrieve_k=20, return_n=5, max_chunks_per_document=2)


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("RAG_RETRIEVE_K", "rag.retrieve-k"),
        ("RAG_MAX_CHUNKS_PER_DOCUMENT", "rag.max-chunks-per-document"),
        ("SEARCH_PORT", "search.port"),
        ("KAFKA_BOOTSTRAP_SERVERS", "kafka.bootstrap-servers"),
        ("KAFKA_TOPICS_REQUESTS", "kafka.topics.requests"),
        ("KAFKA_TOPICS_DEAD_LETTERS", "kafka.topics.dead-letters"),
    ],
)
def test_environment_name_is_the_key_in_capitals(variable: str, key: str) -> None:
    """Dots and hyphens are underscores in the environment."""
    assert environment_name(key) == variable


def test_environment_name_is_of_one_key() -> None:
    """No two keys share an environment variable."""
    assert len({environment_name(key) for key in KEYS}) == len(KEYS)


@pytest.mark.parametrize("key", KEYS)
def test_environment_sets_every_key(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key can be set in the environment, and its origin says so."""
    text, value = sample(key)
    monkeypatch.setenv(environment_name(key), text)
    assert effective(load())[key] == value
    assert origin(key) == f"environment {environment_name(key)}"


@pytest.mark.parametrize("key", KEYS)
def test_file_sets_every_key(key: str, write: WriteFile) -> None:
    """Every key can be set in the file, and its origin says so."""
    text, value = sample(key)
    path = write(f"{key}: {text}")
    assert effective(load(path))[key] == value
    assert origin(key, path) == str(path)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("kafka.topics.dead-letters: mine", id="dotted"),
        pytest.param("kafka: {topics: {dead-letters: mine}}", id="nested"),
        pytest.param("kafka.topics: {dead-letters: mine}", id="dotted group"),
        pytest.param("kafka: {topics.dead-letters: mine}", id="dotted in a group"),
        pytest.param("\ufeffkafka.topics.dead-letters: mine", id="after a byte order mark"),
    ],
)
def test_file_keys_may_be_dotted_or_nested(text: str, write: WriteFile) -> None:
    """A key may be split into groups at any of its dots."""
    assert load(write(text)).kafka.topics.dead_letters == "mine"


def test_file_groups_keep_the_defaults_of_their_other_keys(write: WriteFile) -> None:
    """Naming one key of a group, or an empty group, leaves the others as they are."""
    topics = load(write("kafka: {topics: {results: mine}}\nrag: {}")).kafka.topics
    assert (topics.results, topics.requests) == ("mine", "lookup.requests")


@pytest.mark.parametrize("text", ["", "# nothing but a comment", "---"])
def test_file_may_be_empty(text: str, write: WriteFile) -> None:
    """An empty file sets nothing."""
    assert effective(load(write(text))) == effective(load())


def test_mapping_in_the_environment_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping is the JSON text of an object there."""
    monkeypatch.setenv("MILVUS_SEARCH_PARAMS", '{"ef": 128, "nested": {"a": [1]}}')
    assert load().milvus.search_params == {"ef": 128, "nested": {"a": [1]}}


def test_mapping_in_the_file_is_not_split_into_keys(write: WriteFile) -> None:
    """What stands below a key that is a mapping is its value."""
    params = load(write("milvus: {search-params: {ef: 128, radius.min: 1}}")).milvus.search_params
    assert params == {"ef": 128, "radius.min": 1}


def test_settings_are_frozen() -> None:
    """Nothing changes a setting after the start."""
    settings = load()
    with pytest.raises(ValidationError, match="frozen"):
        settings.rag.retrieve_k = 7


# Which one wins, and where it came from


def test_environment_wins_over_the_file(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's value is in force, and named as the origin."""
    monkeypatch.setenv("RAG_RETRIEVE_K", "40")
    path = write("rag: {retrieve-k: 30, return-n: 7}")
    settings = load(path)
    assert (settings.rag.retrieve_k, settings.rag.return_n) == (40, 7)
    assert origin("rag.retrieve-k", path) == "environment RAG_RETRIEVE_K"
    assert origin("rag.return-n", path) == str(path)


def test_overrides_win_over_the_environment(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line's value is in force, and named as the origin."""
    monkeypatch.setenv("RAG_RETRIEVE_K", "40")
    overrides: dict[str, object] = {"rag.retrieve-k": 50}
    assert load(write("rag.retrieve-k: 30"), overrides).rag.retrieve_k == 50
    assert origin("rag.retrieve-k", overrides=overrides) == "command line"
    assert origin("rag.return-n", overrides=overrides) == "default"


def test_empty_variable_counts_as_absent(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable neither wins over the file nor is an origin."""
    monkeypatch.setenv("RAG_RETRIEVE_K", "")
    path = write("rag.retrieve-k: 30")
    assert load(path).rag.retrieve_k == 30
    assert origin("rag.retrieve-k", path) == str(path)


def test_config_variable_names_the_file(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `--config`, `LOOKUP_CONFIG` names the file."""
    monkeypatch.setenv("LOOKUP_CONFIG", str(write("rag.retrieve-k: 30")))
    assert load().rag.retrieve_k == 30


def test_loading_a_file_leaves_no_trace(write: WriteFile) -> None:
    """Settings loaded next, or in a process started next, do not come from it."""
    before = dict(os.environ)
    load(write("rag.retrieve-k: 30"))
    assert os.environ == before
    assert load().rag.limits.retrieve_k == 20


def test_config_file_wins_over_the_variable(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--config`, the file that `LOOKUP_CONFIG` names is not read."""
    monkeypatch.setenv("LOOKUP_CONFIG", "/no/such/file.yaml")
    assert load(write("rag.retrieve-k: 30")).rag.retrieve_k == 30


def test_variables_of_groups_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that only look like settings are left alone: others own them."""
    monkeypatch.setenv("RAG", "5")
    monkeypatch.setenv("KAFKA_TOPICS", "5")
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1G")
    assert effective(load())["rag.retrieve-k"] == 20


# Keys that are none


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        ("rag.retreive-k: 5", "rag.retreive-k", "rag.retrieve-k"),
        ("rag: {retrieve_k: 5}", "rag.retrieve_k", "rag.retrieve-k"),
        ("kafka: {topics: {dead-letter: x}}", "kafka.topics.dead-letter", "kafka.topics.dead-letters"),
        ("kafka.bootstrap-server: x", "kafka.bootstrap-server", "kafka.bootstrap-servers"),
    ],
)
def test_unknown_key_is_refused_with_a_suggestion(text: str, key: str, meant: str, write: WriteFile) -> None:
    """A typo does not pass: the error names the file, the key and the key that was meant."""
    path = write(text)
    assert complaint(path) == f"{path}: {key} is not a setting; did you mean {meant}?"


@pytest.mark.parametrize("text", ["colour: red", "5: 6", "rag: 5", "rag: [1]", "rag:", "rag: {5: 3}"])
def test_unknown_key_like_no_other_is_refused(text: str, write: WriteFile) -> None:
    """Where no key is near, the error says where to look them up."""
    assert complaint(write(text)).endswith("is not a setting; `lookup-stage config` lists the keys")


@pytest.mark.parametrize("key", ["rag.retrieve_k", "rag", ""])
def test_unknown_override_is_refused(key: str) -> None:
    """A key on the command line must be one of the settings'."""
    assert complaint(overrides={key: 5}).startswith(f"{key} is not a setting")


# Values that are wrong


@pytest.mark.parametrize(
    ("key", "value", "shown", "allowed"),
    [
        ("rag.retrieve-k", "twenty", "'twenty'", "must be a valid integer"),
        ("rag.retrieve-k", "0", "0", "must be greater than 0"),
        ("rag.retrieve-k", "-1", "-1", "must be greater than 0"),
        ("rag.retrieve-k", "2.5", "2.5", "must be a valid integer"),
        ("rag.retrieve-k", "[1]", "[1]", "must be a valid integer"),
        ("rag.retrieve-k", "'1 0'", "'1 0'", "must be a valid integer"),
        ("rag.retrieve-k", '"1\\n0"', "'1\\n0'", "must be a valid integer"),
        ("rag.max-retrieve-k", "", "None", "must be a valid integer"),
        ("rag.tenant-field", "' '", "' '", "should match pattern"),
        ("search.timeout", "0", "0", "must be greater than 0"),
        ("search.timeout", "soon", "'soon'", "must be a valid number"),
        ("search.port", "''", "''", "should have at least 1 character"),
        ("kafka.topics.requests", "5", "5", "must be a valid string"),
        ("kafka.bootstrap-servers", "[a, b]", "['a', 'b']", "must be a valid string"),
        (
            "kafka.security-protocol",
            "sasl_ssl",
            "'sasl_ssl'",
            "must be 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT' or 'SASL_SSL'",
        ),
        (
            "kafka.sasl-mechanism",
            "GSSAPI",
            "'GSSAPI'",
            "must be 'PLAIN', 'SCRAM-SHA-256' or 'SCRAM-SHA-512'",
        ),
        ("milvus.search-params", "[1]", "[1]", "must be a valid object"),
        ("milvus.search-params", "'{'", "'{'", "must be the JSON text of an object"),
        ("stage.log-level", "INFO", "'INFO'", "must be 'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_bad_value_names_key_value_origin_and_what_is_allowed(
    key: str, value: str, shown: str, allowed: str, write: WriteFile
) -> None:
    """One line says what is wrong with a value of the file."""
    path = write(f"{key}: {value}")
    message = complaint(path)
    assert message.startswith(f"{key} = {shown} ({path}): ")
    assert allowed in message


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("rag.retrieve-k", "twenty", "must be a valid integer"),
        ("rag.retrieve-k", " ", "must be a valid integer"),
        ("stage.drain-timeout", "-1", "must be greater than 0"),
        ("kafka.security-protocol", "TLS", "must be 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT' or 'SASL_SSL'"),
        ("milvus.search-params", "ef=5", "must be the JSON text of an object"),
    ],
)
def test_bad_value_in_the_environment_names_the_variable(
    key: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what is wrong with a value of the environment."""
    monkeypatch.setenv(environment_name(key), value)
    message = complaint()
    assert message.startswith(f"{key} = {value!r} (environment {environment_name(key)}): ")
    assert allowed in message


def test_bad_value_on_the_command_line_names_the_command_line() -> None:
    """One line says what is wrong with an override."""
    assert (
        complaint(overrides={"rag.return-n": 0}) == "rag.return-n = 0 (command line): must be greater than 0"
    )


def test_bad_values_are_all_named_in_the_one_line(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to start the stage once for each mistake."""
    monkeypatch.setenv("STAGE_LOG_LEVEL", "loud")
    message = complaint(write("rag: {retrieve-k: 0, return-n: many}"))
    assert all(key in message for key in ("rag.retrieve-k = 0", "rag.return-n = 'many'", "stage.log-level"))


def test_bad_value_inside_a_mapping_names_its_origin(write: WriteFile) -> None:
    """What is wrong inside a mapping came from where the mapping came from."""
    path = write("milvus.search-params: {5: 1}")
    assert f"({path})" in complaint(path)


@pytest.mark.parametrize("key", [*COUNT_KEYS, *SECONDS_KEYS])
@pytest.mark.parametrize("value", ["true", "false"])
def test_booleans_are_not_numbers(key: str, value: str, write: WriteFile) -> None:
    """`true` is not 1."""
    assert complaint(write(f"{key}: {value}")).endswith("must be a number, not a boolean")


@pytest.mark.parametrize("key", SECONDS_KEYS)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "Infinity"])
def test_seconds_in_the_environment_are_finite(key: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout that never comes, or is no number, is refused."""
    monkeypatch.setenv(environment_name(key), value)
    assert complaint().endswith("must be a finite number")


@pytest.mark.parametrize("key", SECONDS_KEYS)
@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_seconds_in_the_file_are_finite(key: str, value: str, write: WriteFile) -> None:
    """A timeout that never comes, or is no number, is refused."""
    assert complaint(write(f"{key}: {value}")).endswith("must be a finite number")


@pytest.mark.parametrize("key", SECONDS_KEYS)
def test_seconds_may_be_fractions(key: str, write: WriteFile) -> None:
    """Half a second is a timeout."""
    assert effective(load(write(f"{key}: 0.5")))[key] == 0.5


# Widths


@pytest.mark.parametrize(
    ("text", "share"),
    [("off", 0.0), ("'off'", 0.0), ("all", 1.0), ("1", 1.0), ("0.01", 0.01), ("'0.01'", 0.01)],
)
def test_recording_is_off_all_or_a_share(text: str, share: float, write: WriteFile) -> None:
    """YAML reads `off` as a boolean, and the environment has text only."""
    assert load(write(f"stage: {{recording: {text}}}")).stage.recorded_share == share


@pytest.mark.parametrize("text", ["on", "true", "none", "0", "-0.1", "1.5", ".nan", "[all]"])
def test_recording_of_anything_else_is_refused(text: str, write: WriteFile) -> None:
    """The line says what is allowed."""
    line = complaint(write(f"stage: {{recording: {text}}}"))
    assert line.startswith("stage.recording = ")
    assert line.endswith("must be off, all, or the share of requests to record, over 0 and at most 1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("top-k: 8", limits(retrieve_k=8, return_n=8), id="stands in for both"),
        pytest.param("{top-k: 8, retrieve-k: 30}", limits(retrieve_k=30, return_n=8), id="for return-n"),
        pytest.param("{top-k: 8, return-n: 3}", limits(retrieve_k=8, return_n=3), id="for retrieve-k"),
        pytest.param(
            "{top-k: 8, retrieve-k: 30, return-n: 3}", limits(retrieve_k=30, return_n=3), id="for neither"
        ),
        pytest.param("{retrieve-k: 30}", limits(retrieve_k=30, return_n=5), id="absent"),
        pytest.param("{retrieve-k: 9, return-n: 9}", limits(retrieve_k=9, return_n=9), id="equal widths"),
        pytest.param("{top-k: 200}", limits(retrieve_k=200, return_n=200), id="as wide as is allowed"),
        pytest.param("{max-chunks-per-document: 1}", limits(max_chunks_per_document=1), id="cap of one"),
    ],
)
def test_top_k_stands_in_for_the_width_that_is_absent(text: str, expected: Limits, write: WriteFile) -> None:
    """The legacy width fills in for whichever of the two is absent, and for nothing else."""
    body = text if text.startswith("{") else f"{{{text}}}"
    assert load(write(f"rag: {body}")).rag.limits == expected


def test_top_k_in_the_environment_does_not_win_over_widths_of_the_file(
    write: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`top-k` is another key: the environment wins key by key."""
    monkeypatch.setenv("RAG_TOP_K", "8")
    assert load(write("rag.retrieve-k: 30")).rag.limits == limits(retrieve_k=30, return_n=8)


def test_return_n_over_retrieve_k_names_both_keys_and_origins(
    write: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names both keys, both values and where each came from."""
    monkeypatch.setenv("RAG_RETURN_N", "31")
    path = write("rag.retrieve-k: 30")
    assert complaint(path) == (
        f"rag.return-n = 31 (environment RAG_RETURN_N) must not be greater than rag.retrieve-k = 30 ({path})"
    )


def test_return_n_over_retrieve_k_names_the_default(write: WriteFile) -> None:
    """A recall narrower than the default return width is an error that says which one is the default."""
    path = write("rag.retrieve-k: 3")
    assert complaint(path) == (
        f"rag.return-n = 5 (default) must not be greater than rag.retrieve-k = 3 ({path})"
    )


def test_return_n_over_retrieve_k_names_top_k_as_the_origin(write: WriteFile) -> None:
    """A width that `top-k` stands in for says so."""
    path = write("rag: {top-k: 3, return-n: 4}")
    assert complaint(path) == (
        f"rag.return-n = 4 ({path}) must not be greater than rag.retrieve-k = 3 (rag.top-k, {path})"
    )


def test_return_n_over_retrieve_k_names_the_command_line(write: WriteFile) -> None:
    """An override that does not fit the file is named as such."""
    path = write("rag.return-n: 9")
    assert complaint(path, {"rag.retrieve-k": 8}) == (
        f"rag.return-n = 9 ({path}) must not be greater than rag.retrieve-k = 8 (command line)"
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("retrieve-k: 201", "rag.retrieve-k = 201 ({path})"),
        ("top-k: 201", "rag.retrieve-k = 201 (rag.top-k, {path})"),
    ],
)
def test_retrieve_k_over_its_bound_names_both_keys(text: str, named: str, write: WriteFile) -> None:
    """The configured recall is held to the bound of the requests' own."""
    path = write(f"rag: {{{text}}}")
    assert complaint(path) == (
        f"{named.format(path=path)} must not be greater than rag.max-retrieve-k = 200 (default)"
    )


def test_retrieve_k_over_a_lowered_bound_names_the_default(write: WriteFile) -> None:
    """Lowering only the bound is an error, and says that the recall is the default."""
    path = write("rag.max-retrieve-k: 10")
    assert complaint(path) == (
        f"rag.retrieve-k = 20 (default) must not be greater than rag.max-retrieve-k = 10 ({path})"
    )


# Secrets


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_secrets_are_masked_wherever_settings_are_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No way of printing settings shows a secret."""
    monkeypatch.setenv(environment_name(key), SECRET)
    settings = load()
    group, _, name = key.replace("-", "_").partition(".")
    held = getattr(getattr(settings, group), name)
    assert isinstance(held, SecretStr)
    assert held.get_secret_value() == SECRET
    assert effective(settings)[key] == MASK
    shown = [repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump())]
    assert not any(SECRET in text for text in [*shown, str(effective(settings))])


@pytest.mark.parametrize("key", SECRET_KEYS)
@pytest.mark.parametrize("value", [f"[{SECRET}]", f"{{a: {SECRET}}}"])
def test_secrets_are_masked_in_errors(key: str, value: str, write: WriteFile) -> None:
    """A secret of the wrong type is named, not shown."""
    path = write(f"{key}: {value}")
    assert complaint(path) == f"{key} = {MASK} ({path}): must be a valid string"


@pytest.mark.parametrize("key", ["milvus.uri", "embedding.base-url"])
def test_secrets_in_addresses_are_masked(key: str, write: WriteFile) -> None:
    """User and password that stand in an address are shown neither as a value nor in an error."""
    settings = load(write(f"{key}: https://user:{SECRET}@host:19530/v1"))
    assert effective(settings)[key] == f"https://{MASK}@host:19530/v1"
    assert SECRET not in complaint(write(f"{key}: [https://user:{SECRET}@host]"))


def test_secrets_in_addresses_are_masked_in_reprs(write: WriteFile) -> None:
    """The repr of the settings, which ends up in tracebacks, does not show them either."""
    assert SECRET not in repr(load(write(f"milvus.uri: https://user:{SECRET}@host")))


def test_secrets_are_not_shown_with_a_misspelt_key(write: WriteFile) -> None:
    """The error for a key that is none does not show its value."""
    assert SECRET not in complaint(write(f"kafka.sasl-passwort: {SECRET}"))


@pytest.mark.parametrize("value", [f"@{SECRET}", f'"{SECRET}', f"{SECRET}: x", f"%{SECRET}"])
def test_secrets_are_not_shown_where_the_file_is_not_yaml(value: str, write: WriteFile) -> None:
    """A password that would have needed quotes stands neither in the error nor in its traceback."""
    with pytest.raises(ConfigurationError) as refused:
        load(write(f"kafka.sasl-password: {value}"))
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_secrets_are_masked_in_tracebacks(write: WriteFile) -> None:
    """Logging the error with its traceback does not show the secret either."""
    with pytest.raises(ConfigurationError) as refused:
        load(write(f"kafka.sasl-password: [{SECRET}]"))
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_secrets_are_all_of_the_type_that_masks() -> None:
    """Whatever is called a password, key or token is held as a secret."""
    named = [key for key in KEYS if key.endswith(("password", "token", "api-key", "secret"))]
    assert named == SECRET_KEYS
    assert {"kafka.sasl-password", "kafka.ssl-key-password", "milvus.token", "embedding.api-key"} <= {*named}


# SASL


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(
    ("credentials", "missing"),
    [
        ("", "kafka.sasl-username"),
        ("kafka.sasl-username: u", "kafka.sasl-password"),
        ("kafka.sasl-password: p", "kafka.sasl-username"),
    ],
)
def test_sasl_needs_user_and_password(
    protocol: str, credentials: str, missing: str, write: WriteFile
) -> None:
    """The error names the key that is missing and the one that asks for it."""
    message = complaint(write(f"kafka.security-protocol: {protocol}\n{credentials}"))
    assert message == f"{missing} is not set: kafka.security-protocol = {protocol} needs it"


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_sasl_with_user_and_password_loads(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both together are enough."""
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", protocol)
    monkeypatch.setenv("KAFKA_SASL_USERNAME", "u")
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", SECRET)
    assert load().kafka.security_protocol == protocol


def test_sasl_password_that_is_empty_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unset secret in a deployment is an empty variable."""
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("KAFKA_SASL_USERNAME", "u")
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "")
    assert complaint().startswith("kafka.sasl-password is not set")


# The file itself


def test_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """A file that was named and is not there is an error."""
    path = tmp_path / "none.yaml"
    message = complaint(path)
    assert message.startswith(f"{path}: cannot be read: ")
    assert "No such file" in message


def test_file_that_the_variable_names_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable's file is not optional either."""
    monkeypatch.setenv("LOOKUP_CONFIG", "/no/such/file.yaml")
    assert complaint().startswith("/no/such/file.yaml: cannot be read: ")


def test_file_that_is_a_directory_is_named(tmp_path: Path) -> None:
    """A directory is no file."""
    assert complaint(tmp_path).startswith(f"{tmp_path}: cannot be read: ")


def test_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    """Another encoding is not guessed."""
    path = tmp_path / "lookup.yaml"
    path.write_bytes("kafka.group-id: Aufträge".encode("latin-1"))
    assert complaint(path).startswith(f"{path}: cannot be read: 'utf-8' codec can't decode")


@pytest.mark.parametrize(
    "text", ["{", "a: [", "a: b: c", "\t- a", "a: \x00", "--- 1\n--- 2", "a: !!python/object:os.system x"]
)
def test_file_that_is_not_yaml_is_named(text: str, write: WriteFile) -> None:
    """The file is named, and never what stands in it."""
    path = write(text)
    assert complaint(path).startswith(f"{path}: is not YAML")


def test_file_that_is_not_yaml_is_named_with_the_place(write: WriteFile) -> None:
    """Line and column help to find what is wrong without showing it."""
    path = write("kafka.group-id: mine\nkafka.sasl-password: @mine")
    assert complaint(path) == f"{path}: is not YAML: see line 2, column 22"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("kafka.group-id: 2026-13-45", id="a date that is none"),
        pytest.param("rag.retrieve-k: " + "9" * 5_000, id="a number of 5,000 digits"),
        pytest.param("a: " + "[" * 500, id="nested 500 deep"),
    ],
)
def test_file_that_yaml_cannot_construct_is_named(text: str, write: WriteFile) -> None:
    """Text that is YAML and has no value is an error of one line, not a traceback."""
    path = write(text)
    assert complaint(path).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "what"), [("- a", "list"), ("just text", "str"), ("5", "int"), ("true", "bool"), ("[]", "list")]
)
def test_file_that_is_not_a_mapping_is_named(text: str, what: str, write: WriteFile) -> None:
    """A list or a scalar has no keys."""
    path = write(text)
    assert complaint(path) == f"{path}: must be a mapping of keys, not {what}"


def test_one_topic_for_two_purposes_is_refused(write: WriteFile) -> None:
    """A stage that reads what it writes would answer itself without end."""
    assert complaint(write("kafka.topics.results: lookup.requests")) == (
        "kafka.topics.results = lookup.requests: must not be the topic of kafka.topics.requests"
    )
