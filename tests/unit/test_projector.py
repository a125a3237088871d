"""What an agent sees of the blocks, under budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model import Budget, Dropped, Evidence, HitReason
from pipeline.processor import process
from pipeline.projector import FREE_LABEL_CHARS, MAX_LABEL_CHARS, Projected, project, shorten
from tests import strategies
from tests.builders import block, budget, hit, limits

WORDS = "one two three four"


ANY_BUDGET = strategies.budgets()
ANY_BLOCKS = st.builds(
    lambda found, twice: (*found, *found[:twice]),
    strategies.paths().map(
        lambda found: process(found, limits(return_n=20, max_chunks_per_document=20)).blocks
    ),
    st.integers(min_value=0, max_value=2),
)
"""The blocks of any hits, now and then with the first of them once more."""


def blocks_of(*contents: str) -> list[Evidence]:
    """Return blocks of different chunks."""
    return [block(hit("docA", chunk, content=content)) for chunk, content in enumerate(contents)]


def contents(evidence: Sequence[Evidence]) -> list[str]:
    """Return the texts an agent reads."""
    return [item.content for item in evidence]


# Identity


def test_project_shows_what_the_block_knows() -> None:
    """Every field of the block is in the evidence, which is ranked from 1."""
    found = hit("docA", 0, score=0.0, content="Restart it.", source="a.md", title="Disk", breadcrumb="A > B")
    [_, item] = project([block(hit()), block(found, query=1, rank=2)], budget()).evidence
    assert item == Evidence(
        rank=2,
        document_id="docA#chunk-0",
        doc_id="docA",
        chunk_index=0,
        source="a.md",
        title="Disk",
        breadcrumb="A > B",
        content="Restart it.",
        truncated=False,
        score=0.0,
        hit_reasons=(HitReason(query=1, rank=2, score=0.0),),
    )


def test_project_drops_a_second_block_of_one_key() -> None:
    """The projector trusts nobody: the first block of a key is shown, the second is a duplicate."""
    first, second = block(hit("docA", 0, content="new")), block(hit("docA", 0, content="old"), rank=2)
    projected = project([first, second], budget())
    assert contents(projected.evidence) == ["new"]
    assert projected.dropped == (
        Dropped(document_id="docA#chunk-0", reason="duplicate", query=0, rank=2, merged_into="docA#chunk-0"),
    )


def test_project_counts_a_second_block_of_a_key_over_budget_as_duplicate() -> None:
    """A key that was dropped for want of room is not tried again with other content."""
    first = block(hit("docA", 0, content="x" * 8))
    long, short = block(hit("docB", 0, content="y" * 8)), block(hit("docB", 0, content="y"))
    projected = project([first, long, short], budget(max_total_chars=10))
    assert contents(projected.evidence) == ["x" * 8]
    assert [drop.reason for drop in projected.dropped] == ["over_budget", "duplicate"]


def test_project_of_nothing_is_nothing() -> None:
    """No blocks, no evidence."""
    assert project([], budget()) == Projected(evidence=(), duplicates=[], over_budget=[])


# Budgets


def test_budget_of_items_takes_the_first() -> None:
    """Blocks beyond `max_items` are dropped, however short."""
    projected = project(blocks_of("a", "b", "c"), budget(max_items=2))
    assert contents(projected.evidence) == ["a", "b"]
    assert [(drop.document_id, drop.reason) for drop in projected.dropped] == [
        ("docA#chunk-2", "over_budget")
    ]


def test_budget_of_an_item_shortens_it() -> None:
    """A block longer than `max_chars_per_item` is cut at a word boundary and marked."""
    [short, long] = project(blocks_of("one two", WORDS), budget(max_chars_per_item=10)).evidence
    assert (short.content, short.truncated) == ("one two", False)
    assert (long.content, long.truncated) == ("one two", True)


def test_budget_of_the_sum_shortens_where_enough_is_left() -> None:
    """What does not fit is shortened to what is left, if that is at least `min_chars_per_item`."""
    tight = budget(max_total_chars=17, min_chars_per_item=7)
    projected = project(blocks_of("0123456789", WORDS), tight)
    assert contents(projected.evidence) == ["0123456789", "one two"]
    assert [item.truncated for item in projected.evidence] == [False, True]


def test_budget_of_the_sum_drops_where_too_little_is_left_and_tries_the_next() -> None:
    """One character less than `min_chars_per_item`, and the block goes; a shorter one still fits."""
    tight = budget(max_total_chars=16, min_chars_per_item=7)
    projected = project(blocks_of("0123456789", WORDS, "ABCDEF"), tight)
    assert contents(projected.evidence) == ["0123456789", "ABCDEF"]
    assert [item.rank for item in projected.evidence] == [1, 2]
    assert [(drop.document_id, drop.reason) for drop in projected.dropped] == [
        ("docA#chunk-1", "over_budget")
    ]


def test_budget_of_the_sum_does_not_shorten_what_fits_as_an_item() -> None:
    """A block cut to `max_chars_per_item` may fill the sum to the last character."""
    tight = budget(max_chars_per_item=5, max_total_chars=10, min_chars_per_item=200)
    projected = project(blocks_of("0123456789", "ABCDEFGHIJ", "x"), tight)
    assert contents(projected.evidence) == ["01234", "ABCDE"]
    assert [drop.reason for drop in projected.dropped] == ["over_budget"]


def test_budget_left_is_counted_from_what_is_shown() -> None:
    """What the word boundary gave back is there for the next block."""
    tight = budget(max_chars_per_item=10, max_total_chars=14, min_chars_per_item=1)
    assert contents(project(blocks_of(WORDS, "1234567"), tight).evidence) == ["one two", "1234567"]


def test_budget_counts_code_points() -> None:
    """Not bytes, and not UTF-16 units."""
    [item] = project(blocks_of("😀" * 10), budget(max_chars_per_item=10)).evidence
    assert not item.truncated


@given(blocks=ANY_BLOCKS, allowed=ANY_BUDGET)
def test_budgets_are_never_exceeded(blocks: tuple[Evidence, ...], allowed: Budget) -> None:
    """Neither the items, nor the length of one, nor the sum of all."""
    evidence = project(blocks, allowed).evidence
    lengths = [len(item.content) for item in evidence]
    assert len(evidence) <= allowed.max_items
    assert max(lengths, default=0) <= allowed.max_chars_per_item
    assert sum(lengths) <= allowed.max_total_chars


@given(blocks=ANY_BLOCKS, allowed=ANY_BUDGET)
def test_project_shows_pieces_of_the_contents(blocks: tuple[Evidence, ...], allowed: Budget) -> None:
    """What is shown is the content or its beginning, never blank, and marked where it is not all."""
    whole = {one.document_id: one.content for one in reversed(blocks)}
    for item in project(blocks, allowed).evidence:
        content = whole[item.document_id]
        assert item.content.strip()
        assert content.startswith(item.content) or content.lstrip().startswith(item.content)
        assert item.truncated == (item.content != content)


@given(blocks=ANY_BLOCKS, allowed=ANY_BUDGET)
def test_project_never_hides_the_best_block(blocks: tuple[Evidence, ...], allowed: Budget) -> None:
    """However narrow the budget, the first block is shown where there is one."""
    first = [item.document_id for item in project(blocks, allowed).evidence[:1]]
    assert first == [one.document_id for one in blocks[:1]]


@given(blocks=ANY_BLOCKS, allowed=ANY_BUDGET)
def test_project_accounts_for_every_block(blocks: tuple[Evidence, ...], allowed: Budget) -> None:
    """Every block is shown or was dropped; ranks count from 1, and the blocks' order stands."""
    projected = project(blocks, allowed)
    keys = [one.document_id for one in blocks]
    shown = [item.document_id for item in projected.evidence]
    assert sorted(keys) == sorted([*shown, *(drop.document_id for drop in projected.dropped)])
    assert [item.rank for item in projected.evidence] == list(range(1, len(shown) + 1))
    assert shown == sorted(shown, key=keys.index)


@given(blocks=ANY_BLOCKS, allowed=ANY_BUDGET, data=st.data())
def test_project_of_fewer_blocks_is_a_prefix(
    blocks: tuple[Evidence, ...], allowed: Budget, data: st.DataObject
) -> None:
    """The evidence of the first blocks is the first evidence of all blocks."""
    fewer = data.draw(st.integers(min_value=0, max_value=len(blocks)))
    some, every = project(blocks[:fewer], allowed).evidence, project(blocks, allowed).evidence
    assert some == every[: len(some)]


@given(blocks=ANY_BLOCKS, allowed=ANY_BUDGET)
def test_project_is_idempotent(blocks: tuple[Evidence, ...], allowed: Budget) -> None:
    """Evidence, projected again, is the same, and nothing more is shortened or dropped."""
    first = project(blocks, allowed)
    again = project(first.evidence, allowed)
    assert again.dropped == ()
    assert again.evidence == first.evidence


# Shortening


@pytest.mark.parametrize(
    ("text", "limit", "piece"),
    [
        pytest.param(WORDS, 18, WORDS, id="fits"),
        pytest.param(WORDS, 17, "one two three", id="inside the last word"),
        pytest.param(WORDS, 14, "one two three", id="just after a boundary"),
        pytest.param(WORDS, 13, "one two three", id="at a boundary"),
        pytest.param(WORDS, 12, "one two", id="one before a boundary"),
        pytest.param("one   two", 5, "one", id="inside white space"),
        pytest.param("a long-word", 4, "a lo", id="boundary costs more than half"),
        pytest.param("ab long-word", 4, "ab", id="boundary costs half"),
        pytest.param("abcdefgh", 3, "abc", id="one long word"),
        pytest.param("日本語の文章", 4, "日本語の", id="script without spaces"),
        pytest.param("  one two", 3, "one", id="leading white space gives way"),
        pytest.param("  one  ", 5, "one", id="fits without leading white space"),
        pytest.param("one" + " " * 50, 20, "one", id="trailing white space gives way"),
        pytest.param("x y", 1, "x", id="one character"),
        pytest.param("one\u2003two", 5, "one", id="any white space is a boundary"),
    ],
)
def test_shorten_cuts_at_a_word_boundary_where_one_is_near(text: str, limit: int, piece: str) -> None:
    """Whole words, unless they are less than half of what fits."""
    assert shorten(text, limit) == piece


@given(text=strategies.contents(), limit=st.integers(min_value=1, max_value=80))
def test_shorten_gives_a_piece(text: str, limit: int) -> None:
    """At most `limit` characters from the first word on, not blank, and all of it where it fits."""
    piece = shorten(text, limit)
    assert 1 <= len(piece) <= limit
    if len(text) <= limit:
        assert piece == text
    else:
        assert text.lstrip().startswith(piece)
        assert piece == piece.strip()


@given(words=st.lists(st.text("ab", min_size=1, max_size=5), min_size=2), limit=st.integers(10, 60))
def test_shorten_never_cuts_a_short_word(words: list[str], limit: int) -> None:
    """Where no word is longer than half of the limit, what is left are whole words."""
    piece = shorten(" ".join(words), limit).split()
    assert piece == words[: len(piece)]


# Source, title and breadcrumb


def labelled(content: str = "x" * 100, *, source: str = "a.md", breadcrumb: str = "A > B") -> Evidence:
    """Return a block with labels."""
    return block(hit("docA", 0, content=content, source=source, title="T", breadcrumb=breadcrumb))


def length_of_labels(item: Evidence) -> int:
    """Return how long source, title and breadcrumb are together."""
    return sum(len(label or "") for label in (item.source, item.title, item.breadcrumb))


def test_ordinary_labels_are_free() -> None:
    """Up to 500 characters together they are shown as they are, and leave the budget to contents."""
    first = labelled(breadcrumb="b" * (FREE_LABEL_CHARS - 5))
    [item] = project([first], budget(max_total_chars=100)).evidence
    assert item == first
    assert length_of_labels(item) == FREE_LABEL_CHARS


def test_long_labels_count_against_the_budget() -> None:
    """What is over stays where content leaves room, and is taken from what the next block may have."""
    first = labelled(breadcrumb="b" * (FREE_LABEL_CHARS + 95))
    second = block(hit("docB", 0, content="y" * 800))
    evidence = project([first, second], budget(max_total_chars=900, min_chars_per_item=1)).evidence
    assert evidence[0] == first
    assert len(evidence[1].content) == 900 - 100 - 100


def test_labels_without_room_are_shortened_the_longest_first() -> None:
    """A small budget does not come with a breadcrumb of tens of thousands of characters."""
    [item] = project([labelled(breadcrumb="long " * 5_000)], budget(max_total_chars=100)).evidence
    assert (item.source, item.title, item.content) == ("a.md", "T", "x" * 100)
    assert length_of_labels(item) <= FREE_LABEL_CHARS
    assert (item.breadcrumb or "").endswith("long…")
    assert not item.truncated


def test_no_budget_is_large_enough_for_endless_labels() -> None:
    """An item has at most 1,000 characters of them; its ids are never shortened."""
    long = block(hit("d" * 3_000, 0, content="x", source="", title="t" * 3_000, breadcrumb="b" * 3_000))
    [item] = project([long], budget(max_chars_per_item=100_000, max_total_chars=100_000)).evidence
    assert item.document_id == f"{'d' * 3_000}#chunk-0"
    assert MAX_LABEL_CHARS - 3 <= length_of_labels(item) <= MAX_LABEL_CHARS


@given(
    labels=st.lists(st.tuples(*[st.integers(0, 1_200)] * 3), min_size=1, max_size=6),
    allowed=ANY_BUDGET,
)
def test_budgets_bound_all_that_an_agent_gets(labels: list[tuple[int, int, int]], allowed: Budget) -> None:
    """Contents and labels together, but for 500 characters of labels an item."""
    blocks = [
        block(hit("docA", n, content="x" * 50, source="s" * a, title="t" * b, breadcrumb="b" * c))
        for n, (a, b, c) in enumerate(labels)
    ]
    evidence = project(blocks, allowed).evidence
    counted = [len(item.content) + max(0, length_of_labels(item) - FREE_LABEL_CHARS) for item in evidence]
    assert all(each <= allowed.max_chars_per_item for each in counted)
    assert sum(counted) <= allowed.max_total_chars
    unshortened = project(
        [replace(each, source=None, title=None, breadcrumb=None) for each in blocks], allowed
    )
    assert evidence[0].content == unshortened.evidence[0].content
