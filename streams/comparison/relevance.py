"""How good the evidence is, where people judged it: measures by ir-measures, and a paired test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from statistics import fmean
from typing import Literal, TypeAlias

from pipeline.errors import ConfigurationError
from streams.comparison.alignment import is_unstable
from streams.comparison.differences import Difference
from streams.comparison.sides import Item

Level: TypeAlias = Literal["chunk", "document"]

MAX_GRADE = 1_000_000
"""ir-measures takes 8 bytes of memory for each grade up to the greatest."""

MAX_GRADE_DIGITS = 100

_FIELDS = ("request id", "iteration", "document id", "grade")
_COLUMN = re.compile("[ \t]+")
_GRADE = re.compile(rf"([+-]?\d{{1,{MAX_GRADE_DIGITS}}})(\.0*)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgements:
    """What people said is relevant.

    Attributes:
        level: Whether they judged chunks, by evidence key, or documents, by document id.
        grades: By request id, then by id: 0 where it is not relevant, at most `MAX_GRADE` and higher where it
            is more so, in the proportions of the request's judgements.
    """

    level: Level
    grades: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRelevance:
    """One measure over all judged requests.

    Attributes:
        name: Such as `nDCG@10`.
        base: Mean of the base, 0 to 1.
        candidate: Mean of the candidate, 0 to 1.
        better: Requests in which the candidate's is higher.
        worse: Requests in which it is lower.
        p_value: Of Student's paired t-test, two-sided: how probable a mean difference of this size or more is
            by chance alone; `None` where the differences are all the same.
    """

    name: str
    base: float
    candidate: float
    better: int
    worse: int
    p_value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance:
    """How good both sides are.

    Attributes:
        level: What was judged.
        requests: Requests that were judged and could be compared.
        missing: Judged requests that could not be compared, or are not in both files.
        measures: nDCG, recall and reciprocal rank, in this order.
    """

    level: Level
    requests: int
    missing: int
    measures: tuple[MeasuredRelevance, ...]


def read_qrels(file: Path) -> Judgements:
    """Read judgements in TREC's format: request id, iteration, document id and grade on each line.

    Fields are separated by tabs, or by white space if none of them has any. The ids are taken for evidence
    keys if all of them have the form of one, else for document ids. A negative grade means "not relevant",
    like 0. Grades over `MAX_GRADE` are reduced together with those of the same request: measures depend on
    their proportions only.

    Raises:
        ConfigurationError: One line that names the file, the line, its field and value, and what is allowed.
    """
    grades: dict[str, dict[str, int]] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    _add(grades, line, f"{file}: line {number}")
    except UnicodeError:
        raise ConfigurationError(f"{file}: cannot be read: must be UTF-8") from None
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from error
    if not grades:
        raise ConfigurationError(f"{file}: has no judgements")
    chunks = all(_is_key(judged) for of_request in grades.values() for judged in of_request)
    return Judgements(
        level="chunk" if chunks else "document",
        grades={request_id: _bounded(of_request) for request_id, of_request in grades.items()},
    )


def _add(grades: dict[str, dict[str, int]], line: str, where: str) -> None:
    request_id, document_id, grade = _judgement(line, where)
    of_request = grades.setdefault(request_id, {})
    if of_request.setdefault(document_id, grade) != grade:
        raise ConfigurationError(
            f"{where}: grade = {grade} of {document_id!r:.80} for {request_id!r:.80}: a line before it says"
            f" {of_request[document_id]}"
        )


def _judgement(line: str, where: str) -> tuple[str, str, int]:
    line = line.rstrip("\r\n")
    by_tabs = line.count("\t") == len(_FIELDS) - 1
    fields = [field.strip(" ") for field in line.split("\t")] if by_tabs else _COLUMN.split(line.strip(" \t"))
    if len(fields) != len(_FIELDS):
        raise ConfigurationError(
            f"{where}: {line!r:.80} has {len(fields)} fields, must have {len(_FIELDS)}: {', '.join(_FIELDS)};"
            " separated by tabs if an id has spaces"
        )
    request_id, _, document_id, grade = fields
    for name, value in (("request id", request_id), ("document id", document_id)):
        if not value or "\0" in value:
            raise ConfigurationError(f"{where}: {name} = {value!r:.80}: must be text, without NUL characters")
    number = _GRADE.fullmatch(grade)
    if number is None:
        raise ConfigurationError(
            f"{where}: grade = {grade!r:.80}: must be an integer of at most {MAX_GRADE_DIGITS} digits"
        )
    return request_id, document_id, int(number[1])


def _bounded(grades: dict[str, int]) -> dict[str, int]:
    """Reduce a request's grades to their proportions, if one of them is over the limit.

    The rounding changes no gain by more than a millionth of the greatest; what is relevant stays so.
    """
    greatest = max(grades.values())
    if greatest > MAX_GRADE:
        divisor = gcd(*(grade for grade in grades.values() if grade > 0))
        most = max(greatest // divisor, MAX_GRADE)
        return {judged: _reduced(grade // divisor, most) for judged, grade in grades.items()}
    return {judged: max(grade, 0) for judged, grade in grades.items()}


def _reduced(grade: int, most: int) -> int:
    return max(1, (grade * MAX_GRADE + most // 2) // most) if grade > 0 else 0


def _is_key(judged: str) -> bool:
    _, mark, index = judged.rpartition("#chunk-")
    return is_unstable(judged) or (bool(mark) and index.isascii() and index.isdigit())


class RelevanceTally:
    """Keeps the rankings of judged requests."""

    def __init__(self, judgements: Judgements) -> None:
        """Initialize with the judgements."""
        self._judgements = judgements
        self._base: dict[str, dict[str, float]] = {}
        self._candidate: dict[str, dict[str, float]] = {}

    def add(self, difference: Difference) -> None:
        """Accept one request that was compared."""
        request_id = difference.base.request_id
        if request_id in self._judgements.grades:
            self._base[request_id] = self._ranking(difference.base.items)
            self._candidate[request_id] = self._ranking(difference.candidate.items)

    def relevance(self, *, depth: int) -> Relevance:
        """Measure both sides.

        Args:
            depth: How many of the first items the measures look at, at least 1.
        """
        base, candidate = self._measured(self._base, depth), self._measured(self._candidate, depth)
        return Relevance(
            level=self._judgements.level,
            requests=len(self._base),
            missing=len(self._judgements.grades) - len(self._base),
            measures=tuple(_compared(name, base[name], candidate[name]) for name in base),
        )

    def _ranking(self, items: Sequence[Item]) -> dict[str, float]:
        """Return ids with scores that fall with the rank: a document stands where its best chunk does."""
        if self._judgements.level == "chunk":
            ids = [item.key for item in items]
        else:
            ids = [item.key if item.doc_id is None else item.doc_id for item in items]
        return {judged: -float(rank) for rank, judged in enumerate(dict.fromkeys(ids))}

    def _measured(self, run: dict[str, dict[str, float]], depth: int) -> dict[str, list[float]]:
        """Return each measure's values, in the order of the requests."""
        from ir_measures import RR, R, iter_calc, nDCG

        measures = {nDCG @ depth: "nDCG", R @ depth: "recall", RR @ depth: "MRR"}
        grades = {request_id: self._judgements.grades[request_id] for request_id in run}
        values = {
            (metric.measure, metric.query_id): metric.value for metric in iter_calc(measures, grades, run)
        }
        return {
            f"{name}@{depth}": [values[measure, request_id] for request_id in run]
            for measure, name in measures.items()
            if run
        }


def _compared(name: str, base: Sequence[float], candidate: Sequence[float]) -> MeasuredRelevance:
    # Rounded, so that the last bit of a float is no difference.
    differences = [round(other - own, 12) for own, other in zip(base, candidate, strict=True)]
    return MeasuredRelevance(
        name=name,
        base=fmean(base),
        candidate=fmean(candidate),
        better=sum(difference > 0 for difference in differences),
        worse=sum(difference < 0 for difference in differences),
        p_value=_p_value(differences),
    )


def _p_value(differences: Sequence[float]) -> float | None:
    """Test whether the mean of paired differences is 0, which is what a paired t-test does."""
    from scipy.stats import ttest_1samp

    if len(set(differences)) <= 1:
        return None  # without variance there is no test
    return float(ttest_1samp(differences, 0.0).pvalue)
