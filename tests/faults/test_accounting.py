"""The account of odd batches: what it must find wrong, and what it must not."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.results import Answered
from tests.faults.wire.accounting import Account, DeadLetters, Sent
from tests.faults.wire.batches import Codec, Record
from tests.faults.wire.contents import Content, Fate
from tests.faults.wire.oddities import Odd
from tests.faults.wire.orders import ClientRecord, Delivery, Ending, Order
from tests.support.topics import StoredRecord

PARTITION = 2


def sent(
    *deliveries: Delivery, fates: Sequence[Fate] = ("ok",), ending: Ending = "plain", as_sent: bool = True
) -> Sent:
    """Return a batch of so many records that should meet these fates."""
    contents = tuple(
        Content(
            kind="k", record=Record(), request_id=None if fate == "dead-letter" else f"odd-{at}", fate=fate
        )
        for at, fate in enumerate(fates)
    )
    order = Order(partition=PARTITION, codec=Codec.NONE, ending=ending, records=(ClientRecord(),))
    odd = Odd(
        number=1,
        sender="java",
        kind="k",
        partition=PARTITION,
        contents=contents,
        order=order,
        as_sent=as_sent,
    )
    return Sent(odd=odd, deliveries=deliveries)


def dead(first: int, *more: tuple[str, bytes], stage: str = "decode", error: str = "E") -> DeadLetters:
    """Return dead letters of which there is one."""
    headers = {"topic": "t", "partition": PARTITION, "offset": first, "stage": stage}
    named = [(f"lookup.errors.{name}", str(value).encode()) for name, value in headers.items()]
    letters = DeadLetters()
    letters.add(
        StoredRecord(
            partition=0,
            offset=0,
            timestamp_ms=0,
            key=None,
            value=None,
            headers=(*named, ("lookup.errors.exception.class.name", error.encode()), *more),
        )
    )
    return letters


def account(batch: Sent, letters: DeadLetters | None = None, **statuses: str) -> Account:
    """Return the account of one batch where requests got results of these statuses."""
    results = {
        name.replace("_", "-"): Answered(status=status, at=0.0, place=(0, 0), digest=0)
        for name, status in statuses.items()
    }
    made = Account()
    made.add(batch, results, letters or DeadLetters())
    return made


def test_record_without_result_and_dead_letter_is_unaccounted() -> None:
    """It was taken, and nobody hears of it again."""
    assert len(account(sent(7)).unaccounted) == 1
    assert len(account(sent(7), dead(8)).unaccounted) == 1
    assert len(account(sent(7, as_sent=False)).unaccounted) == 1


def test_record_with_the_result_that_it_should_have_is_in_order() -> None:
    """As is one that the broker refused."""
    made = account(sent(7), odd_0="ok")
    assert (dict(made.fates), made.unaccounted, made.mistaken) == ({"answered ok": 1}, [], [])
    made = account(sent("INVALID_RECORD"))
    assert (dict(made.fates), made.unaccounted, made.mistaken) == ({"refused INVALID_RECORD": 1}, [], [])


def test_record_with_another_fate_is_mistaken() -> None:
    """A rejection takes a dead letter, too; rubbish takes one of decoding."""
    assert len(account(sent(7), odd_0="failed").mistaken) == 1
    assert len(account(sent(7, fates=["rejected"]), odd_0="rejected").mistaken) == 1
    assert account(sent(7, fates=["rejected"]), dead(7, stage="validate"), odd_0="rejected").mistaken == []
    assert len(account(sent(7, fates=["dead-letter"]), dead(7, stage="search")).mistaken) == 1
    assert account(sent(7, fates=["dead-letter"]), dead(7)).mistaken == []
    assert len(account(sent("INVALID_RECORD"), odd_0="ok").mistaken) == 1


def test_dead_letter_of_a_batch_accounts_for_every_offset_of_it() -> None:
    """Its first and last offset are in its headers, behind those that the request may have had."""
    letters = dead(7, ("lookup.errors.last.offset", b"9"), error="RecordUndecodable")
    made = account(sent(7, 9, fates=["ok", "ok"], as_sent=False), letters)
    assert (dict(made.fates), made.unaccounted) == ({"dead-lettered undecodable": 2}, [])
    assert len(account(sent(10, as_sent=False), letters).unaccounted) == 1


def test_aborted_record_must_not_be_answered() -> None:
    """It needs no dead letter."""
    made = account(sent(7, ending="abort", as_sent=False))
    assert (dict(made.fates), made.unaccounted, made.mistaken) == ({"aborted": 1}, [], [])
    assert len(account(sent(7, ending="abort", as_sent=False), odd_0="ok").mistaken) == 1
