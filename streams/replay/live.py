"""Live replay: recorded requests against the search as it is configured now, and what it answers recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pipeline.errors import LookupStageError
from streams.kafka.records import ConsumedRecord
from streams.recordings.files import NumberedRecording
from streams.recordings.recording import Recording
from streams.recordings.requests import request_value
from streams.replay.in_order import in_order
from streams.stage.answering import Answerer
from streams.stage.recorder import Recorder


@dataclass(slots=True, kw_only=True)
class LiveReplay:
    """A replay against a search, as far as it is.

    Attributes:
        answerer: Answers as the stage does; its clock stands before every expiry.
        recorder: Records all it is given.
        replayed: How many requests were replayed.
        failed: Of these, how many had a query that the search did not answer.
        first: The first of these, in one line.
    """

    answerer: Answerer
    recorder: Recorder
    replayed: int = 0
    failed: int = 0
    first: str | None = None

    async def replay(self, numbered: NumberedRecording) -> bytes:
        """Ask again, and return the line of the new recording.

        Raises:
            LookupStageError: What the search brought cannot be recorded.
        """
        request = _request(numbered.recording)
        answer = await self.answerer.answer(request)
        recorded = self.recorder.record(request, answer)
        if recorded is None or recorded.value is None:
            raise LookupStageError(f"line {numbered.number}: the answer cannot be recorded")
        self.replayed += 1
        problem = next((path.error for path in answer.paths if path.error is not None), None)
        if problem is not None:
            self.failed += 1
            self.first = self.first or f"request {answer.request_id}: {problem.code}: {problem.message}"
        return recorded.value


async def replay_live(
    recordings: Iterable[NumberedRecording],
    write: Callable[[bytes], None],
    replay: LiveReplay,
    *,
    concurrency: int,
    rate: float | None,
) -> None:
    """Replay requests, several at once, and write the answers in the order of the requests.

    Args:
        recordings: What to replay.
        write: Given each line.
        replay: Asks.
        concurrency: Most requests in work at once, at least 1.
        rate: Most requests a second; `None` for as many as are answered.

    Raises:
        LookupStageError: What the search brought cannot be recorded.
    """
    async for line in in_order(map(replay.replay, recordings), concurrency=concurrency, rate=rate):
        write(line)


def _request(recording: Recording) -> ConsumedRecord:
    captured = recording.captured
    return ConsumedRecord(
        topic=captured.topic,
        partition=captured.partition,
        offset=captured.offset,
        timestamp_ms=captured.timestamp_ms,
        key=recording.key,
        value=request_value(recording),
        headers=recording.headers,
    )
