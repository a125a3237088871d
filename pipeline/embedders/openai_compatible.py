"""Embeddings from an endpoint that speaks OpenAI's `POST /embeddings`, whoever runs it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import httpx
import orjson

from pipeline.embedders.http_errors import status_error
from pipeline.errors import (
    ConfigurationError,
    SearchError,
    SearchFailed,
    SearchTimeout,
    SearchUnavailable,
)
from pipeline.model import Vector

START_TIMEOUT_S = 10.0

PROBE_TEXT = "dimension"
"""A text that is known to be good: without it there would have been no start."""


class OpenAICompatibleEmbedder:
    """An embedding port over HTTP. No call is repeated; batches go one after another.

    What each status means is in `http_errors`. An answer that is no embeddings (HTML, no JSON, fewer vectors,
    a wrong index, a number that is not finite, another dimension) is `SearchFailed`: some endpoints answer so
    to a text that their model does not take. It is asked again, and is a rejection of the request if the
    probe is answered each time.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str | None = None,
        batch_size: int = 64,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Initialize with the endpoint; nothing is opened.

        Args:
            base_url: What stands before `/embeddings`, such as `http://localhost:8080/v1`.
            model: Name of the model.
            api_key: Sent as a bearer token; `None` where the endpoint asks for none.
            batch_size: Most texts in one call.
            transport: How requests are sent; `None` for the network.
        """
        self._base_url = base_url.rstrip("/")
        self._model = model
        self._api_key = api_key or ""
        self._batch_size = batch_size
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._dimension = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address}, {self._model})"

    @property
    def dimension(self) -> int:
        """Length of the vectors, once started."""
        if not self._dimension:
            raise RuntimeError("the embedder has not been started")
        return self._dimension

    async def start(self) -> None:
        """Connect, and embed one text to learn the vectors' dimension, within 10 s.

        Raises:
            ConfigurationError: One line saying why the endpoint cannot be used.
        """
        if not (self._api_key.isascii() and self._api_key.isprintable()):
            # Sending it would fail with words that contain it.
            raise ConfigurationError("the API key of the embeddings has characters that no header may have")
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        # Time is kept around each call: httpx would start anew for every byte that arrives.
        self._client = httpx.AsyncClient(headers=headers, timeout=None, transport=self._transport)  # noqa: S113
        try:
            [vector] = await self.embed([PROBE_TEXT], timeout_s=START_TIMEOUT_S)
        except SearchError as error:
            raise ConfigurationError(
                f"embeddings from {self._address}, model {self._model}: {_detailed(error)}"
            ) from error
        self._dimension = len(vector)

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Vector]:
        """Embed texts.

        Args:
            texts: 1 or more, none of them blank.
            timeout_s: Seconds in which to answer, for all batches together.

        Returns:
            One vector a text, in order, all of one dimension.

        Raises:
            SearchUnavailable: The endpoint cannot be reached, is overloaded, or redirects.
            SearchFailed: It failed, refused the request, or answered something other than embeddings.
            SearchTimeout: It did not answer in time.
        """
        size = self._batch_size
        try:
            async with asyncio.timeout(timeout_s):
                vectors = [
                    vector
                    for start in range(0, len(texts), size)
                    for vector in await self._embed_batch(texts[start : start + size])
                ]
        except (TimeoutError, httpx.TimeoutException) as error:
            raise SearchTimeout("the embedder did not answer in time") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SearchUnavailable("the embedder cannot be reached") from error
        expected = self._dimension or len(vectors[0])
        if any(len(vector) != expected for vector in vectors):
            raise _nonsense("vectors of different dimensions")
        return vectors

    async def probe(self, *, timeout_s: float) -> None:
        """Embed a text that is known to be good.

        Args:
            timeout_s: Seconds in which to answer.

        Raises:
            SearchError: There was no answer.
        """
        await self.embed([PROBE_TEXT], timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    @property
    def _address(self) -> str:
        """The base url without the user and password that may stand in it."""
        return re.sub(r"//[^/]*@", "//", self._base_url)

    async def _embed_batch(self, texts: Sequence[str]) -> list[Vector]:
        if self._client is None:
            raise RuntimeError("the embedder has not been started")
        response = await self._client.post(
            f"{self._base_url}/embeddings",
            json={"model": self._model, "input": list(texts), "encoding_format": "float"},
        )
        error = status_error(response.status_code, response.headers)
        if error is not None:
            raise error
        try:
            return _vectors(orjson.loads(response.content), count=len(texts))
        except (ValueError, TypeError, KeyError) as error:
            raise _nonsense("something other than embeddings") from error


def _nonsense(what: str) -> SearchFailed:
    message = f"the embedder answered with {what}"
    return SearchFailed.maybe_refused(message, message)


def _vectors(answer: Any, *, count: int) -> list[Vector]:
    """Read the vectors out of an answer, in the order of the texts, whatever order it is in itself."""
    by_index = {item["index"]: _vector(item["embedding"]) for item in answer["data"]}
    if len(by_index) != count:
        raise ValueError("there are not as many embeddings as texts")
    return [by_index[index] for index in range(count)]


def _vector(values: Any) -> Vector:
    # Numbers that are not finite do not get here: the parser refuses them.
    if not values or not all(type(value) in (float, int) for value in values):
        raise ValueError("an embedding is not a list of numbers")
    return tuple(map(float, values))


def _detailed(error: SearchError) -> str:
    """Add, on one line, the network's own words, which whoever configures the endpoint needs."""
    cause = error.__cause__
    if isinstance(cause, httpx.TransportError | httpx.InvalidURL):
        return f"{error}: {' '.join(str(cause).split())}"
    return str(error)
