"""What Milvus and its client raise, as the errors of the search port.

| what happened | error | asked again | moves the circuit |
|---|---|---|---|
| cannot be reached | `SearchUnavailable` | yes | yes |
| token or rights refused | `SearchUnavailable` | yes | yes |
| collection or database gone, not loaded | `SearchUnavailable` | yes | yes |
| rate limit, quota, memory | `SearchUnavailable` | yes | yes |
| no answer in time | `SearchTimeout` | yes | if the probe fails too |
| refused, by a known code or known words | `SearchRejected` | no | no |
| anything else | `SearchFailed` | yes | if the probe fails too, else it is a rejection |

The messages are published, so they say the same each time. A refusal has the engine's reason as
`milvus_reasons` cleans it; all the engine's words stay in `__cause__`. Codes and words were read off Milvus
2.3 and Milvus Lite 3.2, and off what newer servers declare.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import grpc

from pipeline.adapters.milvus_client import exceptions as vendor
from pipeline.adapters.milvus_reasons import reason_of
from pipeline.errors import SearchError, SearchFailed, SearchRejected, SearchTimeout, SearchUnavailable

EngineError: TypeAlias = vendor.MilvusException | grpc.RpcError
"""Everything that a call of the client raises about the engine."""

ENGINE_ERRORS = (vendor.MilvusException, grpc.RpcError)

# The last is that of the server inside Milvus Lite, when it is asked for what it has not.
_LOGGERS = ("pymilvus", "pymilvus.milvus_client", "milvus_lite", "grpc._server")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """One way in which a search fails.

    Attributes:
        error: The port's error.
        message: The same words each time.
        telling: Whether the message says all there is, so that the engine's words would add nothing.
        refusal: The message if the question turns out to be at fault, where it is not known.
    """

    error: type[SearchError]
    message: str
    telling: bool = True
    refusal: str = ""


_UNREACHABLE = _Failure(error=SearchUnavailable, message="the search engine cannot be reached")
_NO_ACCESS = _Failure(error=SearchUnavailable, message="the search engine refuses the token, or its rights")
_OVERLOADED = _Failure(error=SearchUnavailable, message="the search engine is overloaded")
# Collections are dropped, released and made anew while their index is rebuilt: the question itself is sound.
_MISSING = _Failure(error=SearchUnavailable, message="the collection does not exist")
_NOT_LOADED = _Failure(error=SearchUnavailable, message="the collection is not loaded")
_FAILED = _Failure(
    error=SearchFailed,
    message="the search engine failed",
    telling=False,
    refusal="the search engine refused the query",
)
_TIMED_OUT = _Failure(error=SearchTimeout, message="the search did not answer in time")
_BAD_FILTER = _Failure(
    error=SearchRejected, message="the search engine refused the query: invalid filter", telling=False
)
_BAD_QUERY = _Failure(
    error=SearchRejected, message="the search engine refused the query: invalid parameters", telling=False
)

_BY_STATUS = {
    grpc.StatusCode.UNAVAILABLE: _UNREACHABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: _TIMED_OUT,
    grpc.StatusCode.UNAUTHENTICATED: _NO_ACCESS,
    grpc.StatusCode.PERMISSION_DENIED: _NO_ACCESS,
    grpc.StatusCode.RESOURCE_EXHAUSTED: _OVERLOADED,
    grpc.StatusCode.INVALID_ARGUMENT: _BAD_QUERY,
    grpc.StatusCode.OUT_OF_RANGE: _BAD_QUERY,
}

_BY_CLASS: dict[type[vendor.MilvusException], _Failure] = {
    vendor.ConnectError: _UNREACHABLE,
    vendor.ConnectionNotExistException: _UNREACHABLE,
    vendor.MilvusUnavailableException: _UNREACHABLE,
    vendor.CollectionNotExistException: _MISSING,
    # The client's view of the collection is stale; it reads the schema again.
    vendor.SchemaMismatchRetryableException: _FAILED,
    vendor.ServerVersionIncompatibleException: _FAILED,
    # The client raises these before anything is sent: the same question is refused again.
    vendor.AmbiguousIndexName: _BAD_QUERY,
    vendor.AutoIDException: _BAD_QUERY,
    vendor.CannotInferSchemaException: _BAD_QUERY,
    vendor.ClusteringKeyException: _BAD_QUERY,
    vendor.ConnectionConfigException: _BAD_QUERY,
    vendor.DataNotMatchException: _BAD_QUERY,
    vendor.DataTypeNotMatchException: _BAD_QUERY,
    vendor.DataTypeNotSupportException: _BAD_QUERY,
    vendor.FieldTypeException: _BAD_QUERY,
    vendor.FieldsTypeException: _BAD_QUERY,
    vendor.FunctionsTypeException: _BAD_QUERY,
    vendor.InvalidConsistencyLevel: _BAD_QUERY,
    vendor.ParamError: _BAD_QUERY,
    vendor.PartitionKeyException: _BAD_QUERY,
    vendor.PrimaryKeyException: _BAD_QUERY,
    vendor.SchemaNotReadyException: _BAD_QUERY,
}

BY_CODE_ONLY: frozenset[type[vendor.MilvusException]] = frozenset(
    {
        vendor.MilvusException,
        vendor.DescribeCollectionException,
        vendor.IndexNotExistException,
        vendor.PartitionAlreadyExistException,
    }
)
"""Classes that say nothing themselves: their code does."""

_BY_CODE = {
    2: _UNREACHABLE,
    3: _OVERLOADED,
    4: _OVERLOADED,
    8: _OVERLOADED,
    9: _OVERLOADED,
    12: _OVERLOADED,
    100: _MISSING,
    101: _NOT_LOADED,
    103: _NOT_LOADED,
    106: _NOT_LOADED,
    201: _NOT_LOADED,
    202: _NOT_LOADED,
    800: _MISSING,
    1100: _BAD_QUERY,
    1101: _BAD_QUERY,
    1102: _BAD_QUERY,
    1400: _NO_ACCESS,
    1401: _NO_ACCESS,
    1700: _BAD_QUERY,
    1701: _BAD_QUERY,
    10001: _TIMED_OUT,
}

# Milvus Lite's code for all it refuses; to Milvus, which sends another compatible code, it means a cluster.
_LITE_ILLEGAL_ARGUMENT = (6, 6)

# Milvus 2.3 has one code for whatever it did not foresee, 65535, and Milvus Lite has 1; only the words tell a
# question that they refuse from a failure.
_BY_WORDS = {
    "cannot parse expression": _BAD_FILTER,
    "failed to create query plan": _BAD_QUERY,
    "should be in range": _BAD_QUERY,
    "metric type not match": _BAD_QUERY,
    "vector dimension mismatch": _BAD_QUERY,
    "range_filter must be": _BAD_QUERY,
    # The library of the indexes: a parameter is out of range, has another type, or is no number.
    "out of range in json": _BAD_QUERY,
    "invalid value in json": _BAD_QUERY,
    "type conflict in json": _BAD_QUERY,
    # Milvus Lite: a filter on a field of a type that cannot be compared.
    "has no kernel matching input types": _BAD_FILTER,
}

# gRPC's words for an answer that the client does not take; fewer or shorter hits would fit.
_TOO_LARGE = "larger than max"

# How gRPC's TLS library names a certificate that none of the trusted authorities has signed.
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


def search_error(error: EngineError, *, secrets: Iterable[str] = ()) -> SearchError:
    """Return the port's error for one of the engine's; raise it `from` that.

    Args:
        error: What the client raised.
        secrets: What must not be told even if the engine repeats it.
    """
    failure = _failure(error)
    if failure.error is SearchFailed:
        return SearchFailed.maybe_refused(failure.message, _with_reason(failure.refusal, error, secrets))
    if failure.error is SearchRejected:
        return SearchRejected(_with_reason(failure.message, error, secrets))
    return failure.error(failure.message)


def explain(error: EngineError) -> str:
    """Say in one line what went wrong, with the engine's own words or the setting at fault where they help.

    For people who start the stage, not for results: hosts and times may stand in it.
    """
    failure = _failure(error)
    root = _root(error)
    if failure is _NO_ACCESS:
        return f"{failure.message}: see milvus.token"
    if _UNTRUSTED in str(root):
        return f"{failure.message}: its certificate is not trusted: see milvus.ca-file"
    if failure.telling or not isinstance(root, vendor.MilvusException):
        return failure.message
    return f"{failure.message}: {' '.join(str(root.message).split())}"


def is_missing(error: EngineError) -> bool:
    """Return whether the engine has no such collection or database."""
    return _failure(error) is _MISSING


def is_classified(kind: type[vendor.MilvusException]) -> bool:
    """Return whether a class of the client's exceptions has been thought about."""
    return kind in _BY_CLASS or kind in BY_CODE_ONLY


def quiet_client_logs() -> None:
    """Keep the client's and the embedded engine's logs off the console.

    They write every failed call with its traceback to handlers of their own. Each of these failures is raised
    as well, so whoever handles it decides whether and how it is logged.
    """
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _with_reason(message: str, error: EngineError, secrets: Iterable[str]) -> str:
    reason = reason_of(_words(_root(error)), secrets=secrets)
    return f"{message}: {reason}" if reason else message


def _words(root: EngineError) -> str:
    words = root.message if isinstance(root, vendor.MilvusException) else root.details()
    return str(words or "")


def _failure(error: EngineError) -> _Failure:
    root = _root(error)
    if not isinstance(root, vendor.MilvusException):
        if root.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in _words(root):
            return _BAD_QUERY
        return _BY_STATUS.get(root.code(), _FAILED)
    known = _BY_CLASS.get(type(root))
    return known if known is not None else _by_code(root)


def _by_code(error: vendor.MilvusException) -> _Failure:
    for words, failure in _BY_WORDS.items():
        if words in str(error.message):
            return failure
    if error.is_input_error or (error.code, error.compatible_code) == _LITE_ILLEGAL_ARGUMENT:
        return _BAD_FILTER if "at column" in str(error.message) else _BAD_QUERY
    return _BY_CODE.get(error.code, _FAILED)


def _root(error: EngineError) -> EngineError:
    """Return the first engine error behind one: the client wraps them, and its wrapper says less."""
    *_, root = _chain(error)
    return root


def _chain(error: EngineError) -> Iterator[EngineError]:
    current: BaseException | None = error
    while isinstance(current, ENGINE_ERRORS):
        yield current
        # The client raises its wrappers `from` themselves, so that only the context leads to what they wrap.
        current = current.__context__ if current.__cause__ is current else current.__cause__
