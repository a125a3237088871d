"""A guard for agents: do the ids that an answer cites stand in the evidence that the agent was shown?

A citation of what was found but not projected, or of what was never found, is not backed by anything that the
agent has seen.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote


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

    Ids are compared exactly, as they are: no case folding, no stripping, no brackets or punctuation around
    them. `extract_citations` finds them in a text. An id that is an evidence key and a document's id as well
    counts as the evidence key. A blank id is never projected.

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


def extract_citations(text: str, result: CitableResult) -> tuple[str, ...]:
    """Return the ids of the evidence that a text cites, each once, in the order of their first mention.

    The text is searched for the evidence keys and document ids of the result, whatever stands around them:
    brackets of any kind, quotes, links, lists, punctuation. An id must be a whole token: `docA#chunk-1` is
    not in `docA#chunk-12`, nor `docA` in `docA#chunk-1`, `docA.md` or `old/docA`. Where several ids fit, the
    longest is meant. Letters must be equal, case included; a backslash before punctuation (Markdown),
    percent-encoding (`docA%23chunk-1`), a non-breaking hyphen, and any white space for a space make no
    difference.

    A document whose id is an ordinary word is found wherever that word stands. An id that is not in the
    evidence is not found: nothing in a text tells it from other words.

    Args:
        text: What the agent wrote.
        result: The result that it works with.
    """
    names = (name for item in result.evidence for name in (item.document_id, item.doc_id))
    ids = dict.fromkeys(name for name in names if name is not None and name.strip())
    if not ids:
        return ()
    spellings = sorted(
        ((spelling, each) for each in ids for spelling in _spellings(each)),
        key=lambda pair: (-len(pair[0]), pair[0] != pair[1]),
    )
    found = (
        spellings[match.lastindex - 1][1]
        for match in _pattern([spelling for spelling, _ in spellings]).finditer(text)
        if match.lastindex is not None and not _goes_on(text, match.end())
    )
    return tuple(dict.fromkeys(found))


_LETTER = r"[^\W_]"
"""A letter or digit of any script."""

_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
"""A letter of a script without spaces between words, or with particles that follow other scripts without."""

_HYPHENS = "-\u2010\u2011"
_JOINERS = f"[{_HYPHENS}_./#%@\\\\]"
"""What joins the parts of a token; at its ends it is punctuation."""

_ESCAPABLE = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def _spellings(cited_id: str) -> Iterable[str]:
    """Return an id as it is written in text and in links, each spelling once."""
    # A lone surrogate has no percent-encoding.
    encoded = (quote(cited_id, safe=safe, errors="replace") for safe in ("/#:", "/:", ""))
    return dict.fromkeys((cited_id, *encoded))


def _pattern(spellings: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that finds any of the spellings that stands alone, each as a group of its own."""
    begins = f"(?:(?<!{_LETTER})|(?<={_UNSPACED})|(?={_UNSPACED}))(?<!{_LETTER}{_JOINERS})"
    is_no_other_id = "(?<!vector:)(?<!content:)"
    first = "".join({re.escape(spelling[0]) for spelling in spellings} | {re.escape("\\"), *_HYPHENS[1:]})
    groups = "|".join(f"({_alone(spelling)})" for spelling in spellings)
    return re.compile(f"{begins}{is_no_other_id}(?=[{first}\\s])(?:{groups})(?!(?:{_JOINERS}|:){_LETTER})")


def _alone(spelling: str) -> str:
    before = f"(?<!{_UNSPACED})" if re.match(_UNSPACED, spelling) else ""
    after = f"(?!{_UNSPACED})" if re.match(_UNSPACED, spelling[-1]) else f"(?:(?!{_LETTER})|(?={_UNSPACED}))"
    return f"{before}{''.join(map(_character, spelling))}{after}"


def _character(character: str) -> str:
    if character == "-":
        return rf"\\?[{_HYPHENS}]"
    if character.isspace():
        return r"\s"
    escaped = re.escape(character)
    return rf"\\?{escaped}" if character in _ESCAPABLE else escaped


def _goes_on(text: str, end: int) -> bool:
    """Say whether a mark follows, such as an accent, which is no letter to `re` but belongs to the last."""
    return unicodedata.category(text[end : end + 1] or " ").startswith("M")


def _checked(cited_id: object) -> str:
    if not isinstance(cited_id, str):
        raise TypeError(f"a cited id must be a string, not {cited_id!r}")
    return cited_id


def _chunks(result: CitableResult, doc_id: str) -> tuple[str, ...]:
    return tuple(item.document_id for item in result.evidence if item.doc_id == doc_id)
