"""Running a worker: start, stop on signals within the drain time, and an exit code that tells."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import faust
import structlog

from pipeline.errors import LookupStageError
from streams.kafka.topics import dead_letters_too_small, require_topics, worker_topics
from streams.observability.observer import Observer, observing
from streams.observability.positions import membership
from streams.settings.model import KafkaSettings, Settings
from streams.stage.stage import LookupStage
from streams.worker.agents import attach_stage, create_app
from streams.worker.bootstrap import running_stage
from streams.worker.garbage_collection import search_seldom

log = structlog.get_logger(__name__)

STOP_TIMEOUT_S = 10.0
"""Seconds for leaving the group and closing connections, after the drain."""


class WorkerFailed(LookupStageError):
    """The worker cannot go on without losing requests: it must be started again."""


async def run_worker(settings: Settings) -> None:
    """Run a worker until it is told to stop.

    The first SIGTERM or SIGINT drains it; the second ends the process at once.

    Raises:
        ConfigurationError: One line saying what the worker cannot start without.
        WorkerFailed: Requests could not be answered; nothing unanswered was acknowledged.
    """
    stopping = _stop_on_signals()
    with observing(settings) as observer:
        await _work(settings, stopping, observer)
    log.info("worker_stopped")


async def _work(settings: Settings, stopping: asyncio.Event, observer: Observer) -> None:
    await require_topics(settings.kafka, worker_topics(settings))
    async with running_stage(settings, observer) as stage:
        await _warn_of_small_dead_letters(settings.kafka)
        app = create_app(settings)
        attach_stage(app, stage, settings)
        observer.monitor.watch(stage, lambda: membership(app))
        worker = _EmbeddedWorker(app)
        try:
            error = await _first_of(stopping, stage, worker, lambda: _be_ready(settings))
            _end_process_within(settings.stage.drain_timeout + STOP_TIMEOUT_S, error)
            await stage.leave(settings.stage.drain_timeout)
            if error is None:
                await app.consumer.commit()
        finally:
            await _stop(worker)
    if error is not None:
        raise _failure(error) from error


class _EmbeddedWorker(faust.Worker):
    """A Faust worker inside our own command: signals, process title and screen are not its business."""

    def __init__(self, app: faust.App) -> None:
        super().__init__(app, override_logging=False, redirect_stdouts=False, quiet=True, daemon=False)
        self.spinner = None

    def install_signal_handlers(self) -> None:
        """Leave signals to `run_worker`."""

    def _setproctitle(self, info: str, *, ident: str = "") -> None:
        """Leave the process title alone."""


def _stop_on_signals() -> asyncio.Event:
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)
        log.info("worker_stopping")
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    return stopping


async def _first_of(
    stopping: asyncio.Event, stage: LookupStage, worker: faust.Worker, ready: Callable[[], None]
) -> BaseException | None:
    """Start Faust and wait for a signal, a failure of the stage, or of Faust, be it in the start."""
    if stopping.is_set():
        return None
    running, crashed, stopped = (
        asyncio.ensure_future(waiting)
        for waiting in (_run(worker, ready), worker.wait_until_stopped(), stopping.wait())
    )
    reasons: set[asyncio.Future[Any]] = {running, crashed, stopped, stage.failed}
    done, _ = await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
    for waiting in (running, crashed, stopped):
        waiting.cancel()
    if stage.failed.done():
        return stage.failed.result()
    if stopping.is_set():
        return None
    if running in done:
        return running.exception()
    return worker.crash_reason or RuntimeError("Faust stopped by itself")


def _be_ready(settings: Settings) -> None:
    search_seldom()
    kafka, port = settings.kafka, settings.metrics.port or None
    log.info("worker_ready", group=kafka.group_id, topic=kafka.topics.requests, metrics_port=port)


async def _warn_of_small_dead_letters(kafka: KafkaSettings) -> None:
    shortfall = await dead_letters_too_small(kafka)
    if shortfall is not None:
        log.warning("dead_letter_topic_too_small", topic=kafka.topics.dead_letters, why=shortfall)


async def _run(worker: faust.Worker, ready: Callable[[], None]) -> None:
    await worker.start()
    if not worker.should_stop:
        ready()
    await asyncio.Event().wait()


async def _stop(worker: faust.Worker) -> None:
    # Not `wait_for`: it waits for a cancelled task to end, and Faust swallows cancellation.
    await asyncio.wait([asyncio.create_task(worker.stop())], timeout=STOP_TIMEOUT_S)


def _end_process_within(seconds: float, error: BaseException | None) -> None:
    """End the process if leaving takes longer: Kafka's clients wait for brokers without limit.

    A thread does it, for neither they nor Faust let every task be cancelled.
    """

    def end() -> None:
        log.error("worker_stopped_unfinished", reason=None if error is None else str(_failure(error)))
        os._exit(0 if error is None else 1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _failure(error: BaseException) -> WorkerFailed:
    return WorkerFailed(f"the worker stopped: {type(error).__name__}: {error}")
