"""Joining what many ask at once into few calls.

While calls are out, what arrives waits and goes together in the next; nothing waits when nothing is out.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pipeline.errors import SearchError, SearchFailed, SearchTimeout, SearchUnavailable
from pipeline.probing import Probe

Q = TypeVar("Q")
A = TypeVar("A")

CALLS_OF_ONE_GROUP = 2
"""One is being answered while the next is on its way; with more of them each would only be smaller."""


@dataclass(slots=True, eq=False)
class _Question(Generic[Q, A]):
    """What one caller asks: it has left when the answer is cancelled."""

    content: Q
    deadline: float
    answer: asyncio.Future[A]
    call: _Call | None = None


@dataclass(slots=True, eq=False)
class _Call:
    """A call that is out, and what it asks."""

    questions: Sequence[_Question[Any, Any]]
    task: asyncio.Task[None] | None = None

    def has_callers(self) -> bool:
        """Whether anybody waits for it."""
        return not all(each.answer.done() for each in self.questions)


@dataclass(slots=True, eq=False)
class _Group(Generic[Q, A]):
    """Questions that may go into one call, at most `batch_size` at once."""

    batch_size: int
    waiting: deque[_Question[Q, A]] = field(default_factory=deque)
    calls: int = 0


class Coalescer(Generic[Q, A]):
    """Joins questions of one group into calls.

    A call that fails because the engine is not there or too slow fails for everybody in it. A call that is
    refused, or fails in an unforeseen way, is asked again in halves until who is to blame is alone; so is one
    that may have been refused, if the engine answers its probe. It may take as long as the most patient of
    its callers, and is cancelled when all of them have left.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Q], float], Awaitable[Sequence[A]]],
        *,
        max_calls: int,
        probe: Probe | None = None,
    ) -> None:
        """Initialize with what to ask with.

        Args:
            ask: Called with questions of one group and the seconds they have; gives one answer each.
            max_calls: Most calls out at once; at most two of them are of one group.
            probe: Tells whether the engine answers; `None` if it cannot be probed.
        """
        self._ask = ask
        self._max_calls = max_calls
        self._probe = probe
        self._groups: dict[Hashable, _Group[Q, A]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._starting = False

    async def ask(
        self, questions: Sequence[Q], *, group: Hashable, batch_size: int, timeout_s: float
    ) -> list[A]:
        """Ask, together with whoever else asks now.

        Args:
            questions: At least one.
            group: Only questions of equal groups go into one call.
            batch_size: Most questions of the group in one call.
            timeout_s: Seconds in which to answer; the caller cancels when they are over.

        Returns:
            One answer a question, in order.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        asked = [_Question[Q, A](each, deadline, loop.create_future()) for each in questions]
        self._groups.setdefault(group, _Group(batch_size)).waiting.extend(asked)
        self._start_soon()
        try:
            return [await each.answer for each in asked]
        finally:
            for each in asked:
                _leave(each)

    def _start_soon(self) -> None:
        """Start calls at the end of this turn of the event loop: what is asked in one turn goes together."""
        if not self._starting:
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._starting = False
        for name, group in list(self._groups.items()):
            while group.waiting and group.calls < CALLS_OF_ONE_GROUP and len(self._calls) < self._max_calls:
                self._start_call(group)
            if group.waiting:
                self._groups[name] = self._groups.pop(name)  # next time others come first
            elif not group.calls:
                del self._groups[name]

    def _start_call(self, group: _Group[Q, A]) -> None:
        size = min(group.batch_size, len(group.waiting))
        questions = [
            each for each in (group.waiting.popleft() for _ in range(size)) if not each.answer.done()
        ]
        if not questions:
            return
        call = _Call(questions)
        for each in questions:
            each.call = call
        # In a context of its own: it is about no one request.
        task = call.task = asyncio.create_task(self._answer(questions, call), context=Context())
        self._calls.add(task)
        group.calls += 1
        task.add_done_callback(lambda task: self._ended(task, call, group))

    def _ended(self, task: asyncio.Task[None], call: _Call, group: _Group[Q, A]) -> None:
        self._calls.discard(task)
        group.calls -= 1
        self._start_soon()
        for each in call.questions:  # of a call that came to its end none is left
            _fail(each, RuntimeError("the port was cancelled from within"))

    async def _answer(self, asked: Sequence[_Question[Q, A]], call: _Call) -> None:
        questions = [each for each in asked if not each.answer.done()]
        if not questions:
            return
        try:
            answers = await self._answers(questions)
        except (SearchUnavailable, SearchTimeout) as error:
            if len(questions) > 1 and await self._is_refusal(error):
                await self._answer_halves(questions, call)
                return
            for each in questions:
                _fail(each, _shared(error, call))
        except Exception as error:  # noqa: BLE001 - whatever it is, only those who caused it may get it
            if len(questions) == 1:
                _fail(questions[0], error)
                return
            await self._answer_halves(questions, call)
        else:
            for each, answer in zip(questions, answers, strict=True):
                if not each.answer.done():
                    each.answer.set_result(answer)

    async def _answer_halves(self, questions: Sequence[_Question[Q, A]], call: _Call) -> None:
        middle = len(questions) // 2
        await self._answer(questions[:middle], call)
        await self._answer(questions[middle:], call)

    async def _is_refusal(self, error: SearchError) -> bool:
        """Return whether a failed call may have been refused for the sake of one of its questions."""
        if self._probe is None or not isinstance(error, SearchFailed) or error.refusal is None:
            return False
        return await self._probe.is_answered()

    async def _answers(self, questions: Sequence[_Question[Q, A]]) -> Sequence[A]:
        left = max(each.deadline for each in questions) - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(left):
                answers = await self._ask([each.content for each in questions], left)
        except TimeoutError as error:
            raise SearchTimeout("the search did not answer in time") from error
        if len(answers) != len(questions):
            raise ValueError(f"the port gave {len(answers)} answers to {len(questions)} questions")
        return answers


def _leave(question: _Question[Q, A]) -> None:
    """Let a caller go; the last one takes the call along."""
    if question.answer.done() and not question.answer.cancelled():
        question.answer.exception()  # somebody has seen it
        return
    question.answer.cancel()
    call = question.call
    if call is not None and call.task is not None and not call.has_callers():
        call.task.cancel()


def _fail(question: _Question[Q, A], error: Exception) -> None:
    if not question.answer.done():
        question.answer.set_exception(error)


def _shared(error: SearchError, call: object) -> SearchError:
    """Return each caller an error of its own, for each counts its tries in it."""
    own = copy.copy(error)
    own.call = call
    own.__cause__ = error.__cause__ or error
    return own
