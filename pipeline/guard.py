"""A guard for agents: do the ids that an answer cites stand in the evidence that the agent was shown?

A citation of what was found but not projected, or of what was never found, is not backed by anything that the
agent has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


class CitableEvidence(Protocol):
    """One item of the projected evidence, such as `pipeline.model.Evidence`."""

    @property
    def document_id(self) -> str:
        """Its evidence key, such as `docA#chunk-2`."""

    @property
    def doc_id(self) -> str | None:
        """The document it belongs to, if known."""


class CitableResult(Protocol):
    """A result with its evidence, such as `decode_result` reads from the results topic."""

    @property
    def evidence(self) -> Sequence[CitableEvidence]:
        """The projected evidence, in rank order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedDocument:
    """A document that was cited as a whole, without saying which chunk of it.

    Attributes:
        doc_id: Its id, as cited.
        chunks: Evidence keys of its chunks that were projected, in rank order, at least one.
    """

    doc_id: str
    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CitationCheck:
    """What became of cited ids. Each is in one of the three, once, in the order in which they were cited.

    Attributes:
        projected: Evidence keys that stand in the projected evidence.
        documents: Bare document ids some of whose chunks stand there.
        not_projected: Ids of which nothing stands there.
    """

    projected: tuple[str, ...] = ()
    documents: tuple[CitedDocument, ...] = ()
    not_projected: tuple[str, ...] = ()


def check_citations(result: CitableResult, cited_ids: Iterable[str]) -> CitationCheck:
    """Return which of the ids that an agent cites stand in the evidence it was shown.

    Ids are compared as they are: no case folding, no stripping. An id that is an evidence key and a
    document's id as well counts as the evidence key. A blank id is never projected.

    Args:
        result: The result that the agent works with.
        cited_ids: Evidence keys (`docA#chunk-2`) or bare document ids (`docA`); repetitions count once.

    Raises:
        TypeError: An id is not a string, or a single string was given instead of several.
    """
    if isinstance(cited_ids, str | bytes):
        raise TypeError(f"cited_ids must be several ids, not one: {cited_ids!r}")
    cited = dict.fromkeys(_checked(cited_id) for cited_id in cited_ids)
    keys = {item.document_id for item in result.evidence}
    chunks = {cited_id: _chunks(result, cited_id) for cited_id in cited if cited_id not in keys}
    return CitationCheck(
        projected=tuple(cited_id for cited_id in cited if cited_id in keys),
        documents=tuple(
            CitedDocument(doc_id=cited_id, chunks=found) for cited_id, found in chunks.items() if found
        ),
        not_projected=tuple(cited_id for cited_id, found in chunks.items() if not found),
    )


def _checked(cited_id: object) -> str:
    if not isinstance(cited_id, str):
        raise TypeError(f"a cited id must be a string, not {cited_id!r}")
    return cited_id


def _chunks(result: CitableResult, doc_id: str) -> tuple[str, ...]:
    return tuple(item.document_id for item in result.evidence if item.doc_id == doc_id)
