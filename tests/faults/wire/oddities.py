"""Odd batches by number: the same seed and number make the same batch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from tests.faults.wire.batches import NOW_MS, Codec, Record, base_offset_of, well_formed
from tests.faults.wire.contents import Content, content
from tests.faults.wire.fetch_proxy import Swap
from tests.faults.wire.orders import ClientRecord, Ending, Order
from tests.faults.wire.spoiling import (
    BIT_FLIPS,
    CONTROL_BATCHES,
    FORGERIES,
    LYING_HEADERS,
    LYING_OFFSETS,
    TRUNCATIONS,
    Forge,
    Spoil,
)

Sender: TypeAlias = Literal["hand", "librdkafka", "java"]
Turn: TypeAlias = Literal["well-formed", "truncated", "bit-flipped", "forged"]

SENDERS: Sequence[Sender] = ("hand", "librdkafka", "hand", "java")
TURNS: Sequence[Turn] = ("well-formed", "truncated", "bit-flipped", "forged")
MOST_RECORDS = 4
SPOILED_WHEN_SENT, SPOILED_ONCE = 0.5, 0.3
DETECTED_BY_CHECKSUM = {"cut", "cut-length-told", *BIT_FLIPS}
"""Damage that consumers can tell from what was sent: they must fetch such a batch again."""


_ENDINGS: Sequence[Ending] = ("plain", "plain", "commit", "abort")


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """An odd batch, and what is done to it.

    Attributes:
        number: Its number.
        sender: Who sends it.
        kind: The same, and what is odd, in a few words.
        partition: Where it is sent.
        contents: Its records and what must come of each.
        batch: The bytes that are sent by hand, or
        order: What a client is told to send.
        swap: What consumers get in the place of the stored batch.
        as_sent: Whether consumers get the records of `contents`: then each must get its due.
    """

    number: int
    sender: Sender
    kind: str
    partition: int
    contents: tuple[Content, ...]
    batch: bytes | None = None
    order: Order | None = None
    swap: Swap | None = None
    as_sent: bool = False


def name_of(number: int, record: int) -> str:
    """Return the request id of a record of an odd batch."""
    return f"odd-{number}-{record}"


def odd(number: int, *, seed: int, partitions: int) -> Odd:
    """Return the odd batch of a number.

    Args:
        number: Senders, and what they do, come by turns.
        seed: Of everything that is chosen.
        partitions: Of the topic.
    """
    choose = random.Random(f"{seed}-{number}")
    sender = SENDERS[number % len(SENDERS)]
    turn = TURNS[number // len(SENDERS) % len(TURNS)]
    contents = tuple(
        content(choose, name_of(number, record)) for record in range(choose.randint(1, MOST_RECORDS))
    )
    bare = Odd(
        number=number, sender=sender, kind=turn, partition=choose.randrange(partitions), contents=contents
    )
    return _by_hand(bare, turn, choose) if sender == "hand" else _by_client(bare, turn, choose)


def _by_hand(bare: Odd, turn: Turn, choose: random.Random) -> Odd:
    """Send it well-formed or spoiled, or well-formed to be spoiled on its way to consumers."""
    records, codec = [each.record for each in bare.contents], choose.choice(tuple(Codec))
    batch = well_formed(records, codec)
    if turn == "well-formed":
        return replace(bare, kind=f"hand/{turn}/{codec.name.lower()}", batch=batch, as_sent=True)
    if choose.random() < SPOILED_WHEN_SENT:
        kinds = _kinds(turn, records) | CONTROL_BATCHES
        what = choose.choice(tuple(kinds))
        return replace(bare, kind=f"hand/{turn}-when-sent/{what}", batch=kinds[what](batch, choose))
    return _spoiled_when_fetched(replace(bare, kind=f"hand/{turn}", batch=batch), turn, choose)


def _by_client(bare: Odd, turn: Turn, choose: random.Random) -> Odd:
    """Let a client send it; what is not well-formed is spoiled on its way to consumers."""
    codec, ending = choose.choice(tuple(Codec)), choose.choice(_ENDINGS)
    order = Order(
        partition=bare.partition,
        codec=codec,
        ending=ending,
        records=tuple(_client_record(each.record, choose) for each in bare.contents),
    )
    kind = f"{bare.sender}/{turn}/{ending}"
    if turn == "well-formed":
        return replace(bare, kind=f"{kind}/{codec.name.lower()}", order=order, as_sent=ending != "abort")
    return _spoiled_when_fetched(replace(bare, kind=kind, order=order), turn, choose)


def _spoiled_when_fetched(bare: Odd, turn: Turn, choose: random.Random) -> Odd:
    """Let consumers get it in another form, each time or only once."""
    kinds = _kinds(turn, [each.record for each in bare.contents])
    what = choose.choice(tuple(kinds))
    if what in DETECTED_BY_CHECKSUM and choose.random() < SPOILED_ONCE:
        aborted = bare.order is not None and bare.order.ending == "abort"
        once = _once(kinds[what], choose)
        return replace(bare, kind=f"{bare.kind}-once/{what}", swap=once, as_sent=not aborted)
    return replace(bare, kind=f"{bare.kind}-always/{what}", swap=_always(kinds[what], choose))


def _kinds(turn: Turn, records: Sequence[Record]) -> dict[str, Spoil]:
    """Return what may be done in a turn to a batch of these records."""
    match turn:
        case "truncated":
            return TRUNCATIONS
        case "bit-flipped":
            return BIT_FLIPS
        case _:
            forged = {name: _with_records(forge, records) for name, forge in FORGERIES.items()}
            return {**LYING_HEADERS, **LYING_OFFSETS, **forged}


def _with_records(forge: Forge, records: Sequence[Record]) -> Spoil:
    return lambda batch, choose: forge(records, base_offset_of(batch), choose)


def _always(spoil: Spoil, choose: random.Random) -> Swap:
    """Return what spoils a batch in the same way however often it is fetched."""
    seed = choose.random()
    return lambda batch, _: _spoiled(spoil, seed, batch)


@lru_cache(maxsize=256)
def _spoiled(spoil: Spoil, seed: float, batch: bytes) -> bytes:
    """Return a spoiled batch; consumers fetch the same one several times."""
    return spoil(batch, random.Random(seed))


def _once(spoil: Spoil, choose: random.Random) -> Swap:
    """Return what spoils a batch the first time that it is fetched, as on a bad line."""
    spoiled = _always(spoil, choose)
    return lambda batch, fetched: spoiled(batch, fetched) if fetched == 0 else batch


def _client_record(record: Record, choose: random.Random) -> ClientRecord:
    return ClientRecord(
        key=record.key,
        value=record.value,
        headers=tuple(((name or b"").decode(), value) for name, value in record.headers),
        timestamp_ms=choose.choice((None, NOW_MS, 1)),
    )
