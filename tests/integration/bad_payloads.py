"""Generated payloads that no request should be, each with what must become of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.worker import Payload

LARGE = 900_000
ERROR_HEADERS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "stage",
    "retryable",
    "exception.class.name",
    "exception.message",
    "attempts",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A payload and what a result must say of it.

    Attributes:
        kind: What is bad about it, for whoever reads a failure.
        payload: The record.
        field: A field that a result must name; `None` where any will do.
    """

    kind: str
    payload: Payload
    field: str | None = None


Values = Iterator[tuple[str, bytes | None, str | None]]
"""Kind, value, and the field that must be named."""


def bad_payloads(count: int, *, large: int, seed: int) -> list[Bad]:
    """Make payloads of every kind, `large` of them of some 900 KB; equal seeds give equal payloads."""
    choose = random.Random(seed)
    made: list[Bad] = []
    while len(made) < count:
        number = len(made)
        makers = _LARGE if number < large else _MAKERS
        kind, value, field = makers[number % len(makers)](choose, f"bad-{number}")
        key = choose.choice([None, b"", b"session", choose.randbytes(8), f"bad-{number}".encode()])
        if value is None and key is None and number % 2:
            key = b"tombstone"
        headers = (*_headers(choose), *_event(choose, number))
        made.append(Bad(kind=kind, payload=Payload(value=value, key=key, headers=headers), field=field))
    choose.shuffle(made)
    return made


def readable_id(payload: Payload) -> str | None:
    """Read a request's id as leniently as UTF-8 can be: whoever waits for that id must get a result."""
    own = _id_in_the_value(payload.value)
    if own is not None:
        return own
    events = [text for name, text in payload.headers if name == "ce_id"]
    try:
        return events[-1].decode() or None if events else None
    except UnicodeDecodeError:
        return None


def _id_in_the_value(value: bytes | None) -> str | None:
    if value is None:
        return None
    # What numbers are does not matter here, so that none can be too large.
    reader = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len)
    try:
        body: dict[str, str] = reader.decode(value.decode().removeprefix("\ufeff"))
        request_id = body["request_id"]
        request_id.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return request_id or None


Maker = Callable[[random.Random, str], tuple[str, bytes | None, str | None]]


def _body(request_id: str, **fields: Any) -> bytes:
    return json.dumps({"request_id": request_id, "query": "zanzibar", **fields}, ensure_ascii=False).encode()


def _raw(request_id: str, text: str) -> bytes:
    """Return a request with further fields as they stand in the JSON."""
    return f'{{"request_id": "{request_id}", "query": "zanzibar", {text}}}'.encode("utf-8", "surrogatepass")


def _random_bytes(choose: random.Random, _: str) -> tuple[str, bytes | None, str | None]:
    return "random bytes", b"\xc0" + choose.randbytes(choose.randrange(200)), None


def _truncated(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    whole = _body(request_id, filter={"team": ["a", "é😀"]}, hints={"a": [1, {"b": None}]})
    return "truncated", whole[: choose.randrange(1, len(whole))], None


def _deep(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    opening, closing = choose.choice([("[", "]"), ('{"a":', "}")])
    levels = choose.choice([choose.randrange(260, 700), choose.randrange(2_000, 20_000)])
    field = choose.choice(["hints", "filter", "queries", "vectors", "budget", "tenant"])
    text = f'"{field}": {opening * levels}1{closing * levels}'
    if field in {"queries", "vectors"} and opening == "[":
        text = f'"{field}": {{"a": {opening * levels}{closing * levels}}}'
    if field == "budget":
        text = f'"budget": {{"max_items": {opening * levels}1{closing * levels}}}'
    return f"{field} {levels} levels deep", _raw(request_id, text), field


def _huge_number(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    number = choose.choice(["1e999", "-1e999", "9" * 30, "9" * 400, "9" * 5_000, "18446744073709551616"])
    field = choose.choice(["retrieve_k", "return_n", "max_chunks_per_document"])
    return f"{field} of {len(number)} digits", _raw(request_id, f'"{field}": {number}'), field


def _not_a_number(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    number = choose.choice(["NaN", "Infinity", "-Infinity"])
    text = choose.choice(
        ['"vector": [0.1, {}]', '"retrieve_k": {}', '"hints": {}', '"filter": {{"a": {}}}', '"unknown": [{}]']
    )
    return f"{number} in a number", _raw(request_id, text.format(number)), None


def _lone_surrogate(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    half = choose.choice(["\\ud800", "\\udfff", "\ud83d", "\udc00"])
    text = choose.choice(
        [
            '"tenant": "a{}"',
            '"hints": ["{}"]',
            '"filter": {{"a": "{}"}}',
            '"filter": {{"{}": 1}}',
            '"unknown": "{}"',
            '"{}": 1',
        ]
    )
    if choose.random() < 0.2:
        request_id += half
    return "half a surrogate pair", _raw(request_id, text.format(half)), None


def _repeated_key(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    return choose.choice(
        [
            ("repeated id", _raw(request_id, '"request_id": 5'), None),
            ("repeated query", _raw(request_id, '"query": "fine", "query": 5'), "query"),
            ("repeated budget", _raw(request_id, '"budget": {}, "budget": []'), "budget"),
            (
                "repeated in the budget",
                _raw(request_id, '"budget": {"max_items": 1, "max_items": 0}'),
                "budget",
            ),
        ]
    )


_WRONG: Mapping[str, list[Any]] = {
    "query": [5, True, [], {}, "", " \n\t", "x" * 8_193, None, ["zanzibar"]],
    "queries": [[], "a", 5, {}, [""], ["a", None], ["a"] * 9, [["a"]], [True]],
    "vector": [[], "a", 5, {}, ["0.1"], [None], [True], [[0.1]], [0.1, {}]],
    "vectors": [[], "a", 5, {}, [0.1], [[]], [["a"]], [[0.1], [0.2]], [[None]]],
    "retrieve_k": [0, -1, 2.0, "5", True, [], {}, 201, 2**63],
    "return_n": [0, -1, 2.5, "5", False, [], {}, 21, 2**70],
    "max_chunks_per_document": [0, -1, 1.0, "2", True, [], {}],
    "filter": [[], "team == 1", 5, True, {"a": None}, {"a": {}}, {"a": []}, {"a": [[]]}, {"a b": 1}, {"": 1}],
    "tenant": ["", "  ", 5, True, [], {}],
    "budget": [[], "5", 5, True, {"max_items": 0}, {"max_total_chars": "9"}, {"max_chars_per_item": 1.5}],
    "expires_at": ["", "soon", 0, 1e9, True, [], "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"],
    "explain": ["true", 1, 0, [], {}],
    "hints": ["x" * 17_000, ["é" * 9_000], {"a": "x" * 16_384}],
}


def _wrong_type(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    field = choose.choice(list(_WRONG))
    wrong = choose.choice(_WRONG[field])
    body = {"request_id": request_id, field: wrong}
    if field not in {"query", "queries"}:
        body["query"] = "zanzibar"
    return f"{field} = {wrong!r:.60}", json.dumps(body).encode(), field


def _tombstone(_: random.Random, __: str) -> tuple[str, bytes | None, str | None]:
    return "tombstone", None, None


def _empty(choose: random.Random, _: str) -> tuple[str, bytes | None, str | None]:
    return "nothing", choose.choice([b"", b" ", b"\n\n", b"\x00", b"{}", b"[]"]), None


def _byte_order_mark(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    encoding = choose.choice(["utf-8-sig", "utf-16"])
    return f"fine, but in {encoding}", _body(request_id).decode().encode(encoding), None


def _long_id(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    length = choose.choice([201, 202, 1_000, 5_000, 30_000])
    long = (request_id + choose.choice(["-", "é", "😀", "\\", '"', "\n", "\x00"]) * length)[:length]
    return f"id of {length} characters", _body(long), "request_id"


def _no_id(choose: random.Random, _: str) -> tuple[str, bytes | None, str | None]:
    wrong: list[Any] = [None, 5, True, "", [], {}, ["bad"], 1.5]
    bodies: list[dict[str, Any]] = [
        {"request_id": choose.choice(wrong)},
        {},
        {"requestId": "bad"},
        {"id": "bad"},
    ]
    fields = choose.choice(bodies)
    return f"no id: {fields}", json.dumps({"query": "zanzibar", **fields}).encode(), None


def _top_level(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    fine = _body(request_id)
    return (
        "not an object",
        choose.choice(
            [
                b"null",
                b"true",
                b"5",
                b'"text"',
                b"NaN",
                b"[" + fine + b"]",
                json.dumps(fine.decode()).encode(),
            ]
        ),
        None,
    )


def _almost_json(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    fine = _body(request_id)
    return (
        "almost JSON",
        choose.choice(
            [
                fine[:-1] + b",}",
                fine + fine,
                fine + b"\n" + fine,
                fine.replace(b'"', b"'"),
                b"// comment\n" + fine,
                fine.replace(b"zanzibar", b"zanzi\nbar"),
                fine.replace(b"zanzibar", b"zanzi\\xbar"),
                fine.replace(b"zanzibar", b"zanzi\xffbar"),
                fine.replace(b"zanzibar", b"zanzi\xc3"),
                fine.replace(b"{", b"{,", 1),
                b"\x00\x00\x00\x00\x01" + fine,
            ]
        ),
        None,
    )


def _against_the_rules(choose: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    broken: list[tuple[dict[str, Any], str]] = [
        ({"queries": ["beside"]}, "queries"),
        ({"query": None}, "query"),
        ({"vector": [0.1], "vectors": [[0.1]]}, "vectors"),
        ({"return_n": 6, "retrieve_k": 5}, "return_n"),
        ({"query": None, "queries": ["a", "b"], "vectors": [[0.1]]}, "vectors"),
        ({"query": None, "queries": ["a", "b"], "vector": [0.1]}, "vector"),
    ]
    fields, field = choose.choice(broken)
    return f"against the rules: {fields}", _body(request_id, **fields), field


def _large_noise(choose: random.Random, _: str) -> tuple[str, bytes | None, str | None]:
    return "large noise", b"\xc0" + choose.randbytes(LARGE), None


def _large_query(_: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    return "large query", _body(request_id, query="zanzibar " * (LARGE // 9)), "query"


def _large_list(_: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    return "large list", _body(request_id, queries=["zanzibar"] * (LARGE // 12)), "queries"


def _large_array(_: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    return "large array", _body(request_id, vector=["0"] * (LARGE // 5)), "vector"


def _large_brackets(_: random.Random, __: str) -> tuple[str, bytes | None, str | None]:
    return "large nest", b"[" * LARGE, None


def _large_cut(_: random.Random, request_id: str) -> tuple[str, bytes | None, str | None]:
    return "large and cut", _body(request_id, query="x" * LARGE)[:-1], None


_MAKERS: tuple[Maker, ...] = (
    _random_bytes,
    _truncated,
    _deep,
    _huge_number,
    _not_a_number,
    _lone_surrogate,
    _repeated_key,
    _wrong_type,
    _tombstone,
    _wrong_type,
    _empty,
    _byte_order_mark,
    _long_id,
    _no_id,
    _top_level,
    _wrong_type,
    _almost_json,
    _against_the_rules,
)
_LARGE: tuple[Maker, ...] = (
    _large_noise,
    _large_query,
    _large_list,
    _large_array,
    _large_brackets,
    _large_cut,
)


def _headers(choose: random.Random) -> tuple[tuple[str, bytes], ...]:
    pool = [
        ("trace", choose.randbytes(4)),
        ("trace", b""),
        ("correlation_id", b"\xff\x00"),
        ("traceparent", b"00-abc-def-01"),
        ("ключ", "значение".encode()),
        ("", b"no name"),
        ("lookup.errors.stage", b"somebody's own"),
        ("large", b"x" * 2_000),
    ]
    return tuple(choose.choices(pool, k=choose.choice([0, 0, 1, 3, 6])))


def _event(choose: random.Random, number: int) -> tuple[tuple[str, bytes], ...]:
    """Return now and then the headers of a CloudEvent: an id or what should be one, and a bad expiry."""
    ids = choose.choice([[], [], [], [b"\xff"], [b""], [b"event-%d" % number], [b"a", b"event-%d" % number]])
    return (*(("ce_id", text) for text in ids), ("ce_expirytime", b"soon")) if ids else ()
