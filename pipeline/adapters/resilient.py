"""Retries and the circuit breaker around a port: the one owner of both.

Decorators, so that every adapter has them and none needs its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_base, wait_exponential, wait_random

from pipeline.adapters.around import AroundEmbedder, AroundSearch
from pipeline.circuit import CircuitBreaker, CircuitOpen
from pipeline.errors import SearchError, SearchFailed, SearchRejected, SearchTimeout, SearchUnavailable
from pipeline.model import SearchHit, SearchQuery, Vector
from pipeline.ports import EmbeddingPort, KnowledgeSearchPort
from pipeline.probing import Probe
from pipeline.time_limits import TimeLimit

T = TypeVar("T")

GRACE_S = 0.25
"""A port that keeps its time by itself says more than a cancellation would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently to ask again.

    Attributes:
        attempts: Most tries, at least 1.
        attempt_timeout_s: Seconds for one try.
        first_wait_s: Seconds before the second try, and most jitter; doubles from there.
        longest_wait_s: Most seconds between two tries.
    """

    attempts: int
    attempt_timeout_s: float
    first_wait_s: float = 0.05
    longest_wait_s: float = 1.0


class Resilience:
    """Asks again by class of error, inside the time that is left, and not while the circuit is open.

    A doubtful failure (`SearchFailed`, `SearchTimeout`) moves the circuit only as the engine's probe does: if
    the probe is answered, the question is at fault, and others must not suffer for it. An engine without a
    probe is down when it fails.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        circuit: CircuitBreaker,
        on_retry: Callable[[SearchError], object] = lambda _error: None,
        probe: Probe | None = None,
    ) -> None:
        """Initialize with what all calls to one engine share.

        Args:
            policy: How often to ask.
            circuit: Whether to ask.
            on_retry: Told of the error after which the engine is asked again.
            probe: Tells whether the engine answers; `None` if it cannot be probed.
        """
        self._policy = policy
        self._on_retry = on_retry
        self._circuit = circuit
        self._probe = probe

    async def call(self, ask: Callable[[float], Awaitable[T]], *, timeout_s: float) -> T:
        """Call `ask` with the seconds it has, again where that may help.

        Unavailability and timeouts are asked again, rejections and unforeseen errors are not.

        Raises:
            SearchError: The last try's error, with the number of tries.
            SearchRejected: Also if each try failed while the engine's probe was answered.
            CircuitOpen: The search is down and was not asked.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            try:
                return await self._try(ask, deadline, 1)
            except SearchError as error:
                if not _worth_retrying(error):
                    raise
                return await self._again(ask, deadline, error)
        except SearchFailed as error:
            raise error.concluded() from error.__cause__

    async def _again(self, ask: Callable[[float], Awaitable[T]], deadline: float, first: SearchError) -> T:
        """Go on after a first try that failed: nearly every call needs one, and none of this."""
        left = deadline - asyncio.get_running_loop().time()
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(_worth_retrying),
            stop=stop_after_attempt(self._policy.attempts) | stop_before_delay(left),
            wait=_WaitAtLeastAsTold(
                wait_exponential(multiplier=self._policy.first_wait_s, max=self._policy.longest_wait_s)
                + wait_random(0, self._policy.first_wait_s)
            ),
            before_sleep=self._say,
            reraise=True,
        ):
            with attempt:
                number = attempt.retry_state.attempt_number
                if number == 1:
                    raise first
                return await self._try(ask, deadline, number)
        raise AssertionError("tenacity raises the last error")

    def _say(self, state: RetryCallState) -> None:
        error = None if state.outcome is None else state.outcome.exception()
        if isinstance(error, SearchError):
            self._on_retry(error)

    async def _try(self, ask: Callable[[float], Awaitable[T]], deadline: float, number: int) -> T:
        now = asyncio.get_running_loop().time()
        left = min(self._policy.attempt_timeout_s, deadline - now)
        self._circuit.enter()
        try:
            with TimeLimit(now + left + GRACE_S):
                answer = await ask(left)
        except SearchRejected:
            self._circuit.succeeded()
            raise
        except (SearchUnavailable, SearchTimeout) as error:
            error.attempts = number
            await self._count(error, deadline)
            raise
        except TimeoutError as error:
            late = SearchTimeout("the search did not answer in time")
            late.attempts = number
            await self._count(late, deadline)
            raise late from error
        except BaseException:
            self._circuit.gave_up()
            raise
        self._circuit.succeeded()
        return answer

    async def _count(self, error: SearchError, deadline: float) -> None:
        """Move the circuit for a failure, and note in it whether the engine answers a good question."""
        if self._probe is None or not error.doubtful:
            self._circuit.failed(error.call)
            return
        probing = self._probe.start()
        # By a callback: the circuit must learn the outcome even if the caller's time is over before.
        probing.add_done_callback(partial(self._move_circuit, error.call))
        if isinstance(error, SearchFailed):  # a timeout stays one, so it need not wait for the outcome
            await asyncio.wait({probing}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
            error.cleared = _is_answered(probing)

    def _move_circuit(self, call: object | None, probing: asyncio.Task[bool]) -> None:
        if _is_answered(probing):
            self._circuit.succeeded()
        else:
            self._circuit.failed(call)


class _WaitAtLeastAsTold(wait_base):
    """Waits as another strategy says, and not less than the error names."""

    def __init__(self, usual: wait_base) -> None:
        self._usual = usual

    def __call__(self, retry_state: RetryCallState) -> float:
        error = None if retry_state.outcome is None else retry_state.outcome.exception()
        told_s = error.retry_after_s if isinstance(error, SearchError) else None
        return max(self._usual(retry_state), told_s or 0.0)


class ResilientSearch(AroundSearch):
    """A search port that asks another again."""

    def __init__(self, search: KnowledgeSearchPort, resilience: Resilience) -> None:
        """Initialize with the port and how to ask it."""
        super().__init__(search)
        self._resilience = resilience

    async def search(self, query: SearchQuery, *, timeout_s: float) -> Sequence[SearchHit]:
        """Ask the port behind, within `timeout_s` over all tries."""
        return await self._resilience.call(
            lambda left: self._search.search(query, timeout_s=left), timeout_s=timeout_s
        )


class ResilientEmbedder(AroundEmbedder):
    """An embedder that asks another again."""

    def __init__(self, embedder: EmbeddingPort, resilience: Resilience) -> None:
        """Initialize with the embedder and how to ask it."""
        super().__init__(embedder)
        self._resilience = resilience

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Vector]:
        """Ask the embedder behind, within `timeout_s` over all tries."""
        return await self._resilience.call(
            lambda left: self._embedder.embed(texts, timeout_s=left), timeout_s=timeout_s
        )


def _worth_retrying(error: BaseException) -> bool:
    if isinstance(error, SearchFailed) and error.repeats:
        return not error.is_refusal
    return isinstance(error, SearchError) and error.retryable and not isinstance(error, CircuitOpen)


def _is_answered(probing: asyncio.Task[bool]) -> bool:
    return probing.done() and not probing.cancelled() and probing.result()
