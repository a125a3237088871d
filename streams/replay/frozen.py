"""Frozen replay: recorded hits through the rules as they are now. No broker, no search.

Of the same hits and limits the same code makes the same bytes; so a result that is not what was recorded is a
change of the code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pipeline.outcome import conclude
from streams.recordings.files import NumberedRecording
from streams.recordings.recording import Recording, RecordingUnreadable, encode_recording
from streams.recordings.requests import request_fields
from streams.replay.difference import ResultDifference, first_difference
from streams.wire.results import encode_members, encode_result, result_of

Change: TypeAlias = Callable[[Recording], Recording]
"""Gives a recording other limits, and the hits that a search under them would have given."""


@dataclass(slots=True, kw_only=True)
class FrozenReplay:
    """A replay of recorded hits, as far as it is.

    Attributes:
        file: What is replayed, for errors.
        change: Applied to each recording first; results are then not compared with the recorded ones.
        replayed: How many recordings were replayed.
        differing: How many results are not the recorded bytes.
        first: The first of these, in one line.
    """

    file: Path
    change: Change | None = None
    replayed: int = 0
    differing: int = 0
    first: str | None = None

    def replay(self, numbered: NumberedRecording) -> bytes:
        """Replay a recording and return its line with the result that its hits come to.

        A result that is not made of hits (`rejected`, `expired`, failed outside the search) stays what it is.

        Raises:
            RecordingUnreadable: The recording has no hits to replay.
        """
        number, line, recording = numbered
        self.replayed += 1
        if recording.paths is None:
            raise RecordingUnreadable(
                f"{self.file}: line {number}: has no hits, its request alone was recorded: use --live"
            )
        if self.change is not None:
            return _line(self.change(recording))
        result = _result(recording)
        if result is None:
            return line
        if line.endswith(b'"result":%s}' % result):
            return line
        difference = _difference(recording, result)
        if difference is None:
            return line
        self.differing += 1
        self.first = self.first or f"line {number}: request {recording.request_id}: {difference}"
        return encode_recording(recording, result=result)


def replay_frozen(
    file: Path, recordings: Iterable[NumberedRecording], write: Callable[[bytes], None], change: Change | None
) -> FrozenReplay:
    """Replay recordings one after the other.

    Args:
        file: Where the recordings come from, for errors.
        recordings: What to replay.
        write: Given each line.
        change: Applied to each recording first, if any.

    Raises:
        RecordingUnreadable: A recording has no hits to replay.
        ConfigurationError: The change asks for what recorded hits cannot tell.
    """
    replay = FrozenReplay(file=file, change=change)
    for numbered in recordings:
        write(replay.replay(numbered))
    return replay


def _line(recording: Recording) -> bytes:
    """Write a recording whose limits are others."""
    result, old = _result(recording), recording.result
    if result is not None or old is None or recording.limits is None:
        return encode_recording(recording, result=result)
    return encode_recording(replace(recording, result={**old, "limits": recording.limits}))


def _result(recording: Recording) -> bytes | None:
    """Return the JSON of the result that hits come to; `None` where the result is not made of hits."""
    limits, budget = recording.limits, recording.budget
    if not recording.paths or limits is None or budget is None:
        return None
    fields = request_fields(recording)
    hints, explain = fields.get("hints"), bool(fields.get("explain"))
    outcome = conclude(recording.answers, limits=limits, budget=budget, explain=explain)
    return encode_result(
        result_of(outcome, request_id=recording.request_id, limits=limits, hints=hints, explain=explain)
    )


def _difference(recording: Recording, result: bytes) -> ResultDifference | None:
    """Compare with the recorded result's own bytes, however another tool has spaced them since."""
    recorded = {} if recording.result is None else recording.result
    if encode_members(recorded) == result:
        return None
    return first_difference(recorded, json.loads(result))
