"""A lookup against the ports: embed, fan out, and conclude."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import SearchError, SearchTimeout
from pipeline.model import Lookup, Outcome, PathHits, Problem, SearchQuery, Vector
from pipeline.outcome import PathAnswer, conclude
from pipeline.ports import EmbeddingPort, KnowledgeSearchPort

INTERNAL = Problem(code="internal", message="the search failed in an unforeseen way")


@dataclass(frozen=True, slots=True, kw_only=True)
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
        """Takes the ports; `embedder` is `None` where every request brings vectors."""
        self._search = search
        self._embedder = embedder

    async def run(self, lookup: Lookup, *, timeout_s: float) -> Answered:
        """Answers a lookup.

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
        else:
            found = await asyncio.gather(
                *(self._path(lookup, index, vector, deadline) for index, vector in enumerate(vectors))
            )
        answers = tuple(_answer(index, result) for index, result in enumerate(found))
        return Answered(
            outcome=conclude(answers, limits=lookup.limits, budget=lookup.budget),
            answers=answers,
            failures=tuple(result for result in found if isinstance(result, Exception)),
        )

    async def _vectors(self, lookup: Lookup, deadline: float) -> Sequence[Vector | None] | Exception:
        if lookup.vectors is not None:
            return lookup.vectors
        if self._embedder is None:
            return [None] * len(lookup.queries)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._embedder.embed(lookup.queries, timeout_s=_left(deadline))
        except TimeoutError as error:
            return _caused(SearchTimeout("the embedder did not answer in time"), error)
        except Exception as error:  # noqa: BLE001 - whatever an adapter raises, the agent gets an answer
            return error

    async def _path(
        self, lookup: Lookup, index: int, vector: Vector | None, deadline: float
    ) -> PathHits | Exception:
        query = SearchQuery(
            text=lookup.queries[index],
            vector=vector,
            limit=lookup.limits.retrieve_k,
            conditions=lookup.conditions,
        )
        try:
            async with asyncio.timeout_at(deadline):
                hits = await self._search.search(query, timeout_s=_left(deadline))
        except TimeoutError as error:
            return _caused(SearchTimeout("the search did not answer in time"), error)
        except Exception as error:  # noqa: BLE001 - whatever an adapter raises, the agent gets an answer
            return error
        if len(hits) > query.limit:
            return ValueError(f"the search port returned {len(hits)} hits where {query.limit} were asked for")
        return PathHits(query=index, hits=tuple(hits))


def _left(deadline: float) -> float:
    return max(deadline - asyncio.get_running_loop().time(), 0.0)


def _caused(error: SearchError, cause: Exception) -> SearchError:
    error.__cause__ = cause
    return error


def _answer(index: int, result: PathHits | Exception) -> PathAnswer:
    if isinstance(result, PathHits):
        return PathAnswer(query=index, hits=result)
    problem = result.problem if isinstance(result, SearchError) else INTERNAL
    return PathAnswer(query=index, hits=PathHits(query=index, hits=()), error=problem)
