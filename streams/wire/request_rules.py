"""What requests are held to beyond their JSON: their form, the widths, the tenant, the dimension."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipeline.errors import LimitsExceeded
from pipeline.limits import narrow_budget, override_limits
from pipeline.model import Budget, Condition, Limits, Lookup, Scalar
from streams.settings.complaints import complaint
from streams.wire.decoding import DecodedRequest
from streams.wire.near_misses import suggestion
from streams.wire.requests import (
    FieldProblem,
    LookupRequest,
    RequestInvalid,
    shown,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRules:
    """What is asked of requests beyond their form, and what stands where they are silent.

    Attributes:
        limits: The widths where a request names none.
        max_width: Upper bound of a request's widths.
        budget: The widest budget.
        tenant_field: Metadata field that must equal the request's tenant, if tenants are kept apart.
        dimension: Length of the collection's vectors, if known.
    """

    limits: Limits
    max_width: int
    budget: Budget
    tenant_field: str | None
    dimension: int | None


def check(decoded: DecodedRequest, rules: RequestRules) -> tuple[LookupRequest, Lookup]:
    """Check a request, and fill in the defaults.

    Raises:
        RequestInvalid: Every field that is wrong in its form or against the rules is named; `request` where
            it is the JSON itself.
    """
    problems = list(decoded.problems)
    misformed: set[str] = set()
    try:
        request = LookupRequest.model_validate(decoded.body)
    except ValidationError as error:
        details = error.errors(include_url=False)
        named = {problem.field for problem in problems}
        found = (_problem(detail, decoded.origins) for detail in details)
        problems += [problem for problem in found if problem.field not in named]
        misformed = {str(detail["loc"][0]) for detail in details}
        request = _without(decoded, misformed)
    lookup, broken_rules = _lookup(decoded.body, request, rules)
    problems += [
        problem
        for problem in (*_form_problems(decoded.body, request), *broken_rules)
        if problem.field not in misformed
    ]
    if decoded.flaw is not None and not problems:
        problems.append(
            FieldProblem(field="request", value="the value", problem=f"must be JSON: {decoded.flaw}")
        )
    if problems or lookup is None:
        # What only lenient parsers read cannot be written as it was.
        raise RequestInvalid(decoded.request_id, problems, request.hints if decoded.flaw is None else None)
    return request, lookup


def _problem(detail: ErrorDetails, origins: Mapping[str, str]) -> FieldProblem:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"])
    field = path.removeprefix(".") or "request"
    return FieldProblem(
        field=origins.get(field, field), value=shown(detail["input"]), problem=complaint(detail)
    )


def _without(decoded: DecodedRequest, fields: Collection[str]) -> LookupRequest:
    """Return what is left of a request, so that the rules can look at the rest of it."""
    rest = {name: value for name, value in decoded.body.items() if name not in fields}
    return LookupRequest.model_validate({"request_id": "-", **rest})


def _lookup(
    body: Mapping[str, Any], request: LookupRequest, rules: RequestRules
) -> tuple[Lookup | None, list[FieldProblem]]:
    """Return the lookup, or every rule that stands against it."""
    problems = [*_tenant_problems(body, request, rules), *_dimension_problems(request, rules)]
    try:
        limits = override_limits(
            rules.limits,
            ceiling=rules.max_width,
            retrieve_k=request.retrieve_k,
            return_n=request.return_n,
            max_chunks_per_document=request.max_chunks_per_document,
        )
    except LimitsExceeded as error:
        exceeded = [
            FieldProblem(field=limit.field, value=str(limit.value), problem=f"must be {limit.allowed}")
            for limit in error.exceeded
        ]
        return None, problems + exceeded
    lookup = Lookup(
        queries=request.all_queries,
        vectors=request.all_vectors,
        limits=limits,
        budget=rules.budget
        if request.budget is None
        else narrow_budget(rules.budget, **request.budget.model_dump()),
        conditions=_conditions(request, rules),
        explain=request.explain is True,
    )
    return lookup, problems


def _form_problems(body: Mapping[str, Any], request: LookupRequest) -> Iterator[FieldProblem]:
    """Name what is wrong between fields; what is absent from `body` was not sent."""
    sent = {name for name in ("query", "queries", "vector", "vectors") if body.get(name) is not None}
    if not sent & {"query", "queries"}:
        hint = suggestion(body, "query", "queries")
        yield FieldProblem(field="query", value="None", problem=f"query or queries must be given{hint}")
    if {"query", "queries"} <= sent:
        yield FieldProblem(
            field="queries", value=shown(body["queries"]), problem="must not be given beside query"
        )
    if {"vector", "vectors"} <= sent:
        yield FieldProblem(
            field="vectors", value=shown(body["vectors"]), problem="must not be given beside vector"
        )
    vectors, queries = request.all_vectors, request.all_queries
    if vectors is not None and queries and len(vectors) != len(queries):
        yield FieldProblem(
            field="vectors" if request.vector is None else "vector",
            value=f"{len(vectors)} vectors",
            problem=f"must be one for each query, of which there are {len(queries)}",
        )


def _tenant_problems(
    body: Mapping[str, Any], request: LookupRequest, rules: RequestRules
) -> list[FieldProblem]:
    if rules.tenant_field is None or request.tenant is not None:
        return []
    problem = f"must be given: tenants are kept apart here{suggestion(body, 'tenant')}"
    return [FieldProblem(field="tenant", value="None", problem=problem)]


def _dimension_problems(request: LookupRequest, rules: RequestRules) -> list[FieldProblem]:
    if rules.dimension is None:
        return []
    return [
        FieldProblem(
            field="vector" if request.vector is not None else f"vectors[{index}]",
            value=f"{len(vector)} numbers",
            problem=f"must have {rules.dimension} numbers, as the collection's vectors have",
        )
        for index, vector in enumerate(request.all_vectors or ())
        if len(vector) != rules.dimension
    ]


def _conditions(request: LookupRequest, rules: RequestRules) -> tuple[Condition, ...]:
    tenant: tuple[Condition, ...] = ()
    if rules.tenant_field is not None and request.tenant is not None:
        tenant = (Condition(field=rules.tenant_field, any_of=(request.tenant,)),)
    wanted: dict[str, Scalar | list[Scalar]] = request.filter or {}
    return tenant + tuple(
        Condition(field=field, any_of=tuple(value) if isinstance(value, list) else (value,))
        for field, value in wanted.items()
    )
