"""Embeddings from the static model that the `wordllama` package carries: no server, no download."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigurationError, SearchTimeout
from pipeline.model import Vector

# Eight thousand characters take a few milliseconds. For less, a thread costs more than it gives: it waits for
# its turns with the interpreter.
_CHARACTERS_IN_LOOP = 8_192


class WordLlamaEmbedder:
    """An embedding port over a model in this process. Its vectors have length 1."""

    def __init__(self) -> None:
        """Load nothing yet."""
        self._model: Any = None

    @property
    def dimension(self) -> int:
        """Length of the vectors, once started."""
        return int(self._started().embedding.shape[1])

    async def start(self) -> None:
        """Load the model from the installed package.

        Raises:
            ConfigurationError: The package does not carry it.
        """
        try:
            self._model = await asyncio.to_thread(load)
        except (ImportError, OSError) as error:
            raise ConfigurationError(f"the wordllama package does not carry its model: {error}") from error

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Sequence[Vector]:
        """Embed texts; equal texts give equal vectors, whatever stands beside them.

        Args:
            texts: 1 or more, none of them blank.
            timeout_s: Seconds in which to answer.

        Returns:
            One vector a text, in order, all of one dimension.

        Raises:
            SearchTimeout: It took longer.
        """
        model, wanted = self._started(), list(texts)
        if sum(map(len, wanted)) <= _CHARACTERS_IN_LOOP:
            return _embed(model, wanted)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.to_thread(_embed, model, wanted)
        except TimeoutError as error:
            raise SearchTimeout("the embedder did not answer in time") from error

    async def close(self) -> None:
        """Let go of the model."""
        self._model = None

    def _started(self) -> Any:
        if self._model is None:
            raise RuntimeError("the embedder has not been started")
        return self._model


def load() -> Any:
    """Load the model that the installed package carries."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    import wordllama

    # Importing it gives the root logger a handler and a level, which are not its to choose.
    root.handlers[:] = handlers
    root.setLevel(level)
    # Its tokenizer would go through a batch with threads of its own: twice the work, and where the processors
    # are busy, a wait for each of them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # It looks for its tokenizer in the cache only, so the installed package is named as the cache.
    installed = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=installed, disable_download=True)


def _embed(model: Any, texts: list[str]) -> tuple[Vector, ...]:
    return tuple(tuple(vector) for vector in model.embed(texts, norm=True).tolist())
