"""A lookup against the ports: embed, fan out, and conclude."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from pipeline.errors import SearchError, SearchTimeout
from pipeline.model import Lookup, Outcome, PathHits, Problem, SearchHit, SearchQuery, Vector
from pipeline.outcome import PathAnswer, conclude
from pipeline.ports import EmbeddingPort, KnowledgeSearchPort
from pipeline.time_limits import TimeLimit
from pipeline.values import statically_frozen

T = TypeVar("T")

INTERNAL = Problem(code="internal", message="the search failed in an unforeseen way")


@statically_frozen(frozen=True, slots=True, kw_only=True)
class Answered:
    """A lookup that has run.

    Attributes:
        outcome: What the agent is told.
        answers: What each path said, in the request's order.
        failures: The exceptions behind the paths' errors, for logs and dead letters.
    """

    outcome: Outcome
    answers: tuple[PathAnswer, ...]
    failures: tuple[Exception, ...]


class LookupPipeline:
    """Runs lookups through a search port. Holds no state between them."""

    def __init__(self, search: KnowledgeSearchPort, embedder: EmbeddingPort | None) -> None:
        """Initialize with the ports; `embedder` is `None` where every request brings vectors."""
        self._search = search
        self._embedder = embedder

    async def run(self, lookup: Lookup, *, timeout_s: float) -> Answered:
        """Answer a lookup.

        One path's failure does not touch the others, and when this returns or is cancelled, none of its
        searches is still running.

        Args:
            lookup: A valid request with its defaults filled in.
            timeout_s: Seconds for embedding and searching together.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        vectors = await self._vectors(lookup, deadline)
        if isinstance(vectors, Exception):
            found: Sequence[PathHits | Exception] = [vectors] * len(lookup.queries)
        elif len(vectors) == 1:  # needs no task of its own
            found = [await self._path(lookup, 0, vectors[0], deadline)]
        else:
            found = await asyncio.gather(
                *(self._path(lookup, index, vector, deadline) for index, vector in enumerate(vectors))
            )
        answers = tuple(_answer(index, result) for index, result in enumerate(found))
        return Answered(
            outcome=conclude(answers, limits=lookup.limits, budget=lookup.budget, explain=lookup.explain),
            answers=answers,
            failures=tuple(result for result in found if isinstance(result, Exception)),
        )

    async def _vectors(self, lookup: Lookup, deadline: float) -> Sequence[Vector | None] | Exception:
        if lookup.vectors is not None:
            return lookup.vectors
        if self._embedder is None:
            return [None] * len(lookup.queries)
        embedder = self._embedder

        async def embed() -> Sequence[Vector]:
            vectors = await embedder.embed(lookup.queries, timeout_s=_left(deadline))
            if len(vectors) != len(lookup.queries):
                raise ValueError(f"the embedder gave {len(vectors)} vectors for {len(lookup.queries)} texts")
            return vectors

        return await _settled(embed(), deadline, SearchTimeout("the embedder did not answer in time"))

    async def _path(
        self, lookup: Lookup, index: int, vector: Vector | None, deadline: float
    ) -> PathHits | Exception:
        query = SearchQuery(
            text=lookup.queries[index],
            vector=vector,
            limit=lookup.limits.retrieve_k,
            conditions=lookup.conditions,
        )

        async def search() -> PathHits:
            hits = tuple(await self._search.search(query, timeout_s=_left(deadline)))
            if len(hits) > query.limit:
                raise ValueError(f"the search port gave {len(hits)} hits where {query.limit} were asked for")
            if not all(isinstance(hit, SearchHit) for hit in hits):
                raise TypeError("the search port gave something else than a SearchHit")
            return PathHits(query=index, hits=hits)

        return await _settled(search(), deadline, SearchTimeout("the search did not answer in time"))


async def _settled(asking: Coroutine[Any, Any, T], deadline: float, late: SearchTimeout) -> T | Exception:
    """Await a port; whatever it raises is given back, for the agent gets an answer all the same."""
    try:
        with TimeLimit(deadline):
            return await asking
    except TimeoutError as error:
        late.__cause__ = error
        return late
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return RuntimeError("the port was cancelled from within")
    except Exception as error:  # noqa: BLE001 - see above
        return error


def _left(deadline: float) -> float:
    return max(deadline - asyncio.get_running_loop().time(), 0.0)


def _answer(index: int, result: PathHits | Exception) -> PathAnswer:
    if isinstance(result, PathHits):
        return PathAnswer(query=index, hits=result)
    problem = result.problem if isinstance(result, SearchError) else INTERNAL
    return PathAnswer(query=index, hits=PathHits(query=index, hits=()), error=problem)
