"""Dead letters: the request as it was, and why it could not be answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SearchUnavailable
from streams.kafka.publishing import HEADER_OVERHEAD_BYTES
from streams.kafka.records import ConsumedRecord, Headers, ProducedRecord
from streams.wire.dead_letters import (
    DeadLetterLimit,
    Failure,
    Stage,
    TooManyDeadLetters,
    dead_letter_record,
    describe,
    shortened,
)
from tests.builders import consumed
from tests.strategies import LONE_SURROGATE

FAILURE = Failure(stage="validate", retryable=False, error=ValueError("not valid"))

HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "lookup.errors.stage", ""]), st.one_of(st.none(), st.binary(max_size=4))
    ),
    max_size=6,
).map(tuple)


def dead_letter(request: ConsumedRecord, failure: Failure = FAILURE) -> ProducedRecord:
    """Return the dead letter of a request."""
    return dead_letter_record(request, failure, topic="lookup.dead-letters")


def errors(failure: Failure) -> dict[str, str]:
    """Return the error's headers as text."""
    added = dead_letter(consumed(b"not json"), failure).headers
    return {name: (value or b"").decode("utf-8") for name, value in added}


def caused(error: Exception, cause: BaseException) -> Exception:
    """Return an error with its cause."""
    error.__cause__ = cause
    return error


def size(record: ProducedRecord) -> int:
    """Return the bytes that a record is taken for, at most 256 and 10 a header more than it has."""
    sizes = [len(name.encode()) + len(value or b"") + HEADER_OVERHEAD_BYTES for name, value in record.headers]
    return len(record.key or b"") + len(record.value or b"") + sum(sizes)


# The request


@pytest.mark.parametrize("key", [None, b"", b"session-7", b"\xff\x00"])
@pytest.mark.parametrize("value", [None, b"", b"{}", b"\xff\x00", b'{"request_id": "r-1"}  \n'])
def test_request_key_and_value_are_untouched(key: bytes | None, value: bytes | None) -> None:
    """Key and value are the request's bytes; a tombstone stays one, and no key stays none."""
    produced = dead_letter(consumed(value, key=key))
    assert (produced.topic, produced.key, produced.value) == ("lookup.dead-letters", key, value)


def test_request_headers_come_first_untouched() -> None:
    """Every header of the request is there in order, repeated names and null values too."""
    headers = (("b", b"1"), ("a", None), ("b", b"\xff"), ("content-type", b"x"), ("b", b"1"))
    assert dead_letter(consumed(b"not json", headers=headers)).headers[:5] == headers


@given(st.one_of(st.none(), st.binary()), st.one_of(st.none(), st.binary()), HEADERS)
def test_request_can_be_had_back(key: bytes | None, value: bytes | None, headers: Headers) -> None:
    """Without the nine last headers a dead letter is its request again, also one that was dead before."""
    produced = dead_letter(consumed(value, key=key, headers=headers))
    assert (produced.key, produced.value, produced.headers[:-9]) == (key, value, headers)


# The error


def test_error_headers_are_complete_and_in_order() -> None:
    """Nine headers say where the request was, what went wrong and whether trying again may help."""
    failure = Failure(
        stage="search", retryable=True, error=SearchUnavailable("the engine cannot be reached"), attempts=3
    )
    assert dead_letter(consumed(b"not json"), failure).headers == (
        ("lookup.errors.topic", b"lookup.requests"),
        ("lookup.errors.partition", b"3"),
        ("lookup.errors.offset", b"17"),
        ("lookup.errors.timestamp", b"1800000000123"),
        ("lookup.errors.stage", b"search"),
        ("lookup.errors.retryable", b"true"),
        ("lookup.errors.exception.class.name", b"SearchUnavailable"),
        ("lookup.errors.exception.message", b"the engine cannot be reached"),
        ("lookup.errors.attempts", b"3"),
    )


@pytest.mark.parametrize("stage", ["decode", "validate", "search", "publish"])
@pytest.mark.parametrize(("retryable", "shown"), [(True, "true"), (False, "false")])
def test_error_headers_name_stage_and_retryable(
    stage: Stage,
    retryable: bool,  # noqa: FBT001 - a parameter of the test
    shown: str,
) -> None:
    """The stage is one of four, and whether trying again may help is `true` or `false`."""
    named = errors(Failure(stage=stage, retryable=retryable, error=ValueError("e")))
    assert named["lookup.errors.stage"] == stage
    assert named["lookup.errors.retryable"] == shown
    assert named["lookup.errors.attempts"] == "1"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        pytest.param("Motor läuft nicht 😀", "Motor läuft nicht 😀", id="beyond ASCII"),
        pytest.param(f"a{LONE_SURROGATE}b", "a?b", id="lone surrogate"),
        pytest.param("a\n  b\r\n\tc\u2028d", "a b c d", id="several lines"),
        pytest.param(" a ", "a", id="white space around"),
        pytest.param("", "ValueError", id="no message"),
    ],
)
def test_error_message_is_one_line_of_utf8(message: str, shown: str) -> None:
    """White space is one blank, what UTF-8 cannot hold is replaced, and an empty message is the class."""
    named = errors(Failure(stage="search", retryable=False, error=ValueError(message)))
    assert named["lookup.errors.exception.message"] == shown


def test_error_message_names_the_cause() -> None:
    """What the engine said stands behind what the stage says."""
    error = caused(SearchUnavailable("the engine cannot be reached"), OSError("connection\nrefused"))
    assert describe(error) == "the engine cannot be reached (caused by OSError: connection refused)"


@given(st.text(), st.one_of(st.none(), st.text()))
def test_error_message_is_one_line_and_bounded(message: str, cause: str | None) -> None:
    """Whatever the exceptions say, it fits into one line of 500 characters."""
    error = ValueError(message * 100)
    text = describe(error if cause is None else caused(error, OSError(cause * 100)))
    assert len(text) <= 500
    assert len(text.splitlines()) <= 1


def test_error_message_is_cut_at_its_end() -> None:
    """Of a long message the beginning stays."""
    assert describe(ValueError("a" * 300 + "b" * 300)) == "a" * 300 + "b" * 200


# The limit


def test_limit_is_met_within_a_minute() -> None:
    """As many as are allowed are counted; one more in the same minute is an error that names the setting."""
    limit = DeadLetterLimit(3)
    for now_s in (100.0, 100.0, 159.9):
        limit.count(now_s)
    with pytest.raises(TooManyDeadLetters, match=r"stage\.max-dead-letters-per-minute = 3"):
        limit.count(159.9)


def test_limit_is_of_any_minute() -> None:
    """A dead letter counts for 60 seconds."""
    limit = DeadLetterLimit(2)
    for now_s in (0.0, 59.0, 60.0, 119.0, 120.0):
        limit.count(now_s)
    with pytest.raises(TooManyDeadLetters):
        limit.count(178.9)


@given(st.lists(st.floats(0, 50), max_size=50), st.integers(1, 4))
def test_limit_is_never_passed(waits_s: list[float], per_minute: int) -> None:
    """However they come, no minute has more than are allowed, and none is refused without need."""
    limit, now_s = DeadLetterLimit(per_minute), 0.0
    counted: list[float] = []
    for wait_s in waits_s:
        now_s += wait_s
        recent = [at for at in counted if now_s - at < 60]
        if len(recent) < per_minute:
            limit.count(now_s)
            counted.append(now_s)
        else:
            with pytest.raises(TooManyDeadLetters):
                limit.count(now_s)


# What is too large for the topic


LIMIT = 2_000


@given(
    st.one_of(st.none(), st.binary(max_size=5_000)),
    st.one_of(st.none(), st.binary(max_size=5_000)),
    st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=200)), max_size=60).map(tuple),
)
def test_shortened_dead_letter_fits_whatever_is_large_in_it(
    key: bytes | None, value: bytes | None, headers: Headers
) -> None:
    """The value is cut first, the request's headers go next, the key is cut last; the error is all there."""
    request = consumed(value, key=key, headers=headers)
    whole = dead_letter(request)
    letter = shortened(whole, size(whole) - LIMIT, own_headers=len(headers))
    assert size(letter) <= LIMIT
    assert (value or b"").startswith(letter.value or b"")
    assert (key or b"").startswith(letter.key or b"")
    told = dict(letter.headers)
    assert told["lookup.errors.value.bytes"] == str(len(value or b"")).encode()
    assert set(whole.headers[len(headers) :]) <= set(letter.headers)
    if "lookup.errors.headers.left.out" not in told:
        assert (letter.key, letter.headers[: len(headers)]) == (key, headers)
    if "lookup.errors.key.bytes" not in told:
        assert letter.key == key
    else:
        assert not letter.value


def test_key_of_a_dead_letter_is_kept_where_the_headers_are_what_is_large() -> None:
    """Redriving by hand needs it more."""
    request = consumed(b"not json", key=b"k", headers=(("large", b"x" * 5_000),))
    whole = dead_letter(request)
    letter = shortened(whole, size(whole) - LIMIT, own_headers=1)
    assert (letter.key, letter.value) == (b"k", b"")
    assert dict(letter.headers)["lookup.errors.headers.left.out"] == b"1"
