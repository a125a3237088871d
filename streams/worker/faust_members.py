"""The members of Faust on which the worker relies although Faust promises nothing of them."""

from __future__ import annotations

from collections.abc import Iterator

import faust
from faust.channels import Channel
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Producer
from faust.transport.producer import ProducerBuffer

from pipeline.internals import Member, check_members

_NAMES: dict[type, tuple[str, ...]] = {
    # Direct delivery, and reading that no record stops.
    Consumer: (
        "_acked",
        "_acked_index",
        "_add_gap",
        "_buffered_partitions",
        "_committed_offset",
        "_new_consumer_thread",
        "_new_offset",
        "_read_offset",
        "_thread",
        "_to_message",
        "maybe_wait_for_commit_to_finish",
        "on_buffer_drop",
        "on_buffer_full",
        "suspend_flow",
        "wait_first",
    ),
    AIOKafkaConsumerThread: ("_consumer", "_create_consumer", "call_thread"),
    Channel: ("queue",),
    # A producer that sends nothing.
    Producer: ("buffer",),
    ProducerBuffer: ("app", "wait_until_ebb"),
    # An app that keeps nothing on disk, in a process that is not its own.
    faust.App: (
        "_create_directories",
        "_rebalancing_sensor_state",
        "consumer_generation_id",
        "flow_control",
        "monitor",
        "on_init_dependencies",
        "on_rebalance_start",
        "sensors",
        "topics",
    ),
    faust.Worker: ("_setproctitle", "crash_reason", "install_signal_handlers", "spinner"),
}


def members() -> Iterator[Member]:
    """Yield each member that is relied on."""
    for owner, names in _NAMES.items():
        yield from (Member(owner=owner, name=name) for name in names)
    yield Member(
        owner=faust.Event, name="__init__", parameters=("self", "app", "key", "value", "headers", "message")
    )


def check_faust() -> None:
    """Check that Faust is made as the worker expects.

    Raises:
        ConfigurationError: One line naming its version and what differs.
    """
    check_members("faust-streaming", members())
