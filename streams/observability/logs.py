"""Log lines: one shape for the stage's own and its libraries', JSON in production, readable on a terminal."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator

import structlog

from streams.settings.model import StageSettings

OWN = ("streams", "pipeline")
QUIET_LIBRARIES = ("aiokafka", "faust", "mode", "httpx", "asyncio")


def configure(stage: StageSettings) -> None:
    """Send every log line to standard error in the configured form.

    Of an exception that the stage logs, the line shows classes and places, not the message: a search port may
    quote the query in it. The dead letter has the message.
    """
    as_json = stage.log_format == "json" or (stage.log_format == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    level = stage.log_level.upper()
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.processors.ExceptionRenderer(_frames),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        cache_logger_on_first_use=True,
    )
    last = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.processors.format_exc_info],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    # Debug lines are for the stage's own: libraries write headers and values into theirs.
    logging.captureWarnings(True)
    logging.basicConfig(handlers=[handler], level=max(logging.INFO, logging.getLevelName(level)), force=True)
    for own in OWN:
        logging.getLogger(own).setLevel(level)
    for library in QUIET_LIBRARIES:
        # Their information lines stand on the path of every event.
        logging.getLogger(library).setLevel(logging.WARNING)


def _frames(exc_info: structlog.typing.ExcInfo) -> str:
    return "".join(_lines(exc_info[1]))


def _lines(error: BaseException) -> Iterator[str]:
    """Yield an exception as Python does, what was behind it first, but without messages."""
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if behind is not None:
        yield from _lines(behind)
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__module__}.{type(error).__qualname__}\n"
