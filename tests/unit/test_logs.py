"""Log lines: one form for all, which request they are about, and nothing of what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from streams.kafka.records import ProducedRecord
from streams.observability.monitor import Monitor
from streams.observability.observer import Observer
from streams.settings import loading
from streams.stage.answering import Answer
from tests.builders import consumed

PRIVATE = "zanzibar"
WORK = """
import asyncio, logging, warnings
import structlog
from pipeline.model import SearchHit
from streams.stage.log_context import request_is, work_is_about

log = structlog.get_logger("streams.test")

async def work_on(offset, request_id):
    work_is_about(3, offset)
    if request_id is None:
        log.warning("unreadable")
        return
    request_is(request_id)
    await asyncio.sleep(0)
    await asyncio.gather(search(), search())
    logging.getLogger("aiokafka.producer").warning("retrying %s", "a send")

async def search():
    log.warning("searching")

async def main():
    log.info("before")
    await asyncio.gather(*(asyncio.create_task(work_on(*of)) for of in [(1, "a"), (2, "b"), (3, None)]))
    log.info("after")

asyncio.run(main())
"""


def logged(program: str, *, form: str = "json", level: str = "info") -> str:
    """Return what a program logs after configuring its logs, in a process of its own: they belong to one."""
    printed = subprocess.run(
        [
            sys.executable,
            "-W",
            "default",
            "-c",
            "from streams.observability import logs\n"
            "from streams.settings.model import StageSettings\n"
            f"logs.configure(StageSettings(log_format={form!r}, log_level={level!r}))\n" + program,
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert printed.stdout == ""
    return printed.stderr


def lines(program: str, **others: str) -> list[dict[str, Any]]:
    """Return the lines, each of which is one JSON object."""
    return [json.loads(line) for line in logged(program, **others).splitlines()]


def test_lines_about_a_request_name_it() -> None:
    """Request id, partition and offset, also where a search of it or a library logs; no other line does."""
    seen = [
        (line["event"], line.get("request_id"), line.get("partition"), line.get("offset"))
        for line in lines(WORK)
    ]
    assert (seen[0], seen[-1]) == (("before", None, None, None), ("after", None, None, None))
    assert sorted(seen[1:-1], key=repr) == [
        ("retrying a send", "a", 3, 1),
        ("retrying a send", "b", 3, 2),
        ("searching", "a", 3, 1),
        ("searching", "a", 3, 1),
        ("searching", "b", 3, 2),
        ("searching", "b", 3, 2),
        ("unreadable", None, 3, 3),
    ]


def test_lines_of_the_stage_its_libraries_and_python_have_one_form() -> None:
    """JSON with the same four fields, whoever logs."""
    program = (
        "import logging, warnings, structlog\n"
        "structlog.get_logger('streams.worker.run').info('worker_ready', group='g')\n"
        "logging.getLogger('aiokafka.consumer').error('Heartbeat failed: %s', 'why')\n"
        "logging.getLogger('faust.app').warning('slow')\n"
        "warnings.warn('old', DeprecationWarning)\n"
    )
    seen = lines(program)
    assert [line["logger"] for line in seen] == [
        "streams.worker.run",
        "aiokafka.consumer",
        "faust.app",
        "py.warnings",
    ]
    assert all(line.keys() >= {"event", "level", "logger", "timestamp"} for line in seen)
    assert seen[1]["event"] == "Heartbeat failed: why"


def test_lines_on_a_terminal_are_for_people() -> None:
    """One line each, with the same things in it."""
    (_, *about, _) = logged(WORK, form="console").splitlines()
    assert any("searching" in line and "request_id" in line for line in about)
    assert not any(line.startswith("{") for line in about)


@pytest.mark.parametrize(
    ("level", "events"),
    [("debug", ["d", "i", "w"]), ("warning", ["w"])],
)
def test_lines_below_the_level_are_left_out(level: str, events: list[str]) -> None:
    """The setting names the least severe that is logged."""
    program = (
        "import structlog\n"
        "log = structlog.get_logger('streams.test')\n"
        "log.debug('d')\nlog.info('i')\nlog.warning('w')\n"
    )
    assert [line["event"] for line in lines(program, level=level)] == events


def test_lines_of_libraries_have_no_debug() -> None:
    """They write headers and values into theirs."""
    program = (
        "import logging\n"
        "for name in ('aiokafka.conn', 'faust.transport', 'httpx', 'pymilvus', 'mode'):\n"
        "    logging.getLogger(name).debug('headers')\n"
    )
    assert lines(program, level="debug") == []


def test_line_of_an_exception_has_places_and_no_messages() -> None:
    """A search port may quote the query in its error."""
    program = (
        "import structlog\n"
        "log = structlog.get_logger('streams.test')\n"
        # Spelt backwards: from Python 3.13 on a traceback quotes the lines of a program given with -c.
        f"private = '{PRIVATE[::-1]}'[::-1]\n"
        "try:\n"
        "    try:\n"
        "        raise KeyError(private)\n"
        "    except KeyError as error:\n"
        "        raise ValueError(private) from error\n"
        "except ValueError:\n"
        "    log.exception('request_failed')\n"
    )
    (line,) = lines(program)
    assert "builtins.KeyError" in line["exception"]
    assert "builtins.ValueError" in line["exception"]
    assert PRIVATE not in line["exception"]


def test_next_record_in_the_same_task_has_no_request_id_yet() -> None:
    """A replay answers many requests in one task."""
    program = (
        "import structlog\n"
        "from streams.stage.log_context import request_is, work_is_about\n"
        "work_is_about(0, 1)\n"
        "request_is('a')\n"
        "work_is_about(0, 2)\n"
        "structlog.get_logger('streams.test').info('i')\n"
    )
    (line,) = lines(program)
    assert (line["offset"], "request_id" in line) == (2, False)


def test_request_id_that_is_too_long_is_cut() -> None:
    """It is none, and a line is no place for megabytes."""
    program = (
        "import structlog\n"
        "from streams.stage.log_context import request_is\n"
        "request_is('x' * 1_000_000)\n"
        "structlog.get_logger('streams.test').info('i')\n"
    )
    (line,) = lines(program)
    assert line["request_id"] == "x" * 200


@pytest.mark.parametrize("asked_for", [False, True])
def test_content_of_requests_and_results_is_logged_only_where_asked_for(*, asked_for: bool) -> None:
    """It is off by default; where it is on, the whole of both stands in one line."""
    result = ProducedRecord(topic="t", key=None, value=b'{"evidence": []}', headers=())
    answer = Answer(result=result, dead_letter=None, request_id="r-1", status="ok")
    settings = loading.load(overrides={"stage.log-content": True} if asked_for else {})
    with structlog.testing.capture_logs() as logs:
        hooks = Observer(settings, Monitor()).hooks()
        hooks.on_answered(consumed(b'{"query": "zanzibar\xff"}'), answer, 0.5)
    expected = {
        "event": "request_answered",
        "log_level": "info",
        "status": "ok",
        "seconds": 0.5,
        "request": '{"query": "zanzibar\ufffd"}',
        "result": '{"evidence": []}',
    }
    assert logs == ([expected] if asked_for else [])
