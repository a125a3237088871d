"""How a request's widths and budgets meet the configured ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import ExceededLimit, LimitsExceeded, LookupStageError
from pipeline.limits import configured_widths, narrow_budget, override_limits
from pipeline.model import Budget, Limits
from tests import strategies
from tests.builders import budget, limits

CEILING = 50
ASKED = st.none() | st.integers(min_value=1, max_value=2 * CEILING)


@pytest.mark.parametrize(
    ("retrieve_k", "return_n", "top_k", "widths"),
    [
        pytest.param(None, None, None, (20, 5), id="nothing set"),
        pytest.param(30, 7, None, (30, 7), id="both set"),
        pytest.param(30, 7, 9, (30, 7), id="top-k has no say where both are set"),
        pytest.param(None, None, 9, (9, 9), id="top-k stands in for both"),
        pytest.param(30, None, 9, (30, 9), id="top-k stands in for return-n"),
        pytest.param(None, 7, 9, (9, 7), id="top-k stands in for retrieve-k"),
        pytest.param(30, None, None, (30, 5), id="return-n has its default"),
        pytest.param(None, 7, None, (20, 7), id="retrieve-k has its default"),
    ],
)
def test_configured_widths_fall_back_to_top_k_then_to_the_default(
    retrieve_k: int | None, return_n: int | None, top_k: int | None, widths: tuple[int, int]
) -> None:
    """A width is its own key, else the legacy one, else 20 and 5."""
    assert configured_widths(retrieve_k, return_n, top_k) == widths


def test_override_limits_leaves_what_the_request_does_not_name() -> None:
    """No override, no change."""
    assert override_limits(limits(), ceiling=CEILING) == limits()


def test_override_limits_takes_what_the_request_names() -> None:
    """A request may widen and narrow, up to the ceiling itself."""
    widened = override_limits(
        limits(), ceiling=CEILING, retrieve_k=CEILING, return_n=CEILING, max_chunks_per_document=CEILING
    )
    assert widened == limits(retrieve_k=CEILING, return_n=CEILING, max_chunks_per_document=CEILING)
    narrowed = override_limits(limits(), ceiling=CEILING, retrieve_k=1, return_n=1, max_chunks_per_document=1)
    assert narrowed == limits(retrieve_k=1, return_n=1, max_chunks_per_document=1)


def test_override_limits_narrows_the_return_width_with_the_recall_width() -> None:
    """Who asks for 3 hits and names no `return_n` gets at most 3 blocks, and no error."""
    assert override_limits(limits(), ceiling=CEILING, retrieve_k=3) == limits(retrieve_k=3, return_n=3)
    assert override_limits(limits(), ceiling=CEILING, retrieve_k=6) == limits(retrieve_k=6, return_n=5)


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("retrieve_k", "rag.max-retrieve-k"),
        ("return_n", "rag.max-retrieve-k"),
        ("max_chunks_per_document", "rag.max-retrieve-k"),
    ],
)
def test_override_limits_refuses_more_than_the_ceiling(field: str, rule: str) -> None:
    """The error names the field, the value, what is allowed and what sets the bound."""
    with pytest.raises(LimitsExceeded) as refused:
        override_limits(limits(retrieve_k=CEILING), ceiling=CEILING, **{field: CEILING + 1})
    assert refused.value.exceeded == (
        ExceededLimit(field=field, value=CEILING + 1, allowed=f"at most {CEILING} ({rule})"),
    )
    assert str(refused.value) == f"{field} is 51, must be at most 50 ({rule})"
    assert isinstance(refused.value, LookupStageError)


def test_override_limits_names_every_width_that_is_too_large() -> None:
    """An agent learns of all its mistakes at once."""
    with pytest.raises(LimitsExceeded) as refused:
        override_limits(limits(), ceiling=CEILING, retrieve_k=51, return_n=52, max_chunks_per_document=53)
    assert [(one.field, one.value) for one in refused.value.exceeded] == [
        ("retrieve_k", 51),
        ("return_n", 52),
        ("max_chunks_per_document", 53),
    ]
    assert str(refused.value).count("; ") == 2


@pytest.mark.parametrize(
    ("retrieve_k", "recall"),
    [pytest.param(None, 20, id="configured recall width"), pytest.param(7, 7, id="requested recall width")],
)
def test_override_limits_refuses_to_return_more_than_is_retrieved(
    retrieve_k: int | None, recall: int
) -> None:
    """`return_n` is bounded by the recall width in force, the request's or the configured one."""
    with pytest.raises(LimitsExceeded) as refused:
        override_limits(limits(), ceiling=CEILING, retrieve_k=retrieve_k, return_n=recall + 1)
    (exceeded,) = refused.value.exceeded
    assert (exceeded.field, exceeded.value) == ("return_n", recall + 1)
    assert exceeded.allowed == f"at most {recall} (retrieve_k)"
    accepted = override_limits(limits(), ceiling=CEILING, retrieve_k=retrieve_k, return_n=recall)
    assert accepted.return_n == recall


@given(configured=strategies.widths(), retrieve_k=ASKED, return_n=ASKED, cap=ASKED)
def test_override_limits_are_sound_or_refused(
    configured: Limits, retrieve_k: int | None, return_n: int | None, cap: int | None
) -> None:
    """What is asked for holds, blocks never outnumber hits, and only too much is refused."""
    asked = {"retrieve_k": retrieve_k, "return_n": return_n, "max_chunks_per_document": cap}
    recall = retrieve_k or configured.retrieve_k
    if max(retrieve_k or 0, return_n or 0, cap or 0) > CEILING or (return_n or 0) > recall:
        with pytest.raises(LimitsExceeded) as refused:
            override_limits(configured, ceiling=CEILING, **asked)
        assert all(asked[limit.field] == limit.value for limit in refused.value.exceeded)
        return
    result = override_limits(configured, ceiling=CEILING, **asked)
    assert 1 <= result.return_n <= result.retrieve_k
    assert result == limits(
        retrieve_k=recall,
        return_n=return_n or min(configured.return_n, recall),
        max_chunks_per_document=cap or configured.max_chunks_per_document,
    )


def test_narrow_budget_leaves_what_the_request_does_not_name() -> None:
    """No budget in the request, the configured one holds."""
    assert narrow_budget(budget()) == budget()


def test_narrow_budget_takes_less_and_ignores_more() -> None:
    """A request may narrow the configured budget; asking for more is no error and gives no more."""
    narrowed = narrow_budget(budget(), max_items=3, max_chars_per_item=100, max_total_chars=300)
    assert narrowed == budget(max_items=3, max_chars_per_item=100, max_total_chars=300)
    assert narrow_budget(budget(), max_items=21, max_chars_per_item=2_001, max_total_chars=8_001) == budget()


@given(configured=strategies.budgets(), items=ASKED, chars=ASKED, total=ASKED)
def test_narrow_budget_never_widens(
    configured: Budget, items: int | None, chars: int | None, total: int | None
) -> None:
    """Each figure is the smaller of the two, and `min_chars_per_item` is not the request's to say."""
    result = narrow_budget(configured, max_items=items, max_chars_per_item=chars, max_total_chars=total)
    assert result == budget(
        max_items=min(configured.max_items, items or configured.max_items),
        max_chars_per_item=min(configured.max_chars_per_item, chars or configured.max_chars_per_item),
        max_total_chars=min(configured.max_total_chars, total or configured.max_total_chars),
        min_chars_per_item=configured.min_chars_per_item,
    )
