"""The engine's reason for a refusal, cleaned so that it can be published.

A result says the same each time: what differs between two askings of one question (nodes, channels, ids of
collections and segments, times, addresses) is left out, and so is what nobody outside may read (secrets,
paths of files, the filter as it was sent).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_REASON_LENGTH = 200
_MAX_READ = 1_000
"""Characters that are looked at. The rest may be a value of the request, which must not cost time."""

_ELLIPSIS = "…"

# Milvus wraps a reason in those of the components on the way; so does the index library of Milvus Lite.
_WRAPPERS = ("reason=", "query failed:", "query plan:", "search:", "Error:")
_FILTER_ECHOED = re.compile(r"cannot parse expression: (?:.*, error: |.*)", re.DOTALL)
_SUFFIX = re.compile(r":? service internal error: UnknownError$")
_PLACE_OF_ASSERTION = re.compile(r"^(Assert \".*?\") at .*$")

_SECRET = re.compile(
    r"\b(?:(?:bearer|basic)\s+"
    r"|(?:token|password|passwd|authorization|credentials?|secret|api[-_ ]?key)\b[\"']?\s*[:=]\s*)\S+",
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(
    r"[a-z][a-z0-9+.-]*://\S+"  # addresses
    r"|\[[0-9a-f]*:[0-9a-f:]*:[0-9a-f.]*\](?::\d+)?"  # IPv6 and a port
    r"|(?<![\w:])(?=[0-9a-f]*:[0-9a-f]*:)[0-9a-f:.]*[0-9a-f][0-9a-f:.]*"  # IPv6, and times of day
    r"|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"  # IPv4
    r"|\b[a-z][a-z0-9.-]*:\d{2,5}\b"  # host:port
    r"|\b[a-z0-9-]+(?:\.[a-z0-9-]+)+\.(?:local|internal|svc|lan|com|net|org|io|cloud)\b"  # hosts
    r"|(?<![\w.])(?:[a-z]:)?(?:[/\\][\w.+@~-]+){2,}(?::\d+)?"  # files
    r"|\b\d{4}-\d{2}-\d{2}(?:[t ][\d:.]+(?:z|[+-]\d{2}:?\d{2})?)?"  # dates
    r"|\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|sec|seconds|minutes)\b"  # durations
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"  # UUIDs
    r"|\b0x[0-9a-f]+\b"  # places in memory
    r"|\b[\w-]+-dml_\d\w*"  # channels
    r"|\b(?=[a-f]*\d)[0-9a-f]{12,}\b"  # other ids
    r"|\b\d{8,}\b",
    re.IGNORECASE,
)
# `QueryNode ID=1`, `worker(1)`, `segment 4711`, `host-7`: the word may stay, the number may not.
_NUMBERED = re.compile(
    r"\b(\w*(?:node|worker|delegator|segment|replica|shard|server|peer|host|pod|leader|channel|partition"
    r"|collection|database|db)(?:[ _]?(?:id|name))?s?)(?:[=:(\[#-]\s*|\s+)([\w.-]*\d[\w.-]*)[)\]]?",
    re.IGNORECASE,
)


def reason_of(words: str, *, secrets: Iterable[str] = ()) -> str:
    """Return the reason in what an engine said, or an empty string where nothing is left to tell.

    Args:
        words: The message of the engine's error.
        secrets: What must not be told wherever it stands.

    Returns:
        One line of at most `MAX_REASON_LENGTH` characters, the same for the same refusal.
    """
    for secret in secrets:
        words = words.replace(secret, _ELLIPSIS)
    reason = _beginning(_cause(words))
    reason = _SECRET.sub(_ELLIPSIS, reason)
    reason = _NUMBERED.sub(rf"\1 {_ELLIPSIS}", _LEFT_OUT.sub(_ELLIPSIS, reason))
    reason = "".join(each for each in reason if each.isprintable()).strip(" :,;=>-" + _ELLIPSIS)
    if not any(each.isalpha() for each in reason):
        return ""
    if len(reason) > MAX_REASON_LENGTH:
        return reason[: MAX_REASON_LENGTH - 1].rstrip() + _ELLIPSIS
    return reason


def _beginning(reason: str) -> str:
    """Cut a reason after a word: a part of an address or an id is not recognised as one."""
    if len(reason) <= _MAX_READ:
        return reason
    return reason[:_MAX_READ].rpartition(" ")[0] + _ELLIPSIS


def _cause(words: str) -> str:
    """Take the innermost reason, without the filter and the place in the engine's source beside it."""
    words = _FILTER_ECHOED.sub("", words)
    *_, inner = words.split(" => ")
    # Milvus Lite shows the filter in the lines after the first.
    first, *_ = inner.strip().splitlines() or [""]
    reason = _SUFFIX.sub("", " ".join(first.split()))
    for wrapper in _WRAPPERS:
        reason = reason.rpartition(wrapper)[-1].strip()
    return _PLACE_OF_ASSERTION.sub(r"\1", reason)
