"""What every embedding port does: an adapter's tests inherit the suite and give a started `embedder`."""

from __future__ import annotations

import asyncio
import math

import pytest

from pipeline.ports import EmbeddingPort

TIMEOUT_S = 60.0

TEXTS = (
    "How do I roll back a bad deployment?",
    "The broker's disk is full.",
    "é 日本 😀 \ufeff\u2028",
    "nul \x00 and control \x01",
    '"quotes" and \\backslashes\\',
    "a long text " * 50,
    ".",
)


class EmbeddingPortContract:
    """Embedding."""

    async def test_one_vector_a_text_of_one_dimension(self, embedder: EmbeddingPort) -> None:
        """Every text has a vector of finite numbers, as long as the port says."""
        vectors = await embedder.embed(TEXTS, timeout_s=TIMEOUT_S)
        assert len(vectors) == len(TEXTS)
        assert {len(vector) for vector in vectors} == {embedder.dimension}
        assert all(isinstance(value, float) and math.isfinite(value) for each in vectors for value in each)

    async def test_vectors_come_in_the_order_of_the_texts(self, embedder: EmbeddingPort) -> None:
        """Reversing the texts reverses the vectors."""
        forward = await embedder.embed(TEXTS, timeout_s=TIMEOUT_S)
        backward = await embedder.embed(TEXTS[::-1], timeout_s=TIMEOUT_S)
        for one, other in zip(forward, reversed(backward), strict=True):
            assert one == pytest.approx(other, abs=1e-5)

    async def test_vectors_are_tuples(self, embedder: EmbeddingPort) -> None:
        """What crosses the port cannot be changed afterwards."""
        [vector] = await embedder.embed(TEXTS[:1], timeout_s=TIMEOUT_S)
        assert isinstance(vector, tuple)

    async def test_same_text_has_the_same_vector(self, embedder: EmbeddingPort) -> None:
        """Repeating a call repeats its answer to the last digit."""
        first = await embedder.embed(TEXTS[:2], timeout_s=TIMEOUT_S)
        assert list(await embedder.embed(TEXTS[:2], timeout_s=TIMEOUT_S)) == list(first)

    async def test_like_texts_have_like_vectors(self, embedder: EmbeddingPort) -> None:
        """A text is nearer to one about the same thing than to one about another."""
        vectors = await embedder.embed(
            ["roll back a bad deployment", "undo the last release", "bake bread with sourdough"],
            timeout_s=TIMEOUT_S,
        )
        near, far = (_cosine(vectors[0], other) for other in vectors[1:])
        assert near > far

    async def test_many_calls_run_at_once(self, embedder: EmbeddingPort) -> None:
        """Concurrent calls do not get one another's vectors."""
        alone = [(await embedder.embed([text], timeout_s=TIMEOUT_S))[0] for text in TEXTS]
        together = await asyncio.gather(*(embedder.embed([text], timeout_s=TIMEOUT_S) for text in TEXTS))
        assert [vectors[0] for vectors in together] == alone


def _cosine(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    product = sum(one * other for one, other in zip(left, right, strict=True))
    return product / (math.hypot(*left) * math.hypot(*right))
