"""How commands end: exit code and at most one line, whatever happens to their output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from streams.cli import main
from streams.cli.exits import exit_code
from streams.recordings.files import writing_recordings
from streams.recordings.recording import encode_recording
from tests.builders import answer, hit, recording

COMMAND = (sys.executable, "-m", "streams")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of one recording."""
    path = tmp_path / "file.jsonl"
    with writing_recordings(path) as write:
        write(encode_recording(recording(answer(hit("docA", 0, content="日本語 …")))))
    return path


def run(
    *arguments: object,
    stdout: int = subprocess.PIPE,
    environment: Mapping[str, str] = {},
    program: str | None = None,
) -> tuple[int, bytes, bytes]:
    """Run a command, or a program that calls it, outside any terminal; return exit code and output."""
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = COMMAND if program is None else (sys.executable, "-c", program)
    done = subprocess.run(
        [*command, *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=inherited | dict(environment),
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout or b"", done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "FILE", "FILE"],
        ["compare", "FILE", "FILE", "--json"],
        ["config"],
        ["replay", "FILE", "-o", "-"],
    ],
    ids=" ".join,
)
def test_full_standard_output_is_one_line_and_exit_2(file: Path, command: list[str]) -> None:
    """Exit code 1 would say that something is below its threshold."""
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        code, _, error = run(*(str(file) if word == "FILE" else word for word in command), stdout=full)
    finally:
        os.close(full)
    assert (code, error.count(b"\n")) == (2, 1), error
    assert b"cannot be written: No space left on device" in error


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "FILE", "FILE"],
        ["compare", "FILE", "FILE", "--json"],
        ["config"],
        ["replay", "FILE", "-o", "-"],
    ],
    ids=" ".join,
)
def test_reader_that_is_gone_ends_the_command_without_a_word(file: Path, command: list[str]) -> None:
    """As `head` leaves it; the code is that of SIGPIPE in a shell."""
    reading, pipe = os.pipe()
    os.close(reading)
    try:
        code, _, error = run(*(str(file) if word == "FILE" else word for word in command), stdout=pipe)
    finally:
        os.close(pipe)
    assert (code, error) == (141, b"")


@pytest.mark.parametrize("encoding", ["iso-8859-1", "ascii"])
def test_characters_that_a_terminal_lacks_are_replaced(file: Path, encoding: str) -> None:
    """The arrow and the bullets of the comparison have plain forms."""
    code, shown, error = run("compare", file, file, environment={"PYTHONIOENCODING": encoding})
    assert (code, error) == (0, b"")
    text = shown.decode(encoding)
    assert f"{file} -> {file}" in text
    assert "\n* Nothing changed" in text


def test_disk_that_is_full_leaves_the_file_that_was_there(file: Path, tmp_path: Path) -> None:
    """Nothing of the new content is left behind, which would fill the disk further."""
    out = tmp_path / "out.jsonl"
    out.write_bytes(b"a good recording")
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from streams.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "main(sys.argv[1:])\n"
    )
    environment = {"PYTHONDONTWRITEBYTECODE": "1"}
    code, _, error = run("replay", file, "-o", out, "--force", program=program, environment=environment)
    assert (code, error.decode()) == (2, f"lookup-stage: {out}: cannot be written: File too large\n")
    assert out.read_bytes() == b"a good recording"
    assert sorted(tmp_path.iterdir()) == [file, out]


def test_temporary_folder_that_takes_nothing_is_one_line_and_exit_2(file: Path) -> None:
    """`compare` keeps what it joins there."""
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from streams.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "main(sys.argv[1:])\n"
    )
    code, _, error = run("compare", file, file, program=program, environment={"PYTHONDONTWRITEBYTECODE": "1"})
    assert (code, error.count(b"\n")) == (2, 1), error
    assert b"temporary files cannot be written" in error


def test_unforeseen_error_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    """It names the error and its place, on a line of its own whatever its text."""

    def failing() -> None:
        raise KeyError("two\nlines\x1b[2J")

    assert exit_code(failing) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("lookup-stage: unforeseen error, KeyError at test_command_ends.py:")
    assert "\x1b" not in line


def test_python_development_mode_shows_where_an_unforeseen_error_came_from() -> None:
    """Whoever reports a fault needs the traceback."""
    program = "import sys\nfrom streams.cli import exits\nsys.exit(exits.exit_code(lambda: 1 / 0))\n"
    code, _, error = run(program=program, environment={"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "ignore"})
    assert code == 2
    assert b"Traceback" in error


def test_broken_connection_is_not_taken_for_a_reader_that_is_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A server's broken pipe is told."""

    def failing() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    assert exit_code(failing) == 2
    assert "Broken pipe" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "code", "how"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_signals_end_a_command_with_their_codes_and_keep_what_was_there(
    file: Path, number: signal.Signals, code: int, how: str
) -> None:
    """What was written by then is beside the file that exists, and nothing else is left behind."""
    out = file.with_name("out.jsonl")
    out.write_bytes(b"old")
    program = (
        "import os, sys\n"
        "from streams.replay import frozen\n"
        "replay = frozen.replay_frozen\n"
        "def interrupting(file, recordings, write, change):\n"
        "    replay(file, recordings, write, change)\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    os.read(os.pipe()[0], 1)\n"
        "frozen.replay_frozen = interrupting\n"
        "from streams.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    ended, _, error = run("replay", file, "-o", out, "--force", program=program)
    kept = file.with_name("out.partial.jsonl")
    assert (ended, error.decode()) == (
        code,
        f"lookup-stage: {how}: what was written by then is in {kept}\n",
    )
    assert (out.read_bytes(), kept.read_bytes()) == (b"old", file.read_bytes())
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "file.jsonl",
        "out.jsonl",
        "out.partial.jsonl",
    ]


def test_no_progress_bar_goes_to_a_log(file: Path) -> None:
    """Standard error is no terminal, whatever the environment says; many CI jobs set these."""
    variables = {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "1"}
    code, _, error = run("compare", file, file, environment=variables)
    assert (code, error) == (0, b"")


def test_worker_that_crashes_is_told_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its log; exit code 1 says that it is to be started again."""

    async def crashing(_settings: object) -> None:
        raise ZeroDivisionError("in the stage")

    monkeypatch.setattr(
        "streams.observability.logs.configure", lambda _stage: None
    )  # it is the whole process's
    monkeypatch.setattr("streams.worker.event_loops.use_fastest", lambda: None)  # so is this
    monkeypatch.setattr("streams.worker.run.run_worker", crashing)
    with pytest.raises(SystemExit) as ended:
        main(["worker"])
    printed = capsys.readouterr()
    assert ended.value.code == 1
    assert "lookup-stage: unforeseen error, ZeroDivisionError: in the stage\n" in printed.err
    assert "worker_crashed" in printed.out + printed.err


@pytest.mark.parametrize("command", [[], ["dead-letters"]], ids=["bare", "dead-letters"])
def test_command_without_arguments_prints_its_help(command: list[str]) -> None:
    """Line by line, and exits as Click does for it."""
    code, shown, error = run(*command)
    assert code == 2
    lines = (shown + error).decode().splitlines()
    assert lines[0].startswith("Usage: lookup-stage")
    assert "Commands:" in lines


def test_help_names_every_exit_code() -> None:
    """Scripts rely on them."""
    code, shown, _ = run("--help")
    assert code == 0
    text = " ".join(shown.decode().split())
    for number in ("0 done", "1 a negative finding", "2 wrong use", "130 interrupted", "141", "143"):
        assert number in text
