"""Requests in work: how many, what is acknowledged and when, and what is left afterwards."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.stage.in_flight import InFlight, Partition
from tests.support.loops import nothing_goes_wrong_unseen, quiet

A, B, C = (("lookup.requests", number) for number in range(3))


class Job:
    """Work that goes on until it is told how to end.

    Attributes:
        started: Set once it is in work.
        cancelled: Whether it was called off.
    """

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = False
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> None:
        """Work until `finish` or `fail`."""
        self.started.set()
        try:
            await self._end
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def finish(self) -> None:
        """Let it return."""
        self._end.set_result(None)

    def fail(self, error: Exception) -> None:
        """Let it raise."""
        self._end.set_exception(error)


class Worker:
    """Keeps the accounts of an `InFlight`.

    Attributes:
        in_flight: What is tested.
        acknowledged: The offsets of each partition in the order in which they were acknowledged.
        failures: What work raised.
    """

    def __init__(self, limit: int = 1_000) -> None:
        self.failures: list[BaseException] = []
        self.acknowledged: defaultdict[Partition, list[int]] = defaultdict(list)
        self.in_flight = InFlight(limit, self.failures.append)

    async def start(self, partition: Partition, offset: int, *, after: Hashable | None = None) -> Job:
        """Start work on a request, when there is a place for it."""
        job = Job()
        await self.in_flight.start(
            partition, job, lambda: self.acknowledged[partition].append(offset), after=after
        )
        return job

    async def start_all(self, partition: Partition, count: int) -> list[Job]:
        """Start work on requests from offset 0."""
        return [await self.start(partition, offset) for offset in range(count)]


@pytest.fixture(autouse=True)
async def _watched() -> AsyncIterator[None]:
    """Fail a test where something went wrong unseen."""
    async with nothing_goes_wrong_unseen():
        yield


# How many


async def test_bound_makes_start_wait_for_a_place() -> None:
    """Where all places are taken, work starts when one is free, and no sooner."""
    worker = Worker(limit=2)
    first, _second = await worker.start_all(A, 2)
    third = asyncio.create_task(worker.start(B, 0))
    await quiet()
    assert (third.done(), len(worker.in_flight)) == (False, 2)
    first.finish()
    await (await third).started.wait()
    assert len(worker.in_flight) == 2


@pytest.mark.parametrize("way_out", ["finish", "fail", "cancel"])
async def test_bound_place_is_free_however_work_ends(way_out: str) -> None:
    """Work that returned, raised or was cancelled has left its place."""
    worker = Worker(limit=1)
    job = await worker.start(A, 0)
    if way_out == "finish":
        job.finish()
    elif way_out == "fail":
        job.fail(ValueError("e"))
    else:
        assert await worker.in_flight.drain(0) == 1
        worker.in_flight.resume()
    async with asyncio.timeout(10):
        await worker.start(B, 0)


async def test_bound_place_is_not_taken_by_a_start_that_gave_up() -> None:
    """Who stops waiting for a place takes none, and leaves nothing behind."""
    worker = Worker(limit=1)
    job = await worker.start(A, 0)
    waiting = asyncio.create_task(worker.start(A, 1))
    await quiet()
    waiting.cancel()
    job.finish()
    await quiet()
    assert worker.acknowledged == {A: [0]}
    assert (len(worker.in_flight), worker.in_flight.unacknowledged()) == (0, {})
    async with asyncio.timeout(10):
        await worker.start(A, 1)


@given(st.integers(1, 4), st.lists(st.integers(0, 99), max_size=12))
async def test_bound_is_never_passed_and_always_used(limit: int, picks: list[int]) -> None:
    """However work ends, at most as many are in work as may be, and no place stays empty."""
    worker, jobs, count = Worker(limit), list[Job](), len(picks)

    async def feed() -> None:
        for offset in range(count):
            jobs.append(await worker.start(A, offset))

    feeding = asyncio.create_task(feed())
    for ended, pick in enumerate(picks):
        await quiet()
        running = [job for job in jobs if job.started.is_set()]
        assert len(worker.in_flight) == len(running) == min(limit, count - ended)
        job = running[pick % len(running)]
        jobs.remove(job)
        job.finish()
    await feeding
    await quiet()
    assert worker.acknowledged[A] == list(range(count))


# The gate


async def test_gate_is_waited_for_before_a_place_is_taken() -> None:
    """While the gate is closed the work takes no place, and others go on."""
    worker, gate, job = Worker(limit=1), asyncio.Event(), Job()

    async def open_gate() -> None:
        await gate.wait()

    waiting = asyncio.create_task(
        worker.in_flight.start(A, job, lambda: worker.acknowledged[A].append(0), gate=open_gate)
    )
    await quiet()
    (await worker.start(B, 0)).finish()
    await quiet()
    assert (waiting.done(), worker.acknowledged) == (False, {B: [0]})
    gate.set()
    await waiting
    job.finish()
    await quiet()
    assert worker.acknowledged == {A: [0], B: [0]}


async def test_gate_that_opens_when_the_partition_has_gone_starts_nothing() -> None:
    """A request that waited at the gate is left to its partition's next owner."""
    worker, gate, job = Worker(), asyncio.Event(), Job()

    async def open_gate() -> None:
        await gate.wait()

    waiting = asyncio.create_task(
        worker.in_flight.start(A, job, lambda: worker.acknowledged[A].append(0), gate=open_gate)
    )
    await quiet()
    worker.in_flight.forget([A])
    gate.set()
    await waiting
    await quiet()
    assert (job.started.is_set(), len(worker.in_flight), worker.acknowledged) == (False, 0, {})


# What is acknowledged


async def test_acknowledged_once_when_finished() -> None:
    """Work that returns is acknowledged, once, and not before."""
    worker = Worker()
    job = await worker.start(A, 0)
    await job.started.wait()
    assert worker.acknowledged == {}
    job.finish()
    await quiet()
    assert worker.acknowledged == {A: [0]}


async def test_acknowledged_only_after_every_earlier_one() -> None:
    """What is finished early waits for what came before it, and then goes in order."""
    worker = Worker()
    jobs = await worker.start_all(A, 4)
    for offset, acknowledged in [(2, []), (1, []), (0, [0, 1, 2]), (3, [0, 1, 2, 3])]:
        jobs[offset].finish()
        await quiet()
        assert worker.acknowledged[A] == acknowledged


async def test_hung_request_holds_only_its_partition() -> None:
    """Behind a request that never ends nothing of its partition is acknowledged; all of others is."""
    worker = Worker()
    hung = await worker.start(A, 0)
    for job in [*[await worker.start(A, offset) for offset in (1, 2)], *await worker.start_all(B, 3)]:
        job.finish()
    await quiet()
    assert worker.acknowledged == {B: [0, 1, 2]}
    assert worker.in_flight.unacknowledged() == {A: 3}
    assert len(worker.in_flight) == 1
    hung.finish()
    await quiet()
    assert worker.acknowledged[A] == [0, 1, 2]


async def test_partitions_are_of_topic_and_number() -> None:
    """The same number in another topic is another partition."""
    worker, other = Worker(), ("another", A[1])
    await worker.start(A, 0)
    (await worker.start(other, 0)).finish()
    await quiet()
    assert worker.acknowledged == {other: [0]}


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 99)), max_size=15))
async def test_acknowledged_offsets_are_a_prefix_for_any_completion_order(
    requests: list[tuple[Partition, int]],
) -> None:
    """In whatever order work ends, the offsets go in order, gapless, and never past one still in work."""
    worker = Worker()
    started: defaultdict[Partition, list[Job]] = defaultdict(list)
    order = []
    for partition, ends_at in requests:
        offset = len(started[partition])
        started[partition].append(await worker.start(partition, offset))
        order.append((ends_at, partition, offset))
    unfinished = {(partition, offset) for _ends_at, partition, offset in order}
    for _ends_at, partition, offset in sorted(order):
        started[partition][offset].finish()
        unfinished.remove((partition, offset))
        await quiet()
        for each, jobs in started.items():
            passed = len(worker.acknowledged[each])
            assert worker.acknowledged[each] == list(range(passed))
            assert passed == min((o for p, o in unfinished if p == each), default=len(jobs))
    assert worker.in_flight.unacknowledged() == {}


# Work that raises


async def test_failure_is_reported_and_never_passed() -> None:
    """Work that raises is not acknowledged, nor is anything after it, whether it ended before or after."""
    worker, error = Worker(), ValueError("cannot be published")
    jobs = await worker.start_all(A, 4)
    jobs[3].finish()
    jobs[1].fail(error)
    await quiet()
    jobs[0].finish()
    jobs[2].finish()
    (await worker.start(A, 4)).finish()
    await quiet()
    assert worker.acknowledged == {A: [0]}
    assert worker.failures == [error]
    assert worker.in_flight.unacknowledged() == {A: 4}


async def test_failure_holds_only_its_partition() -> None:
    """Other partitions go on."""
    worker = Worker()
    (await worker.start(A, 0)).fail(ValueError("e"))
    (await worker.start(B, 0)).finish()
    await quiet()
    assert worker.acknowledged == {B: [0]}


async def test_failures_are_each_reported() -> None:
    """Every exception is told of."""
    worker, errors = Worker(), [ValueError("a"), TimeoutError("b")]
    for job, error in zip(await worker.start_all(A, 2), errors, strict=True):
        job.fail(error)
    await quiet()
    assert worker.failures == errors


async def test_failure_is_reported_also_where_it_is_a_cancellation() -> None:
    """Work that was cancelled, and not by a drain, holds its partition: the worker must hear of it."""

    async def interrupted() -> None:
        raise asyncio.CancelledError

    worker = Worker()
    await worker.in_flight.start(A, interrupted, lambda: worker.acknowledged[A].append(0))
    await quiet()
    assert worker.acknowledged == {}
    assert len(worker.failures) == 1


# Partitions that are taken away


async def test_forget_work_that_ends_later_is_not_acknowledged() -> None:
    """What is in work when its partition goes is finished, and not acknowledged."""
    worker = Worker()
    jobs = await worker.start_all(A, 2)
    worker.in_flight.forget([A])
    for job in jobs:
        job.finish()
    await quiet()
    assert worker.acknowledged == {}
    assert (len(worker.in_flight), worker.in_flight.unacknowledged()) == (0, {})


async def test_forget_work_that_ended_behind_another_is_not_acknowledged() -> None:
    """What had ended and was waiting for its turn is not acknowledged either."""
    worker = Worker()
    jobs = await worker.start_all(A, 2)
    jobs[1].finish()
    await quiet()
    worker.in_flight.forget([A])
    jobs[0].finish()
    await quiet()
    assert worker.acknowledged == {}


async def test_forget_leaves_other_partitions() -> None:
    """What belongs to another partition is acknowledged as ever; one that is not known can be forgotten."""
    worker = Worker()
    job = await worker.start(B, 0)
    worker.in_flight.forget([A, C])
    job.finish()
    await quiet()
    assert worker.acknowledged == {B: [0]}


async def test_forget_partition_that_comes_back_starts_anew() -> None:
    """Old work neither is acknowledged nor acknowledges: the new work goes by its own order."""
    worker = Worker()
    old = [await worker.start(A, offset) for offset in (10, 11)]
    worker.in_flight.forget([A])
    new = [await worker.start(A, offset) for offset in (20, 21)]
    old[0].finish()
    new[1].finish()
    await quiet()
    assert worker.acknowledged == {}
    assert worker.in_flight.unacknowledged() == {A: 2}
    new[0].finish()
    old[1].finish()
    await quiet()
    assert worker.acknowledged == {A: [20, 21]}


async def test_forget_failure_of_old_work_does_not_hold_the_new() -> None:
    """What was forgotten cannot be passed over by anybody: it holds nothing."""
    worker = Worker()
    old = await worker.start(A, 10)
    worker.in_flight.forget([A])
    new = await worker.start(A, 20)
    old.fail(ValueError("e"))
    new.finish()
    await quiet()
    assert worker.acknowledged == {A: [20]}


async def test_forget_covers_a_start_that_waits_for_a_place() -> None:
    """A request that was handed over before its partition went is left to the next owner."""
    worker = Worker(limit=1)
    first = await worker.start(B, 0)
    waiting = asyncio.create_task(worker.start(A, 0))
    await quiet()
    worker.in_flight.forget([A])
    first.finish()
    job = await waiting
    await quiet()
    assert not job.started.is_set()
    assert len(worker.in_flight) == 0
    (await worker.start(A, 0)).finish()
    await quiet()
    assert worker.acknowledged == {A: [0], B: [0]}


@dataclass(slots=True)
class Entry:
    """What the model knows of one request."""

    offset: int
    done: bool = False


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["start", "start", "start", "finish", "finish", "fail", "forget"]),
        st.sampled_from([A, B, C]),
        st.integers(0, 99),
    ),
    max_size=30,
)


@given(STEPS)
async def test_acknowledged_offsets_follow_the_rules_for_any_history(
    steps: list[tuple[str, Partition, int]],
) -> None:
    """After any starts, ends, failures and losses of partitions, exactly what may be is acknowledged."""
    worker = Worker()
    owned: defaultdict[Partition, deque[Entry]] = defaultdict(deque)
    expected: defaultdict[Partition, list[int]] = defaultdict(list)
    running: list[tuple[Entry, Job]] = []
    for offset, (action, partition, pick) in enumerate(steps):
        if action == "start":
            entry = Entry(offset)
            owned[partition].append(entry)
            running.append((entry, await worker.start(partition, offset)))
        elif action == "forget":
            worker.in_flight.forget([partition])
            owned[partition].clear()
        elif running:
            entry, job = running.pop(pick % len(running))
            entry.done = action == "finish"
            job.finish() if entry.done else job.fail(ValueError("e"))
        await quiet()
        for each, entries in owned.items():
            while entries and entries[0].done:
                expected[each].append(entries.popleft().offset)
        assert worker.acknowledged == {each: offsets for each, offsets in expected.items() if offsets}
        unacknowledged = {each: len(entries) for each, entries in owned.items() if entries}
        assert worker.in_flight.unacknowledged() == unacknowledged
    for _entry, job in running:
        job.finish()
    await quiet()
    assert len(worker.in_flight) == 0


# Leaving


async def test_drain_without_work_returns_at_once() -> None:
    """There is nothing to wait for."""
    assert await Worker().in_flight.drain(60) == 0


async def test_drain_waits_for_what_is_in_work() -> None:
    """All that ends in time is acknowledged when the drain returns."""
    worker = Worker()
    jobs = await worker.start_all(A, 2)
    draining = asyncio.create_task(worker.in_flight.drain(60))
    jobs[0].finish()
    await quiet()
    assert not draining.done()
    jobs[1].finish()
    assert await draining == 0
    assert worker.acknowledged == {A: [0, 1]}
    assert len(worker.in_flight) == 0


async def test_drain_cancels_and_counts_what_is_left() -> None:
    """What is not finished in time is called off, counted and not acknowledged; it is no failure."""
    worker = Worker()
    jobs = await worker.start_all(A, 4)
    jobs[0].finish()
    jobs[2].finish()
    assert await worker.in_flight.drain(0.01) == 2
    assert [job.cancelled for job in jobs] == [False, True, False, True]
    assert worker.acknowledged == {A: [0]}
    assert worker.failures == []
    assert len(worker.in_flight) == 0


async def test_drain_leaves_what_was_cancelled_to_be_delivered_again() -> None:
    """What was called off is never passed in its partition; forgetting the partition makes room for it."""
    worker = Worker()
    await worker.start(A, 0)
    await worker.in_flight.drain(0)
    worker.in_flight.resume()
    (await worker.start(A, 1)).finish()
    await quiet()
    assert worker.acknowledged == {}
    worker.in_flight.forget([A])
    for offset in (0, 1):
        (await worker.start(A, offset)).finish()
    await quiet()
    assert worker.acknowledged == {A: [0, 1]}


@pytest.mark.parametrize("in_work", [0, 1])
async def test_drain_starts_nothing_until_resumed(in_work: int) -> None:
    """From the beginning of a drain, and after it, work waits; it starts in order when the worker resumes."""
    worker = Worker()
    for job in await worker.start_all(B, in_work):
        job.finish()
    await worker.in_flight.drain(60)
    waiting = [asyncio.create_task(worker.start(A, offset)) for offset in range(3)]
    await quiet()
    assert (len(worker.in_flight), [task.done() for task in waiting]) == (0, [False] * 3)
    worker.in_flight.resume()
    for task in waiting:
        (await task).finish()
    await quiet()
    assert worker.acknowledged[A] == [0, 1, 2]


async def test_drain_starts_nothing_that_waited_for_a_place() -> None:
    """A place that becomes free in a drain stays free until the worker resumes."""
    worker = Worker(limit=1)
    first = await worker.start(A, 0)
    waiting = [asyncio.create_task(worker.start(A, offset)) for offset in (1, 2)]
    await quiet()
    draining = asyncio.create_task(worker.in_flight.drain(60))
    await quiet()
    first.finish()
    assert await draining == 0
    await quiet()
    assert (len(worker.in_flight), worker.acknowledged[A]) == (0, [0])
    worker.in_flight.resume()
    for task in waiting:
        (await task).finish()
    await quiet()
    assert worker.acknowledged[A] == [0, 1, 2]


async def test_drain_cancels_what_waits_for_another() -> None:
    """Work that has not begun, since it comes after other work, is called off with it."""
    worker = Worker()
    first = await worker.start(A, 0, after="key")
    second = await worker.start(A, 1, after="key")
    assert await worker.in_flight.drain(0.01) == 2
    assert first.cancelled
    assert not second.started.is_set()


# One after the other


async def test_after_work_of_one_name_goes_one_by_one() -> None:
    """Work starts when the one before it of the same name has ended, in the order of the calls."""
    worker = Worker()
    jobs = [await worker.start(A, offset, after="key") for offset in range(3)]
    for index, job in enumerate(jobs):
        await quiet()
        assert [each.started.is_set() for each in jobs] == [other <= index for other in range(3)]
        job.finish()
    await quiet()
    assert worker.acknowledged == {A: [0, 1, 2]}


async def test_after_waits_for_the_last_of_its_name_when_an_earlier_one_has_ended() -> None:
    """Work comes after what is still in work, however much of its name is through already."""
    worker = Worker()
    first, second = [await worker.start(A, offset, after="key") for offset in (0, 1)]
    first.finish()
    await second.started.wait()
    third = await worker.start(A, 2, after="key")
    await quiet()
    assert not third.started.is_set()
    second.finish()
    await third.started.wait()


async def test_after_another_name_waits_for_nothing() -> None:
    """Work of another name, and work without one, starts at once."""
    worker = Worker()
    await worker.start(A, 0, after="key")
    for other in (
        await worker.start(A, 1, after="another"),
        await worker.start(A, 2),
        await worker.start(A, 3),
        await worker.start(A, 4, after=b""),
    ):
        async with asyncio.timeout(10):
            await other.started.wait()


async def test_after_holds_across_partitions() -> None:
    """A name is one name wherever its requests were read."""
    worker = Worker()
    first, second = await worker.start(A, 0, after="key"), await worker.start(B, 0, after="key")
    await quiet()
    assert not second.started.is_set()
    first.finish()
    await second.started.wait()


@pytest.mark.parametrize("way_out", ["finish", "fail"])
async def test_after_starts_however_the_one_before_ended(way_out: str) -> None:
    """A failure ends work as well; what comes after it is done, and not acknowledged."""
    worker = Worker()
    first, second = [await worker.start(A, offset, after="key") for offset in (0, 1)]
    first.finish() if way_out == "finish" else first.fail(ValueError("e"))
    await second.started.wait()
    second.finish()
    await quiet()
    assert worker.acknowledged == ({A: [0, 1]} if way_out == "finish" else {})


async def test_after_nothing_in_work_starts_at_once() -> None:
    """A name whose work has all ended waits for nothing."""
    worker = Worker()
    (await worker.start(A, 0, after="key")).finish()
    await quiet()
    async with asyncio.timeout(10):
        await (await worker.start(A, 1, after="key")).started.wait()


# What is kept


class Thing:
    """Something that can be hashed and watched."""


async def start_and_watch(
    worker: Worker, partition: Partition, *, after: Hashable | None = None
) -> tuple[Job, list[weakref.ref[object]]]:
    """Start work, and return it with references to all that it brought along."""
    job, brought = Job(), Thing()
    await worker.in_flight.start(partition, job, lambda: repr(brought), after=after)
    return job, [weakref.ref(job), weakref.ref(brought)]


def alive(watched: list[weakref.ref[object]]) -> int:
    """Count what is still kept by anybody."""
    gc.collect()
    return sum(reference() is not None for reference in watched)


async def test_memory_is_free_when_everything_has_ended() -> None:
    """Nothing is kept of work, acknowledgements and names that are through."""
    worker, watched = Worker(), list[weakref.ref[object]]()
    for number in range(30):
        name = Thing()
        watched.append(weakref.ref(name))
        job, brought = await start_and_watch(worker, (A, B, C)[number % 3], after=name)
        watched += brought
        job.finish()
    await quiet()
    del job, name
    assert (len(worker.in_flight), worker.in_flight.unacknowledged()) == (0, {})
    assert alive(watched) == 0


async def test_memory_is_free_of_work_that_others_came_after() -> None:
    """In a row of work of one name, what has ended is not kept by what goes on."""
    worker = Worker()
    first, watched = await start_and_watch(worker, A, after="key")
    jobs = [await worker.start(A, offset, after="key") for offset in range(1, 4)]
    for job in (first, *jobs[:2]):
        job.finish()
    await jobs[2].started.wait()
    del first, job
    assert alive(watched) == 0
    assert len(worker.in_flight) == 1


async def test_memory_is_free_of_what_was_forgotten() -> None:
    """Nothing is kept of forgotten partitions once their work has ended."""
    worker = Worker()
    job, watched = await start_and_watch(worker, A)
    worker.in_flight.forget([A])
    job.finish()
    await quiet()
    del job
    assert alive(watched) == 0
