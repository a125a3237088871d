"""W3C Trace Context in headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.records import Headers
from streams.wire.trace_context import joined_tracestate

OTHER = ("x", b"1")


@pytest.mark.parametrize(
    ("values", "joined"),
    [
        ((b"a=1", b"b=2"), b"a=1,b=2"),
        ((b"a=1,b=2", b"c=3", b"d=4"), b"a=1,b=2,c=3,d=4"),
        ((b"", b"a=1", b" \t", None, b"b=2"), b"a=1,b=2"),
        ((b"a=1", b"a=1"), b"a=1,a=1"),
        ((b"\xff", b"a=1"), b"\xff,a=1"),
        ((None, b""), None),
        ((b"", None), b""),
    ],
)
def test_several_tracestates_are_joined_by_commas(
    values: tuple[bytes | None, ...], joined: bytes | None
) -> None:
    """In their order and without empty ones; where all are empty the first stays."""
    several = tuple(("tracestate", value) for value in values)
    assert joined_tracestate((OTHER, several[0], OTHER, *several[1:])) == (
        OTHER,
        ("tracestate", joined),
        OTHER,
    )


HEADERS = st.lists(
    st.tuples(st.sampled_from(["tracestate", "Tracestate", "traceparent", "x"]), st.none() | st.binary()),
    max_size=6,
).map(tuple)


@given(HEADERS)
def test_everything_but_several_tracestates_stays_as_it_is(headers: Headers) -> None:
    """Names are compared as they are, and a single value keeps its bytes."""
    joined = joined_tracestate(headers)
    assert [each for each in joined if each[0] != "tracestate"] == [
        each for each in headers if each[0] != "tracestate"
    ]
    count = [name for name, _ in headers].count("tracestate")
    assert [name for name, _ in joined].count("tracestate") == min(count, 1)
    assert count > 1 or joined == headers
