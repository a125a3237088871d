"""The embedded model: the contract, and that it stays inside this process."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from pipeline.adapters.coalescing import CoalescingEmbedder
from pipeline.embedders.word_llama import WordLlamaEmbedder
from pipeline.errors import ConfigurationError, SearchTimeout
from pipeline.ports import EmbeddingPort
from pipeline.testing.embedding_port import TEXTS, TIMEOUT_S, EmbeddingPortContract


@pytest.fixture
async def embedder() -> AsyncIterator[EmbeddingPort]:
    """Yield the started embedder."""
    embedder = WordLlamaEmbedder()
    await embedder.start()
    yield embedder
    await embedder.close()


class TestWordLlamaEmbedder(EmbeddingPortContract):
    """The contract."""


class TestWordLlamaEmbedderSharingCalls(EmbeddingPortContract):
    """The contract, through calls that many share."""

    @pytest.fixture
    def embedder(self, embedder: EmbeddingPort) -> EmbeddingPort:
        """Return the started embedder."""
        return CoalescingEmbedder(embedder, max_batch_size=4, max_calls=4)


async def test_vectors_have_length_one(embedder: EmbeddingPort) -> None:
    """So COSINE, IP and L2 rank alike."""
    for vector in await embedder.embed(TEXTS, timeout_s=TIMEOUT_S):
        assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-5)


async def test_vector_does_not_depend_on_its_neighbours(embedder: EmbeddingPort) -> None:
    """A text has the same vector alone as in a batch, to the last digit: results must not vary."""
    together = await embedder.embed(TEXTS, timeout_s=TIMEOUT_S)
    alone = [(await embedder.embed([text], timeout_s=TIMEOUT_S))[0] for text in TEXTS]
    assert list(together) == alone


async def test_dimension_is_that_of_the_model(embedder: EmbeddingPort) -> None:
    """The model that the package carries has 256 dimensions."""
    assert embedder.dimension == 256


async def test_long_texts_do_not_block_the_loop(embedder: EmbeddingPort) -> None:
    """What takes long runs in a thread."""
    embedding = asyncio.ensure_future(embedder.embed(["a long text " * 2_000] * 20, timeout_s=TIMEOUT_S))
    await asyncio.sleep(0)
    assert not embedding.done()
    assert len(await embedding) == 20


async def test_no_time_left_is_a_timeout(embedder: EmbeddingPort) -> None:
    """A long text is not waited for longer than allowed."""
    with pytest.raises(SearchTimeout, match=r"^the embedder did not answer in time$"):
        await embedder.embed(["a long text " * 2_000], timeout_s=0.0)


async def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model loads and embeds where no connection can be made."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    embedder = WordLlamaEmbedder()
    await embedder.start()
    assert await embedder.embed(["text"], timeout_s=TIMEOUT_S)
    await embedder.close()


async def test_package_without_its_model_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what is missing."""

    def fail(**_: object) -> None:
        raise FileNotFoundError("Weights file not found")

    monkeypatch.setattr("wordllama.WordLlama.load", fail)
    embedder = WordLlamaEmbedder()
    with pytest.raises(ConfigurationError, match=r"^the wordllama package does not carry its model: Weights"):
        await embedder.start()
    await embedder.close()


def test_loading_leaves_logging_alone() -> None:
    """Importing the package configures the root logger; the embedder undoes that."""
    program = (
        "import asyncio, logging\n"
        "from pipeline.embedders.word_llama import WordLlamaEmbedder\n"
        "asyncio.run(WordLlamaEmbedder().start())\n"
        "assert logging.getLogger().handlers == []\n"
        f"assert logging.getLogger().level == {logging.WARNING}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_embedding_before_start_is_a_mistake() -> None:
    """An embedder that was not started says so."""
    with pytest.raises(RuntimeError, match="not been started"):
        await WordLlamaEmbedder().embed(["text"], timeout_s=TIMEOUT_S)
