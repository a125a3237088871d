"""What strange senders put into records, and what must come of each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import orjson

from tests.faults.wire.batches import Record

Fate: TypeAlias = Literal["ok", "rejected", "dead-letter", "any"]
"""What becomes of a record that can be read: a result with that status, or a dead letter without one."""

LONGEST_VALUE = 150_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A record and what must come of it.

    Attributes:
        kind: What is odd about it.
        record: The record.
        request_id: Under which it is answered; `None` where nobody can be.
        fate: What must come of it.
    """

    kind: str
    record: Record
    request_id: str | None
    fate: Fate


def content(choose: random.Random, request_id: str) -> Content:
    """Return something odd; it has the id wherever it has one."""
    kind = choose.choice(tuple(_VALUES))
    value, fate = _VALUES[kind](request_id, choose)
    record = Record(
        key=choose.choice(_KEYS)(choose),
        value=value,
        headers=choose.choice(_HEADERS)(choose),
        timestamp_delta=choose.choice((0, 0, 1, -1, 5_000)),
    )
    named = None if fate == "dead-letter" else request_id
    return Content(kind=kind, record=record, request_id=named, fate=fate)


def _request(request_id: str, **fields: object) -> bytes:
    return orjson.dumps({"request_id": request_id, "query": "a question", "retrieve_k": 3, **fields})


_Value: TypeAlias = Callable[[str, random.Random], tuple[bytes | None, Fate]]

_VALUES: dict[str, _Value] = {
    "good": lambda name, _: (_request(name), "ok"),
    "good-with-unknown-field": lambda name, _: (_request(name, unknown=[1, {"a": None}]), "ok"),
    "good-in-other-script": lambda name, _: (_request(name, query="что 何 🤷"), "ok"),
    "good-with-white-space": lambda name, _: (b" \n" * 500 + _request(name) + b"\t" * 500, "ok"),
    "expired": lambda name, _: (_request(name, expires_at="2001-01-01T00:00:00Z"), "any"),
    "long": lambda name, choose: (
        _request(name, ignored="x" * choose.choice((10_000, 100_000, LONGEST_VALUE))),
        "ok",
    ),
    "no-query": lambda name, _: (orjson.dumps({"request_id": name}), "rejected"),
    "width-out-of-range": lambda name, choose: (
        _request(name, retrieve_k=choose.choice((0, -1, 10**9, 2**63, 1.5, "5", True, None, []))),
        "any",
    ),
    "query-of-other-type": lambda name, choose: (
        _request(name, query=choose.choice((1, [], {}, True, "", " ", "x" * 9_000))),
        "rejected",
    ),
    "nan": lambda name, _: (
        b'{"request_id": "%b", "query": "q", "vector": [NaN]}' % name.encode(),
        "rejected",
    ),
    "lone-surrogate": lambda name, _: (
        b'{"request_id": "%b", "query": "\\ud800"}' % name.encode(),
        "rejected",
    ),
    "byte-order-mark": lambda name, _: (b"\xef\xbb\xbf" + _request(name), "any"),
    "deep": lambda name, _: (
        b'{"request_id": "%b", "query": "q", "hints": ' % name.encode() + b"[" * 900 + b"]" * 900 + b"}",
        "any",
    ),
    "huge-number": lambda name, _: (
        b'{"request_id": "%b", "query": "q", "retrieve_k": 1' % name.encode() + b"0" * 5_000 + b"}",
        "rejected",
    ),
    "tombstone": lambda *_: (None, "dead-letter"),
    "empty": lambda *_: (b"", "dead-letter"),
    "zeros": lambda _, choose: (b"\0" * choose.randint(1, 5_000), "dead-letter"),
    "noise": lambda _, choose: (b"\xff" + choose.randbytes(choose.randint(1, 500)), "dead-letter"),
    "not-an-object": lambda _, choose: (
        choose.choice((b"[]", b"null", b"0", b'"r"', b"true", b"NaN", b"[" * 100_000)),
        "dead-letter",
    ),
    "no-id": lambda _, choose: (
        orjson.dumps({"request_id": choose.choice((None, "", 5, True, [], {})), "query": "q"}),
        "dead-letter",
    ),
    "cut-off": lambda name, choose: (_request(name)[: choose.randint(1, 30)], "dead-letter"),
    "utf-16": lambda name, _: (_request(name).decode().encode("utf-16"), "dead-letter"),
    "schema-registry": lambda name, _: (b"\0\0\0\0\x07" + _request(name), "dead-letter"),
}

_Key: TypeAlias = Callable[[random.Random], bytes | None]

_KEYS: Sequence[_Key] = (
    lambda _: None,
    lambda _: b"",
    lambda _: b"key",
    lambda choose: choose.randbytes(20),
    lambda choose: b"k" * choose.choice((1_000, 50_000)),
)

_Headers: TypeAlias = Callable[[random.Random], tuple[tuple[bytes | None, bytes | None], ...]]

_HEADERS: Sequence[_Headers] = (
    lambda _: (),
    lambda _: ((b"a", b"1"), (b"a", b"2"), (b"a", None), (b"b", b"")),
    lambda _: ((b"", b"no name"),),
    lambda choose: (("имя 名".encode(), choose.randbytes(30)),),
    lambda _: tuple((b"n%d" % number, b"v") for number in range(300)),
    lambda _: ((b"n" * 5_000, b"v" * 50_000),),
    lambda choose: ((b"traceparent", choose.randbytes(10)), (b"tracestate", b"=,=")),
    lambda _: ((b"correlation_id", None), (b"correlation_id", b"\xff\xfe")),
    lambda _: ((b"lookup.errors.partition", b"7"), (b"lookup.errors.offset", b"0")),
    lambda _: ((b"line\r\nbreak", b"\r\n"), (b"null\0", b"\0")),
)
