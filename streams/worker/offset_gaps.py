"""Offsets without a record: where compaction, transactions and undecodable batches leave some out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from streams.stage.in_flight import Partition


class OffsetGaps:
    """Know which offsets have no record, so that a commit passes them and nothing else.

    A gap is known by its ends alone: compaction may take millions of offsets away.
    """

    def __init__(self) -> None:
        """Know of none."""
        # By partition: the offset before a gap, and the one after it.
        self._behind: defaultdict[Partition, dict[int, int]] = defaultdict(dict)
        self._delivered: dict[Partition, int] = {}

    def note(self, partition: Partition, previous: int | None, offset: int) -> None:
        """Remember that no record was delivered between two offsets.

        Args:
            partition: Their partition.
            previous: Offset of the record before, or where reading began; `None` where neither is known.
            offset: Offset of the record that was read.
        """
        if previous is not None:
            # A place where reading began may itself be in the gap; a record that was delivered is not.
            before = previous if self._delivered.get(partition) == previous else previous - 1
            if offset > before + 1:
                self._behind[partition][before] = offset
        self._delivered[partition] = offset

    def contiguous(self, partition: Partition, done: Sequence[int], committed: int | None) -> int:
        """Return how many offsets may be committed: those with no record in between that is not done.

        Args:
            partition: Their partition.
            done: Offsets that are done, in order.
            committed: The committed offset, that of the next record; `None` or 0 where nothing is committed.
        """
        if not done:
            return 0
        behind = self._behind[partition]
        if committed and done[0] > committed and behind.get(committed - 1) != done[0]:
            return 0
        count = 1
        for offset, following in pairwise(done):
            if following != offset + 1 and behind.get(offset) != following:
                break
            count += 1
        for previous in [each for each in behind if each < done[count - 1]]:
            del behind[previous]
        return count

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that another worker has now."""
        for partition in partitions:
            self._behind.pop(partition, None)
            self._delivered.pop(partition, None)
