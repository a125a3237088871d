"""The Faust side: an app that loses nothing, and the agent that hands events to the stage.

Faust by itself acknowledges events that failed or did not decode. So topics carry raw bytes, nothing escapes
the stage, and the stage acknowledges every event itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, cast

import faust

from streams.kafka.records import ConsumedRecord, consumed_record
from streams.settings.model import Settings
from streams.stage.stage import LookupStage
from streams.worker.brokers import broker_credentials, broker_urls
from streams.worker.consumer import stage_transport
from streams.worker.faust_members import check_faust

COMMIT_INTERVAL_S = 1.0
BUFFERED_EVENTS = 16_384
"""More than a second of work: when they are too many, Faust fetches nothing for a second."""

MOST_EVENTS_A_TURN = 64

MAX_POLL_INTERVAL_S = 365 * 24 * 3_600.0
"""As good as no limit: a worker that waits for its search may fetch nothing for hours.

aiokafka would leave the group, and rejoin it only when something is fetched; Faust fetches only once it has
rejoined. The worker would never work again, nor end.
"""


def create_app(settings: Settings) -> faust.App:
    """Make the Faust app of a worker.

    Raises:
        ConfigurationError: A certificate or key file cannot be used, or Faust is of another version.
    """
    check_faust()
    kafka = settings.kafka
    return _StatelessApp(
        kafka.group_id,
        broker=broker_urls(kafka),
        broker_credentials=broker_credentials(kafka),
        broker_commit_interval=COMMIT_INTERVAL_S,
        broker_session_timeout=kafka.session_timeout,
        broker_heartbeat_interval=kafka.session_timeout / 3,
        broker_max_poll_interval=MAX_POLL_INTERVAL_S,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=kafka.group_instance_id,
        stream_buffer_maxsize=BUFFERED_EVENTS,
        # The stage drains within a time limit of its own; Faust's waiting has none.
        stream_wait_empty=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        producer_acks=-1,
        autodiscover=False,
        loghandlers=[],
    )


class _StatelessApp(faust.App):
    """A Faust app that keeps nothing on disk: it has no tables, and its directory may be read-only."""

    def _create_directories(self) -> None:
        """Make none."""

    def on_init_dependencies(self) -> Iterable[Any]:
        """Leave Faust's own counting out, at which nobody looks."""
        services: Iterable[Any] = super().on_init_dependencies()
        self.sensors.remove(self.monitor)
        return services

    def on_rebalance_start(self) -> None:
        """Let nobody keep account of the rebalance; Faust would warn that nobody does."""
        super().on_rebalance_start()
        self._rebalancing_sensor_state = {"nobody": None}


# In the body of a class of one's own Faust would replace the quiet logger of its library.
_StatelessApp.logger = faust.App.logger


class _RawSchema(faust.Schema[bytes, bytes]):
    """Leaves keys and values as they are; Faust's raw codecs do, too, after a dozen questions an event."""

    def compile(self, app: Any, **_handlers: Any) -> Callable[..., Awaitable[faust.EventT[bytes]]]:
        """Return what makes an event of a message."""

        async def decode(message: Any, **_options: Any) -> faust.EventT[bytes]:
            # Without headers, of which a dictionary keeps only the last of each name.
            return faust.Event(app, message.key, message.value, None, message)

        return decode


def attach_stage(app: faust.App, stage: LookupStage, settings: Settings) -> None:
    """Let an agent of the app feed the stage, and rebalances drain it."""
    requests = app.topic(settings.kafka.topics.requests, schema=_RawSchema())

    async def look_up(stream: faust.StreamT[bytes]) -> None:
        requests = cast("faust.Stream[bytes]", stream).noack()
        async for event in requests.events():
            await stage.take(_record(event.message), event.ack)
            for further in events_at_hand(app, cast("Any", requests.channel).queue):
                await stage.take(_record(further.message), further.ack)

    app.agent(requests, concurrency=1, name="look_up")(look_up)
    app.transport = stage_transport(app, stage, drain_timeout_s=settings.stage.drain_timeout)


def events_at_hand(app: faust.App, queue: Any) -> Iterator[faust.EventT[bytes]]:
    """Yield what is in a stream's buffer: the stream itself gives one event in a turn of the event loop.

    While searches are answered turns are long, and with one request a turn too few would be in work.
    """
    for _ in range(MOST_EVENTS_A_TURN):
        if queue.empty():
            return
        event = queue.get_nowait()
        # What was read before a rebalance belongs to the next owner.
        if app.flow_control.is_active() and event.message.generation_id == app.consumer_generation_id:
            yield event


def _record(message: Any) -> ConsumedRecord:
    # Faust keeps a message's time in seconds.
    return consumed_record(message, timestamp_ms=round((message.timestamp or 0) * 1_000))
