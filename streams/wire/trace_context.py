"""W3C Trace Context in a record's headers."""

from __future__ import annotations

from streams.kafka.records import Headers

HEADER_TRACEPARENT = "traceparent"
HEADER_TRACESTATE = "tracestate"


def joined_tracestate(headers: Headers) -> Headers:
    """Return headers with at most one `tracestate`, in the place of the first.

    Several are one list in several pieces, as the specification says of repeated headers: their values are
    joined by commas, in order, without empty ones. A single header keeps its bytes, whatever they are.
    """
    states = [value for name, value in headers if name == HEADER_TRACESTATE]
    if len(states) < 2:  # noqa: PLR2004 - two are several
        return headers
    joined = b",".join(value for value in states if value is not None and value.strip()) or states[0]
    first = next(place for place, (name, _) in enumerate(headers) if name == HEADER_TRACESTATE)
    rest = (header for header in headers[first + 1 :] if header[0] != HEADER_TRACESTATE)
    return (*headers[:first], (HEADER_TRACESTATE, joined), *rest)
