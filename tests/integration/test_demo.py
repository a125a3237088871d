"""The demo as a new user runs it: no server, no download."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import orjson
import pytest

from streams.cli.demo_story import HEADLINE
from tests.pictures.demo import PICTURE
from tests.support.contract import check_body
from tests.support.worker import run_command

# The demo brings its own broker and index: what others have set must not lead it astray.
ENVIRONMENT = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "MILVUS_URI": "http://127.0.0.1:1"}
TIMEOUT_S = 120.0


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Return a folder of two Markdown files."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\n## Brewing\n\nPour water of 80 degrees over green tea leaves.\n")
    (folder / "bread.md").write_text(
        "# Bread\n\n## Baking\n\nBake the loaf for forty minutes at 230 degrees.\n"
    )
    return folder


def test_demo_answers_its_dozen_questions() -> None:
    """Indexes the bundled runbooks, asks twelve questions over Kafka, and each has evidence."""
    printed = run_command("demo", "--json", environment=ENVIRONMENT, timeout_s=TIMEOUT_S)
    assert printed.code == 0, printed.stderr
    answered = orjson.loads(printed.stdout)
    assert len(answered) == 12
    for entry in answered:
        check_body(orjson.dumps(entry["result"]))
        assert entry["result"]["status"] == "ok"
        assert entry["result"]["ledger"]["projected"] == len(entry["result"]["evidence"]) > 0
    first = answered[0]
    assert first["queries"] == ["What does the runbook say about a stuck consumer group?"]
    assert first["result"]["evidence"][0]["doc_id"] == "kafka-consumer-group-stuck"
    assert printed.stderr.startswith(HEADLINE)
    assert "12 of 12 requests answered" in printed.stderr
    picture = PICTURE.read_text(encoding="utf-8")
    assert [item for item in first["result"]["evidence"] if item["document_id"] not in picture] == []


def test_demo_takes_the_readers_own_documents_and_questions(documents: Path) -> None:
    """`--docs` indexes one's own folder, `--ask` asks one's own question."""
    printed = run_command(
        "demo",
        "--docs",
        str(documents),
        "--ask",
        "How hot must the water for green tea be?",
        environment=ENVIRONMENT,
        timeout_s=TIMEOUT_S,
    )
    assert printed.code == 0, printed.stderr
    assert "How hot must the water for green tea be?" in printed.stdout
    assert re.search(r"^1 .*tea#chunk-0", printed.stdout, flags=re.MULTILINE)
    assert "2 of 5 pieces: no more were found" in printed.stdout
    assert "2 retrieved = 2 projected" in printed.stdout
    assert "1 of 1 request answered" in printed.stdout
    assert printed.stdout.startswith(HEADLINE)
    assert printed.stderr == ""


def test_demo_that_keeps_says_how_to_reach_it(documents: Path) -> None:
    """`--keep` leaves broker and worker running for others to ask, until Ctrl-C, which is no error.

    The questions are made of the documents' own headings, and so is the one that it says to ask.
    """
    command = [sys.executable, "-m", "streams", "demo", "--docs", str(documents), "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | ENVIRONMENT, text=True) as demo:
        watchdog = threading.Timer(TIMEOUT_S, demo.kill)
        watchdog.start()
        try:
            assert demo.stdout is not None
            told = []
            for line in demo.stdout:
                told.append(line)
                if "curl" in line:
                    break
            text = "".join(told)
            ask = next(line for line in told if "lookup-stage ask" in line)
            address, *_, question = shlex.split(ask)
            name, _, servers = address.partition("=")
            asked = run_command("ask", question, "--json", environment={name: servers})
            metrics = httpx.get(re.findall(r"http://\S+/metrics", text)[0]).text
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()
            assert demo.wait(30) == 0
        finally:
            watchdog.cancel()
            demo.kill()
    assert "made of your documents' own headings" in text
    assert question == "What does Bread say about Baking?"
    assert f"kcat -P -b {servers}" in text
    assert "client.look_up" in text
    assert asked.code == 0, asked.stderr
    assert orjson.loads(asked.stdout)["evidence"][0]["doc_id"] == "bread"
    assert re.search(r'lookup_requests_total{status="ok"} [1-9]', metrics)


def test_demo_that_cannot_index_says_why_in_one_line(tmp_path: Path) -> None:
    """A folder without Markdown is one line on standard error."""
    printed = run_command("demo", "--docs", str(tmp_path), environment=ENVIRONMENT, timeout_s=TIMEOUT_S)
    assert printed.code != 0
    assert len(printed.stderr.strip().splitlines()) == 1
    assert str(tmp_path) in printed.stderr
