"""What every search port does, in two suites: searching, and searching under conditions.

An adapter's tests inherit a suite and give two fixtures: `rows`, one of the sets below, and `port`, a started
port over them. Vectors have length 1, so that every metric ranks the rows alike.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from pipeline.errors import SearchRejected
from pipeline.identity import EVIDENCE_KEY, identify, metadata_object
from pipeline.model import Condition, Dropped, Scalar, SearchHit, SearchQuery, Vector
from pipeline.ports import KnowledgeSearchPort
from pipeline.testing.in_memory import Row

TIMEOUT_S = 20.0
DIMENSION = 4
BEYOND_DOUBLES = 2**53 + 1
HIGHEST_ID = 2**63 - 1

NASTY = (
    'say "hi"',
    "it's",
    "back\\slash",
    "ends with \\",
    '\\"',
    '" or 1 == 1 or "',
    '") or (metadata["number"] > 0) or ("',
    "' or 1 == 1 or '",
    "x and not y",
    "{tenant}",
    "%",
    "a_c",
    "[1, 2]",
    "$meta",
    "null",
    "true",
    "\\u00e9",
    "é 日本 😀 \ufeff\u2028",
    "line\nbreak\r\ttab",
    "control \x01\x1f\x7f and nul \x00",
    " padded ",
    "",
)
"""Values that mean something to a filter language if they are not written with care."""


def known_rows(*, integer_ids: bool = False) -> tuple[Row, ...]:
    """Return rows in the order in which `toward(0)` finds them."""
    metadata: list[dict[str, object]] = [
        {"number": 1, "team": "blue", "level": 5},
        {"number": 1.0, "team": "red", "level": 5},
        {"number": True, "team": "blue", "level": 7},
        {"number": "1", "team": "red", "level": 7},
        {"number": 0, "team": "blue"},
        {"number": False, "team": "blue"},
        {"number": BEYOND_DOUBLES},
        {"number": BEYOND_DOUBLES - 1},
        {"number": -2.5e-7},
        {"number": 1e300},
    ]
    metadata.extend({"nasty": value} for value in NASTY)
    metadata.extend({"odd": value} for value in ([1], {"odd": 1}, None, [], "", 1))
    return tuple(
        Row(
            id=HIGHEST_ID - index if integer_ids else f"row '{index}' \"of\" é\\",
            content=f"content {index}",
            metadata={"docId": f"doc-{index % 3}", "chunkIndex": index // 3, **each},
            vector=toward(index),
        )
        for index, each in enumerate(metadata)
    )


def toward(index: int) -> Vector:
    """Return the vector of the row at an index."""
    angle = index * math.pi / 100
    return (math.cos(angle), math.sin(angle), 0.0, 0.0)


NEAREST_FIRST = toward(0)
"""The query's vector that finds the known rows in their order."""


def asking(*conditions: Condition, vector: Vector | None = NEAREST_FIRST, limit: int = 100) -> SearchQuery:
    """Return a query, by default for all rows, the first row's first."""
    return SearchQuery(text="any text", vector=vector, limit=limit, conditions=conditions)


def field_is(field: str, *any_of: Scalar) -> Condition:
    """Return the condition that a field equals one of the values."""
    return Condition(field=field, any_of=any_of)


async def ids(port: KnowledgeSearchPort, query: SearchQuery) -> list[str | int | None]:
    """Return the ids of a query's hits, best first."""
    return [hit.id for hit in await port.search(query, timeout_s=TIMEOUT_S)]


class SearchPortContract:
    """Searching."""

    async def test_hits_come_best_first(self, port: KnowledgeSearchPort, rows: Sequence[Row]) -> None:
        """The nearest row is the first hit, and so on to the farthest."""
        assert await ids(port, asking()) == [row.id for row in rows]

    async def test_score_is_finite_and_falls_with_rank(self, port: KnowledgeSearchPort) -> None:
        """Whatever the metric, a higher score is a better hit."""
        scores = _scores(await port.search(asking(), timeout_s=TIMEOUT_S))
        assert all(map(math.isfinite, scores))
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > scores[-1]

    async def test_hit_carries_its_row(self, port: KnowledgeSearchPort, rows: Sequence[Row]) -> None:
        """Id, content and metadata come back as they were written, chunk index 0 too."""
        [hit] = await port.search(asking(limit=1), timeout_s=TIMEOUT_S)
        assert hit.id == rows[0].id
        assert hit.content == rows[0].content
        assert metadata_object(hit.metadata) == rows[0].metadata
        candidate = identify(hit, 0, 1)
        assert not isinstance(candidate, Dropped)
        assert candidate[EVIDENCE_KEY].endswith("#chunk-0")

    async def test_metadata_keep_their_types(self, port: KnowledgeSearchPort, rows: Sequence[Row]) -> None:
        """Booleans, integers beyond doubles, floats and strings are not turned into one another."""
        hits = await port.search(asking(), timeout_s=TIMEOUT_S)
        found = [metadata_object(hit.metadata).get("number") for hit in hits]
        assert [(type(value), value) for value in found] == [
            (type(row.metadata.get("number")), row.metadata.get("number")) for row in rows
        ]

    async def test_limit_is_respected(self, port: KnowledgeSearchPort, rows: Sequence[Row]) -> None:
        """A smaller limit gives the beginning of what a larger one gives."""
        for limit in (1, 2, 7):
            assert await ids(port, asking(limit=limit)) == [row.id for row in rows[:limit]]

    async def test_limit_larger_than_the_collection_gives_all(
        self, port: KnowledgeSearchPort, rows: Sequence[Row]
    ) -> None:
        """Asking for more rows than there are is no error."""
        assert len(await ids(port, asking(limit=1_000))) == len(rows)

    async def test_same_question_has_the_same_answer(self, port: KnowledgeSearchPort) -> None:
        """Hits are equal to the last digit when a search is repeated."""
        answers = [tuple(await port.search(asking(), timeout_s=TIMEOUT_S)) for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]

    async def test_many_searches_run_at_once(self, port: KnowledgeSearchPort, rows: Sequence[Row]) -> None:
        """Concurrent searches do not get one another's hits."""
        wanted = [index % len(rows) for index in range(100)]
        answers = await asyncio.gather(
            *(ids(port, asking(vector=toward(index), limit=1)) for index in wanted)
        )
        assert answers == [[rows[index].id] for index in wanted]

    async def test_vector_of_another_dimension_is_rejected(self, port: KnowledgeSearchPort) -> None:
        """The refusal names both dimensions, in the same words each time, and the port stays usable."""
        for vector in ((1.0,), toward(0) * 2):
            with pytest.raises(SearchRejected, match=rf"{len(vector)} dimensions.* {DIMENSION}$"):
                await port.search(asking(vector=vector), timeout_s=TIMEOUT_S)
        assert await ids(port, asking(limit=1))

    async def test_query_without_vector_is_rejected(self, port: KnowledgeSearchPort) -> None:
        """Dense search needs a vector."""
        with pytest.raises(SearchRejected, match="the query has no vector"):
            await port.search(asking(vector=None), timeout_s=TIMEOUT_S)


class ConditionContract:
    """Searching under conditions."""

    async def test_condition_holds_of_every_hit(self, port: KnowledgeSearchPort) -> None:
        """Equality takes the rows that have the value, best first."""
        assert await _numbers(port, field_is("team", "blue")) == [1, True, 0, False]

    async def test_membership_takes_any_of_the_values(self, port: KnowledgeSearchPort) -> None:
        """Several values of one condition are alternatives, also of different types."""
        assert await _numbers(port, field_is("level", 5, "none", 7)) == [1, 1.0, True, "1"]

    async def test_all_conditions_must_hold(self, port: KnowledgeSearchPort) -> None:
        """Several conditions narrow one another."""
        assert await _numbers(port, field_is("team", "blue", "red"), field_is("level", 7)) == [True, "1"]
        assert await _numbers(port, field_is("team", "blue"), field_is("team", "red")) == []

    async def test_row_without_the_field_is_no_hit(
        self, port: KnowledgeSearchPort, rows: Sequence[Row]
    ) -> None:
        """Absence equals nothing, and a field that no row has leaves no hits."""
        with_level = [row.id for row in rows if "level" in row.metadata]
        assert await ids(port, asking(field_is("level", 5, 7))) == with_level
        assert await ids(port, asking(field_is("no-such.field", "", 0, False))) == []

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            (1, [1, 1.0]),
            (1.0, [1, 1.0]),
            (True, [True]),
            ("1", ["1"]),
            (0, [0]),
            (-0.0, [0]),
            (False, [False]),
            ("true", []),
            (BEYOND_DOUBLES, [BEYOND_DOUBLES]),
            (float(BEYOND_DOUBLES), [BEYOND_DOUBLES - 1]),
            (-2.5e-7, [-2.5e-7]),
            (1e300, [1e300]),
            (2**63 - 1, []),
            (1 - 2**63, []),
            (-(2**63), []),
            (-(2.0**63), []),
            (0.1, []),
        ],
    )
    async def test_values_are_compared_with_their_types(
        self, port: KnowledgeSearchPort, wanted: Scalar, found: list[Scalar]
    ) -> None:
        """A string is no number and a boolean neither; 1 is 1.0; integers are compared exactly."""
        answers = await _numbers(port, field_is("number", wanted))
        assert [(type(each), each) for each in answers] == [(type(each), each) for each in found]

    async def test_list_object_or_null_equals_nothing(
        self, port: KnowledgeSearchPort, rows: Sequence[Row]
    ) -> None:
        """What is in a list or an object is not its value."""
        one, empty = rows[-1].id, rows[-2].id
        assert await ids(port, asking(field_is("odd", 1))) == [one]
        assert await ids(port, asking(field_is("odd", "", 1, 0, False, "null", "[1]"))) == [empty, one]

    @pytest.mark.parametrize("value", NASTY)
    async def test_value_is_only_ever_a_value(
        self, port: KnowledgeSearchPort, rows: Sequence[Row], value: str
    ) -> None:
        """Quotes, backslashes and operators in a value find the row that has just that value."""
        expected = [row.id for row in rows if row.metadata.get("nasty") == value]
        assert await ids(port, asking(field_is("nasty", value))) == expected
        assert await ids(port, asking(field_is("nasty", f"{value}x"))) == []

    async def test_many_values_and_many_conditions(
        self, port: KnowledgeSearchPort, rows: Sequence[Row]
    ) -> None:
        """A long list of values is one condition like any other."""
        values = (*(f"none {index}" for index in range(300)), *NASTY)
        conditions = [field_is("nasty", *values)] * 4
        assert len(await ids(port, asking(*conditions))) == len(NASTY)
        everything = [field_is("docId", *{str(row.metadata["docId"]) for row in rows})] * 100
        assert len(await ids(port, asking(*everything))) == len(rows)

    async def test_limit_counts_what_the_conditions_leave(self, port: KnowledgeSearchPort) -> None:
        """Rows that are no hits do not use up the limit."""
        assert await _numbers(port, field_is("level", 7), limit=1) == [True]

    async def test_condition_on_a_document(self, port: KnowledgeSearchPort, rows: Sequence[Row]) -> None:
        """The fields of the identity can be asked for like any other."""
        condition = (field_is("docId", "doc-1"), field_is("chunkIndex", 0))
        assert await ids(port, asking(*condition)) == [rows[1].id]


def _scores(hits: Sequence[SearchHit]) -> list[float]:
    return [hit.score for hit in hits if hit.score is not None]


async def _numbers(port: KnowledgeSearchPort, *conditions: Condition, limit: int = 100) -> list[object]:
    hits = await port.search(asking(*conditions, limit=limit), timeout_s=TIMEOUT_S)
    return [metadata_object(hit.metadata).get("number") for hit in hits]
