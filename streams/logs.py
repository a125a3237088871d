"""Log lines: one shape for the stage's own and its libraries', JSON in production, readable on a terminal."""

from __future__ import annotations

import logging
import sys

import structlog

from streams.settings import StageSettings

QUIET_LIBRARIES = ("aiokafka", "faust", "mode", "httpx", "asyncio")


def configure(stage: StageSettings) -> None:
    """Sends every log line to standard error in the configured form."""
    as_json = stage.log_format == "json" or (stage.log_format == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    level = stage.log_level.upper()
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        cache_logger_on_first_use=True,
    )
    last = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer()]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for library in QUIET_LIBRARIES:
        # Their debug and information lines stand on the path of every event.
        logging.getLogger(library).setLevel(logging.WARNING)
