"""From a topic to lines of a file: recordings as workers published them, or requests alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streams.kafka.records import ConsumedRecord
from streams.kafka.topic_reader import PassedOver, Span, read_topic
from streams.recordings.recording import RecordingUnreadable, decode_recording, encode_recording
from streams.settings.model import KafkaSettings
from streams.stage.recorder import requested
from streams.wire.decoding import RequestUnreadable, decode_request
from streams.wire.requests import RequestInvalid


@dataclass(slots=True, kw_only=True)
class Capture:
    """What was taken from a topic.

    Attributes:
        recordings: How many recordings.
        passed_over: How many records are none: of requests, those without a readable id.
        first: Partition and offset of the first of these, and what is wrong with it.
        undecodable: What could not be decoded.
    """

    recordings: int = 0
    passed_over: int = 0
    first: str | None = None
    undecodable: PassedOver = field(default_factory=PassedOver)

    async def run(
        self,
        kafka: KafkaSettings,
        span: Span,
        *,
        requests_alone: bool,
        write: Callable[[bytes], None],
        progress: Callable[[int, int], None],
    ) -> None:
        """Read a part of a topic once; join no group and commit nothing.

        Args:
            kafka: Brokers and topics.
            span: Which part.
            requests_alone: Whether to read the requests topic instead of the recordings topic.
            write: Given each line.
            progress: Told how many offsets are behind, and how many there are.

        Raises:
            ConfigurationError: One line saying why the brokers or the topic cannot be reached.
        """
        topic = kafka.topics.requests if requests_alone else kafka.topics.recordings
        line_of = _request_line if requests_alone else _recording_line
        async for record in read_topic(kafka, topic, span, progress, passed_over=self.undecodable):
            try:
                line = line_of(record)
            except (RecordingUnreadable, RequestUnreadable) as error:
                self.passed_over += 1
                self.first = self.first or f"{record.partition}:{record.offset}: {error}"
                continue
            self.recordings += 1
            write(line)


def _recording_line(record: ConsumedRecord) -> bytes:
    value = record.value or b""
    recording = decode_recording(value)
    return encode_recording(recording) if b"\n" in value else value


def _request_line(record: ConsumedRecord) -> bytes:
    try:
        request_id = decode_request(record.value, record.headers).request_id
    except RequestInvalid as error:
        request_id = error.request_id
    recording = requested(record, request_id)
    # As the worker records it: untouched, since deeply nested JSON can be read but not written again.
    return encode_recording(recording, request=record.value if recording.raw is None else None)
