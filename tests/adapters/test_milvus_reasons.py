"""What of an engine's words is told: the reason, and nothing that differs, leads anywhere or is secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.milvus_reasons import MAX_REASON_LENGTH, reason_of

DELEGATOR = (
    "failed to search/query delegator 1 for channel by-dev-rootcoord-dml_8_470835886659092128v0: fail to"
    " Search, QueryNode ID=1, reason="
)
WORKER = f"{DELEGATOR}worker(1) query failed: "
UNKNOWN = ": service internal error: UnknownError"
PARSING = "failed to create query plan: cannot parse expression: "
FAISS = (
    "Error in virtual void faiss::IndexIVF::search(faiss::idx_t) const at /project/faiss/IndexIVF.cpp:338: "
)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            f"{WORKER} => failed to search: out of range in json: ef(16) should be above k(20){UNKNOWN}",
            "out of range in json: ef(16) should be above k(20)",
        ),
        (
            f'{WORKER}Assert "filter > radius" at /__w/core/Helper.cpp:122\n => range_filter is low{UNKNOWN}',
            "range_filter is low",
        ),
        (f'{WORKER}Assert "(value == 7)" at /__w/core/Plan.cpp:47\n{UNKNOWN}', 'Assert "(value == 7)"'),
        (
            f"{DELEGATOR}collection:470835886659092128, metric type not match: [expected=COSINE]",
            "collection:…, metric type not match: [expected=COSINE]",
        ),
        (f'{PARSING}a == ", error: x", error: cannot cast value to Array ', "cannot cast value to Array"),
        (f"{PARSING}a ==", ""),
        (
            "comparison '==' between incompatible types at column 3\n  i == \"x\"\n    ^^\nleft side is int",
            "comparison '==' between incompatible types at column 3",
        ),
        (f"{FAISS}Error: 'cur_nprobe > 0' failed", "'cur_nprobe > 0' failed"),
        ("topk [9] is invalid, should be in range [1, 8]", "topk [9] is invalid, should be in range [1, 8]"),
        ("", ""),
        ("470835886659092128", ""),
    ],
)
def test_reason_is_the_innermost_one(words: str, reason: str) -> None:
    """The components on the way, places in their source, and the filter as sent are not."""
    assert reason_of(words) == reason


@pytest.mark.parametrize(
    "differing",
    [
        "10.1.2.3:19530",
        "10.1.2.3",
        "[::1]:5000",
        "fe80::1:2",
        "milvus-7.prod.svc:19530",
        "db.example.internal",
        "https://user:pass@host/x",
        "2026-01-02T03:04:05.678Z",
        "2026-01-02 03:04:05",
        "03:04:05",
        "12.3 ms",
        "12ms",
        "1.5s",
        "470835886659092128",
        "1767323045",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "123e4567-e89b-12d3-a456-426614174000",
        "0x7f3c2a",
        "/var/lib/milvus/data/7",
        "by-dev-rootcoord-dml_8_470835886659092128v0",
        "QueryNode ID=7",
        "worker(7)",
        "segment 4711",
        "host-7",
        "[collection=470835886659092128]",
        "token=hush-4f9c",
        "Authorization: hush-4f9c",
        "Bearer hush-4f9c",
        '"password": "hush-4f9c"',
        "key hush-4f9c",
    ],
)
def test_what_differs_or_is_secret_is_left_out(differing: str) -> None:
    """Neither the whole nor a part that tells one from another."""
    reason = reason_of(f"refused {differing} as too wide", secrets=["hush-4f9c"])
    assert reason.startswith("refused")
    assert reason.endswith("as too wide")
    assert not any(part in reason for part in ("hush", "::", "example", "user", "prod", "lib"))
    assert not any(character.isdigit() for character in reason)


@given(st.text(), st.text(min_size=4))
def test_reason_is_one_printable_line_of_bounded_length(words: str, secret: str) -> None:
    """Whatever the engine says, and the same each time."""
    reason = reason_of(words, secrets=[secret])
    assert len(reason) <= MAX_REASON_LENGTH
    assert reason == "" or reason.isprintable()
    assert reason == reason_of(words, secrets=[secret])


def test_long_reason_is_cut() -> None:
    """A parser that lists all it would have taken must not fill a result."""
    reason = reason_of("mismatched input " + "'x', " * 1_000)
    assert len(reason) == MAX_REASON_LENGTH
    assert reason.endswith("…")


@pytest.mark.parametrize(
    "long", ["x", "a-", "1.", "a:", "f", "/a", " ", "node", "cannot parse expression: ", "=>"]
)
def test_long_words_cost_no_time(long: str) -> None:
    """An engine repeats the request's values: they must not occupy the worker. This took minutes once."""
    reason = reason_of(f"value {long * 500_000} cannot be cast")
    assert len(reason) <= MAX_REASON_LENGTH


def test_part_of_an_id_is_not_told() -> None:
    """What is cut is cut between words."""
    words = "segment " * 124 + "4708358866590921284708358866590921284708"
    assert not any(character.isdigit() for character in reason_of(words))
