"""What became of every record of every odd batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from streams.wire.dead_letters import RecordUndecodable
from tests.faults.results import Answered
from tests.faults.wire.oddities import Odd
from tests.faults.wire.orders import Delivery
from tests.support.topics import StoredRecord

MOST_SHOWN = 5
UNDECODABLE = "undecodable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An odd batch that was sent.

    Attributes:
        odd: The batch.
        deliveries: Of each record its offset, or the name of the error with which it was refused.
    """

    odd: Odd
    deliveries: Sequence[Delivery]

    @property
    def is_aborted(self) -> bool:
        """Whether its transaction was aborted, so that nobody needs to be answered."""
        return self.odd.order is not None and self.odd.order.ending == "abort"

    @property
    def has_marker(self) -> bool:
        """Whether the broker has put the marker of its transaction behind it."""
        return self.odd.order is not None and self.odd.order.ending != "plain" and bool(self.offsets)

    @property
    def offsets(self) -> list[int]:
        """The offsets of the records that the broker took."""
        return [offset for offset in self.deliveries if isinstance(offset, int)]


Results: TypeAlias = Mapping[str, Answered]


@dataclass(slots=True)
class DeadLetters:
    """Which offsets of the requests topic have a dead letter.

    Attributes:
        reasons: How many there are, by what went wrong: a stage, or `undecodable`.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    _offsets: dict[tuple[int, int], str] = field(default_factory=dict)

    def add(self, record: StoredRecord) -> None:
        """Take a dead letter in."""
        # The last ones are the stage's: a request may have headers of the same names.
        headers = {name: (value or b"").decode("utf-8", "replace") for name, value in record.headers}
        undecodable = headers["lookup.errors.exception.class.name"] == RecordUndecodable.__name__
        reason = UNDECODABLE if undecodable else headers["lookup.errors.stage"]
        first = int(headers["lookup.errors.offset"])
        last = int(headers.get("lookup.errors.last.offset", first))
        self.reasons[reason] += 1
        for offset in range(first, last + 1):
            self._offsets[int(headers["lookup.errors.partition"]), offset] = reason

    def reason_at(self, partition: int, offset: int) -> str | None:
        """Return why an offset has a dead letter, if it has one."""
        return self._offsets.get((partition, offset))


@dataclass(slots=True)
class Account:
    """What became of the records of odd batches.

    Attributes:
        fates: How many records met each fate.
        unaccounted: Records that were taken, not aborted, and have neither a result nor a dead letter.
        mistaken: Records that can be read and met another fate than they should have.
    """

    fates: Counter[str] = field(default_factory=Counter)
    unaccounted: list[str] = field(default_factory=list)
    mistaken: list[str] = field(default_factory=list)

    def add(self, sent: Sent, results: Results, dead: DeadLetters) -> None:
        """Look for what became of a batch."""
        for record, delivery in enumerate(sent.deliveries):
            answered = self._answer(sent, record, results)
            reason = None if isinstance(delivery, str) else dead.reason_at(sent.odd.partition, delivery)
            found = _fate(delivery, answered, reason)
            self.fates["aborted" if found is None and sent.is_aborted else found or "unaccounted"] += 1
            where = (
                f"{sent.odd.number}[{record}] ({sent.odd.kind}, {sent.odd.contents[record].kind}) {delivery}"
            )
            if found is None and not sent.is_aborted:
                self.unaccounted.append(where)
            self.mistaken += (f"{where}: {problem}" for problem in _problems(sent, record, answered, reason))

    def _answer(self, sent: Sent, record: int, results: Results) -> str | None:
        request_id = sent.odd.contents[record].request_id
        answered = None if request_id is None else results.get(request_id)
        return None if answered is None else answered.status


def _fate(delivery: Delivery, answered: str | None, reason: str | None) -> str | None:
    if isinstance(delivery, str):
        return f"refused {delivery}"
    if answered is not None:
        return f"answered {answered}"
    return None if reason is None else f"dead-lettered {reason}"


def _problems(sent: Sent, record: int, answered: str | None, reason: str | None) -> Iterator[str]:
    """Name what is wrong with the fate of a record."""
    if isinstance(sent.deliveries[record], str):
        if answered is not None:
            yield f"refused by the broker, but answered {answered}"
        return
    # What was forged on the way belongs to no transaction.
    if sent.is_aborted and sent.odd.swap is None and answered is not None:
        yield f"aborted, but answered {answered}"
    if not sent.odd.as_sent:
        return
    match sent.odd.contents[record].fate:
        case "ok" | "rejected" as due:
            if answered != due:
                yield f"should be {due}, is {answered} ({reason})"
            if due == "rejected" and reason is None:
                yield "rejected without a dead letter"
        case "dead-letter":
            if reason != "decode":
                yield f"should be dead-lettered in decode, is {reason}"
        case _:
            pass


def shown(places: Iterable[str]) -> str:
    """Return the first few of many as text."""
    everything = list(places)
    return f"{'; '.join(everything[:MOST_SHOWN])}{' …' if len(everything) > MOST_SHOWN else ''}"
