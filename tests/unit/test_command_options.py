"""What commands share: settings files, numbers, overwriting, variables that are nearly settings."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from streams.cli import cli, main
from streams.cli.config import lines
from streams.settings.sources import misspelt_variables
from tests.support.worker import CommandOutput

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandOutput]:
    """Return a function that runs a command in this process, where no server can be reached."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", NOWHERE)

    def run(*arguments: str) -> CommandOutput:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        printed = capsys.readouterr()
        return CommandOutput(code=int(ended.value.code or 0), stdout=printed.out, stderr=printed.err)

    return run


# --config


@pytest.mark.parametrize(
    "arguments",
    [
        ("--config", "FILE", "config"),
        ("config", "--config", "FILE"),
        ("--config", "other.yaml", "config", "--config", "FILE"),
    ],
    ids=" ".join,
)
def test_settings_file_may_stand_before_and_after_the_command(
    tmp_path: Path, run: Callable[..., CommandOutput], arguments: tuple[str, ...]
) -> None:
    """The nearer to the command wins."""
    file = tmp_path / "settings.yaml"
    file.write_text("rag:\n  return-n: 3\n", encoding="utf-8")
    done = run(*(str(file) if word == "FILE" else word for word in arguments))
    assert done.code == 0
    assert ["rag.return-n", "3", str(file)] in [line.split() for line in done.stdout.splitlines()]


def test_settings_file_may_stand_at_every_place_of_a_command_in_a_group(
    run: Callable[..., CommandOutput],
) -> None:
    """Of `dead-letters list` there are three."""
    for place in range(3):
        words = ["dead-letters", "list"]
        words[place:place] = ["--config", "not-there.yaml"]
        done = run(*words)
        assert (done.code, "not-there.yaml: cannot be read" in done.stderr) == (2, True)


def all_commands(group: click.Group) -> list[click.Command]:
    """Return the commands of a group and those in its groups."""
    inner = [one for one in group.commands.values() if isinstance(one, click.Group)]
    return [*group.commands.values(), *(each for one in inner for each in all_commands(one))]


@pytest.mark.parametrize("command", all_commands(cli), ids=lambda command: command.name)
def test_every_command_takes_a_settings_file(command: click.Command) -> None:
    """No command says that the option goes elsewhere."""
    assert "--config" in [option for parameter in command.params for option in parameter.opts]


# Numbers


def numeric_options() -> list[tuple[list[str], str]]:
    """Return every option of every command that takes a number."""
    places = [([name], command) for name, command in cli.commands.items()]
    places += [
        ([name, inner], subcommand)
        for name, group in cli.commands.items()
        if isinstance(group, click.Group)
        for inner, subcommand in group.commands.items()
    ]
    return [
        (words, parameter.opts[0])
        for words, command in places
        for parameter in command.params
        if isinstance(parameter.default, int | float) or parameter.type.name in {"NUMBER", "integer range"}
        if isinstance(parameter, click.Option) and not parameter.is_flag
    ]


def test_every_numeric_option_is_known() -> None:
    """So that none is missed below."""
    names = {option for _, option in numeric_options()}
    assert names >= {
        "--timeout",
        "--return-n",
        "--partitions",
        "--concurrency",
        "--rate",
        "--depth",
        "--worst",
    }


@pytest.mark.parametrize(("words", "option"), numeric_options(), ids=str)
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "-inf", "", "1e999", "99999999999999999999999x"])
def test_numbers_that_mean_nothing_are_refused(
    run: Callable[..., CommandOutput], words: list[str], option: str, value: str
) -> None:
    """One line that names the option, whatever else the command would want."""
    done = run(*words, f"{option}={value}")
    assert (done.code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"Invalid value for '{option}'" in done.stderr


@pytest.mark.parametrize("value", ["0", "-1", "nan"])
def test_what_a_number_must_be_is_said(run: Callable[..., CommandOutput], value: str) -> None:
    """With what was given."""
    assert f"'{value}' must be a finite number greater than 0" in run("ask", "x", "--timeout", value).stderr


@pytest.mark.parametrize(
    "bound", ["9" * 20, "9" * 5_000, "1969-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"]
)
def test_bounds_that_no_topic_has_are_refused(run: Callable[..., CommandOutput], bound: str) -> None:
    """Offsets have 63 bits, and Kafka's time begins in 1970."""
    done = run("record", "-o", "never.jsonl", "--from", bound)
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert "Invalid value for '--from'" in done.stderr


# Overwriting


@pytest.mark.parametrize("command", [["record"], ["replay", "IN"]], ids=" ".join)
def test_file_that_exists_is_not_overwritten_unasked(
    tmp_path: Path, run: Callable[..., CommandOutput], command: list[str]
) -> None:
    """Without a terminal it is refused, and the way to do it is named."""
    out = tmp_path / "out.jsonl"
    out.write_bytes(b"a good recording\n")
    done = run(*command, "-o", str(out))
    assert (done.code, done.stderr) == (2, f"lookup-stage: -o {out}: exists; --force overwrites it\n")
    assert out.read_bytes() == b"a good recording\n"


@pytest.mark.parametrize("command", [["record"], ["replay", "not-there.jsonl"]], ids=" ".join)
def test_file_that_exists_stays_when_the_command_fails(
    tmp_path: Path, run: Callable[..., CommandOutput], command: list[str]
) -> None:
    """Even if it may be overwritten."""
    out = tmp_path / "out.jsonl"
    out.write_bytes(b"a good recording\n")
    assert run(*command, "-o", str(out), "--force").code == 2
    assert (out.read_bytes(), list(tmp_path.iterdir())) == (b"a good recording\n", [out])


@pytest.mark.parametrize(
    ("answer", "why"), [("n", "exists and stays as it is"), ("y", "no broker can be reached")]
)
def test_on_a_terminal_the_user_is_asked(tmp_path: Path, answer: str, why: str) -> None:
    """`no` keeps the file; `yes` goes on, here to brokers that are not there."""
    out = tmp_path / "out.jsonl"
    out.write_bytes(b"a good recording\n")
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "streams", "record", "-o", str(out)],
            env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": NOWHERE},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as command:
            os.write(ours, f"{answer}\n".encode())
            assert command.wait(60) == 2
        shown = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "out.jsonl exists. Overwrite it?" in " ".join(shown.split())
    assert why in " ".join(shown.split())
    assert out.read_bytes() == b"a good recording\n"


def test_report_is_none_of_the_files_that_are_compared(
    tmp_path: Path, run: Callable[..., CommandOutput], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no two reports are one file."""
    monkeypatch.chdir(tmp_path)
    Path("base.jsonl").write_bytes(b"a good recording\n")
    for arguments, why in (
        (["--html", "base.jsonl"], "--html base.jsonl: must not be a file that is compared"),
        (["--html", "-", "--json"], "--html -: must not be the output of two reports"),
        (["--html", "r", "--junit", "r"], "r: must not be the output of two reports"),
    ):
        done = run("compare", "base.jsonl", "other.jsonl", *arguments)
        assert (done.code, done.stderr.count("\n")) == (2, 1)
        assert why in done.stderr
    assert Path("base.jsonl").read_bytes() == b"a good recording\n"


# Variables


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("RAG_TOPK", "RAG_TOP_K"),
        ("RAG_RETRIEVEK", "RAG_RETRIEVE_K"),
        ("rag_top_k", "RAG_TOP_K"),
        ("rag.top-k", "RAG_TOP_K"),
        ("RAG_RETURN", "RAG_RETURN_N"),
        ("KAFKA_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS"),
        ("KAFKA_BOOTSTRAP_SERVER", "KAFKA_BOOTSTRAP_SERVERS"),
        ("KAFKA_GROUPID", "KAFKA_GROUP_ID"),
        ("KAFAK_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS"),
        ("KAFKA_TOPIC_REQUESTS", "KAFKA_TOPICS_REQUESTS"),
        ("KAFKA_TOPICS_DEADLETTERS", "KAFKA_TOPICS_DEAD_LETTERS"),
        ("MILVUS_URL", "MILVUS_URI"),
        ("MILVUS_COLLECTION_NAME", "MILVUS_COLLECTION"),
        ("MILVUS_TOKENS", "MILVUS_TOKEN"),
        ("EMBEDDING_APIKEY", "EMBEDDING_API_KEY"),
        ("EMBEDDING_BASE_URI", "EMBEDDING_BASE_URL"),
        ("STAGE_MAX_INFLIGHT", "STAGE_MAX_IN_FLIGHT"),
        ("LOOKUP_CONFIG_FILE", "LOOKUP_CONFIG"),
    ],
)
def test_variable_that_is_nearly_a_setting_is_found(name: str, meant: str) -> None:
    """It has no effect, which nobody would notice."""
    assert misspelt_variables({name: "1"}) == {name: meant}


@pytest.mark.parametrize(
    "name",
    [
        *("KAFKA_HOME", "KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JMX_PORT", "KAFKA_VERSION"),
        *("KAFKA_LOG4J_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG_DIRS", "KAFKA_NODE_ID", "KAFKA_BROKER_ID"),
        *("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_CLUSTER_ID", "KAFKA_PROCESS_ROLES"),
        *("KAFKA_SASL_ENABLED_MECHANISMS", "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL"),
        *("KAFKA_SECURITY_INTER_BROKER_PROTOCOL", "KAFKA_SSL_KEYSTORE_FILENAME", "KAFKA_SSL_KEY_CREDENTIALS"),
        *("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "KAFKA_AUTO_CREATE_TOPICS_ENABLE", "KAFKA_CFG_NODE_ID"),
        *("KAFKA_PORT", "KAFKA_SERVICE_HOST", "KAFKA_SERVICE_PORT", "KAFKA_SERVICE_PORT_CLIENT"),
        *("KAFKA_PORT_9092_TCP", "KAFKA_PORT_9092_TCP_ADDR", "KAFKA_PORT_9092_TCP_PROTO"),
        *(
            "MILVUS_SERVICE_HOST",
            "MILVUS_SERVICE_PORT",
            "MILVUS_PORT_19530_TCP",
            "MILVUS_PORT",
            "MILVUS_HOST",
        ),
        *("MILVUS_USER", "MILVUS_ROOT_PASSWORD", "MILVUSCONF", "MILVUS_LOG_LEVEL", "MILVUS_VERSION"),
        *("SEARCH_HOST", "SEARCH_SERVICE_HOST", "SEARCH_PORT_80_TCP", "SEARCH_API_KEY", "SEARCH_ENDPOINT"),
        *("METRICS_PORT_9464_TCP", "METRICS_SERVICE_PORT", "STAGE", "STAGE_NAME", "RAG_HOME", "TRACING"),
        *("PATH", "HOME", "LANG", "LOOKUP", "OTEL_EXPORTER_OTLP_ENDPOINT", "EMBEDDING_DIM", "PROJECTION"),
    ],
)
def test_variable_of_another_program_is_left_alone(name: str) -> None:
    """A false alarm in every start is worse than none."""
    assert misspelt_variables({name: "1"}) == {}


def test_variable_of_a_setting_that_is_set_is_left_alone() -> None:
    """Whoever sets `MILVUS_URI` knows it, and has `MILVUS_URL` for another program; so is an empty one."""
    assert misspelt_variables({"MILVUS_URI": "http://a", "MILVUS_URL": "http://b", "RAG_TOPK": ""}) == {}


def test_commands_warn_once_and_go_on(
    run: Callable[..., CommandOutput], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line for each variable, on standard error."""
    monkeypatch.setenv("RAG_TOPK", "3")
    done = run("config")
    assert (done.code, done.stderr) == (
        0,
        "lookup-stage: RAG_TOPK is not a setting: did you mean RAG_TOP_K?\n",
    )
    assert run("config", "--help").stderr == ""


# config


def test_piped_config_never_breaks_a_value(
    run: Callable[..., CommandOutput], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each setting is one line, however narrow the terminal that is not there."""
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("MILVUS_URI", f"http://{'long' * 50}:19530")
    settings = [line.split() for line in run("config").stdout.splitlines()]
    assert ["milvus.uri", f"http://{'long' * 50}:19530", "environment", "MILVUS_URI"] in settings
    assert ["milvus.id-field", "id", "default"] in settings


def test_config_of_a_narrow_terminal_shows_key_value_and_origin() -> None:
    """Aligned where it fits, in one line without gaps where that fits, else below each other."""
    rows = [("rag.retrieve-k", "20", "default"), ("a", "b" * 40, "environment A"), ("c", "d", "default")]
    aligned = [
        "rag.retrieve-k  20  default",
        f"{'a':<14}  {'b' * 40}  environment A",
        f"{'c':<14}  d   default",
    ]
    assert list(lines(rows, None)) == list(lines(rows, 80)) == aligned
    below = ["rag.retrieve-k", "  20", "  default", "a", f"  {'b' * 40}", "  environment A"]
    assert list(lines(rows, 20)) == [*below, "c  d  default"]
