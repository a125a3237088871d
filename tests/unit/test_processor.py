"""Which candidates become blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipeline.model import Dropped, Evidence, HitReason, Limits, PathHits
from pipeline.processor import Processed, process
from tests import strategies
from tests.builders import hit, limits, path

ANY_PATHS = strategies.paths()
ANY_LIMITS = strategies.widths()


def keys(blocks: Sequence[Evidence]) -> list[str]:
    """Return the blocks' evidence keys."""
    return [block.document_id for block in blocks]


def places(drops: Sequence[Dropped], reason: str) -> list[tuple[int, int]]:
    """Return query and rank of what was dropped for a reason."""
    return [(drop.query, drop.rank) for drop in drops if drop.reason == reason]


# Rank


def test_rank_is_by_score_across_paths() -> None:
    """The best score comes first, whichever path found it."""
    found = [path(hit("a", 0, score=0.5)), path(hit("b", 0, score=0.9), hit("c", 0, score=-1.0), query=1)]
    assert keys(process(found, limits()).blocks) == ["b#chunk-0", "a#chunk-0", "c#chunk-0"]


def test_rank_of_equal_scores_is_by_path_then_by_place() -> None:
    """Equal scores: the earlier path comes first, then the earlier place, and ids have no say."""
    found = [
        path(hit("b", 0, score=0.0), hit("a", 0, score=0.0), query=1),
        path(hit("d", 0, score=-0.0), hit("c", 0, score=0.0), query=0),
    ]
    assert keys(process(found, limits()).blocks) == ["d#chunk-0", "c#chunk-0", "b#chunk-0", "a#chunk-0"]


def test_rank_of_equal_scores_paths_and_places_is_by_key() -> None:
    """Where two hits have one query and one place the key decides, not the order of arrival."""
    found = [path(hit("b", 0)), path(hit("a", 0)), path(hit("c", 0))]
    assert keys(process(found, limits()).blocks) == ["a#chunk-0", "b#chunk-0", "c#chunk-0"]


def test_rank_of_equal_scores_counts_places_of_rejected_hits() -> None:
    """A hit's rank is its place in its path, rejected hits before it included."""
    [block] = process([path(hit(content=" "), hit(score=None), hit("a", 0))], limits()).blocks
    assert block.hit_reasons[0].rank == 3


@given(found=ANY_PATHS, widths=ANY_LIMITS)
def test_rank_is_a_total_order(found: tuple[PathHits, ...], widths: Limits) -> None:
    """No two blocks have one place: score, path and place within the path decide all of it."""
    reasons = [block.hit_reasons[0] for block in process(found, widths).blocks]
    order = [(-reason.score, reason.query, reason.rank) for reason in reasons]
    assert all(one < other for one, other in pairwise(order))


@given(found=ANY_PATHS, widths=ANY_LIMITS, data=st.data())
def test_rank_does_not_depend_on_the_order_of_the_paths(
    found: tuple[PathHits, ...], widths: Limits, data: st.DataObject
) -> None:
    """Permuting the paths changes no block, and drops the same hits for the same reasons."""
    one, other = process(found, widths), process(data.draw(st.permutations(found)), widths)
    assert other.blocks == one.blocks
    assert Counter(other.dropped) == Counter(one.dropped)


# Deduplicate


def test_deduplicate_keeps_the_higher_ranked_content_and_score() -> None:
    """The duplicate that stays is untouched; the others leave it their reasons, best first."""
    found = [
        path(hit("a", 0, score=0.4, content="old"), hit("a", 0, score=0.1, content="oldest")),
        path(hit("a", 0, score=0.8, content="new"), query=1),
    ]
    processed = process(found, limits())
    [block] = processed.blocks
    assert (block.content, block.score) == ("new", 0.8)
    assert block.hit_reasons == (
        HitReason(query=1, rank=1, score=0.8),
        HitReason(query=0, rank=1, score=0.4),
        HitReason(query=0, rank=2, score=0.1),
    )
    assert places(processed.dropped, "duplicate") == [(0, 1), (0, 2)]
    assert {drop.merged_into for drop in processed.dropped} == {"a#chunk-0"}


def test_deduplicate_looks_at_the_key_alone() -> None:
    """Equal content, source and title of different chunks are no duplicates."""
    same = [hit("a", chunk, content="Restart it.", source="a.md", title="Disk full") for chunk in range(2)]
    assert keys(process([path(*same)], limits()).blocks) == ["a#chunk-0", "a#chunk-1"]


def test_deduplicate_merges_rows_of_one_vector_id() -> None:
    """Without document and chunk the same row found by two queries is one block."""
    processed = process([path(hit(row_id=7)), path(hit(row_id="7"), query=1)], limits())
    assert keys(processed.blocks) == ["vector:7"]


def test_deduplicate_ignores_rejected_hits() -> None:
    """A rejected hit is no duplicate, and gives no reason to anybody."""
    processed = process([path(hit("a", 0, score=None), hit("a", 0))], limits())
    assert [block.hit_reasons for block in processed.blocks] == [(HitReason(query=0, rank=2, score=0.5),)]
    assert [drop.reason for drop in processed.dropped] == ["invalid_score"]


@given(found=ANY_PATHS, widths=ANY_LIMITS)
def test_deduplicate_leaves_one_block_a_key(found: tuple[PathHits, ...], widths: Limits) -> None:
    """No two blocks share a key, and a block's own reason is the first and best of its reasons."""
    blocks = process(found, widths).blocks
    assert len(set(keys(blocks))) == len(blocks)
    for block in blocks:
        assert block.hit_reasons[0].score == block.score
        assert list(block.hit_reasons) == sorted(block.hit_reasons, key=lambda r: (-r.score, r.query, r.rank))


@given(found=ANY_PATHS, widths=ANY_LIMITS)
def test_deduplicate_is_not_changed_by_a_path_that_repeats_another(
    found: tuple[PathHits, ...], widths: Limits
) -> None:
    """A query asked twice changes nothing but the reasons: no order, no cap, no cut."""
    again = PathHits(query=len(found), hits=found[0].hits)
    once, twice = process(found, widths), process((*found, again), widths)
    assert [replace(block, hit_reasons=()) for block in twice.blocks] == [
        replace(block, hit_reasons=()) for block in once.blocks
    ]
    assert [block.hit_reasons[0] for block in twice.blocks] == [block.hit_reasons[0] for block in once.blocks]


# Cap


def test_cap_keeps_the_best_chunks_of_each_document() -> None:
    """The cap is for each document, and takes the lowest-ranked out."""
    found = path(*(hit(doc, chunk, score=chunk / 10) for chunk in range(3) for doc in ("a", "b")))
    processed = process([found], limits(max_chunks_per_document=2))
    assert keys(processed.blocks) == ["a#chunk-2", "b#chunk-2", "a#chunk-1", "b#chunk-1"]
    assert places(processed.dropped, "over_document_cap") == [(0, 1), (0, 2)]


def test_cap_counts_rows_without_a_chunk_index() -> None:
    """Rows of one known document are of one document, also where the row's id is the key."""
    found = path(*(hit("a", row_id=row) for row in range(3)))
    processed = process([found], limits(max_chunks_per_document=2))
    assert keys(processed.blocks) == ["vector:0", "vector:1"]


def test_cap_comes_before_the_cut() -> None:
    """A document over its cap does not use up places of others."""
    found = path(*(hit("a", chunk, score=0.9) for chunk in range(5)), hit("b", 0, score=0.1))
    processed = process([found], limits(return_n=2, max_chunks_per_document=1))
    assert keys(processed.blocks) == ["a#chunk-0", "b#chunk-0"]


@given(found=ANY_PATHS, widths=ANY_LIMITS)
def test_cap_is_never_exceeded(found: tuple[PathHits, ...], widths: Limits) -> None:
    """No known document has more blocks than the cap."""
    blocks = process(found, widths).blocks
    documents = Counter(block.doc_id for block in blocks if block.doc_id is not None)
    assert all(count <= widths.max_chunks_per_document for count in documents.values())


@given(found=ANY_PATHS, widths=ANY_LIMITS)
def test_cap_takes_out_only_what_has_enough_betters(found: tuple[PathHits, ...], widths: Limits) -> None:
    """With room for everything, a document that lost a chunk has as many blocks as the cap allows."""
    wide = limits(return_n=1_000, max_chunks_per_document=widths.max_chunks_per_document)
    processed = process(found, wide)
    full = {
        doc
        for doc, count in Counter(block.doc_id for block in processed.blocks).items()
        if doc is not None and count == wide.max_chunks_per_document
    }
    uncapped = process(found, limits(return_n=1_000, max_chunks_per_document=1_000)).blocks
    lost = [block for block in uncapped if block.document_id not in keys(processed.blocks)]
    assert {block.doc_id for block in lost} <= full


# Cut


def test_cut_keeps_the_best() -> None:
    """The lowest-ranked blocks go."""
    found = path(*(hit(f"doc{number}", 0, score=number / 10) for number in range(4)))
    processed = process([found], limits(return_n=2))
    assert keys(processed.blocks) == ["doc3#chunk-0", "doc2#chunk-0"]
    assert places(processed.dropped, "over_return_n") == [(0, 2), (0, 1)]


@given(found=ANY_PATHS, widths=ANY_LIMITS)
def test_cut_is_exact(found: tuple[PathHits, ...], widths: Limits) -> None:
    """There are `return_n` blocks, or as many as there are; the cut begins where they are full."""
    processed = process(found, widths)
    cut = places(processed.dropped, "over_return_n")
    assert len(processed.blocks) == widths.return_n if cut else len(processed.blocks) <= widths.return_n


@given(found=ANY_PATHS, widths=ANY_LIMITS, data=st.data())
def test_cut_to_fewer_is_a_prefix(found: tuple[PathHits, ...], widths: Limits, data: st.DataObject) -> None:
    """A smaller `return_n` gives the first blocks of a larger one."""
    fewer = data.draw(st.integers(min_value=1, max_value=widths.return_n))
    narrow = limits(return_n=fewer, max_chunks_per_document=widths.max_chunks_per_document)
    assert process(found, narrow).blocks == process(found, widths).blocks[:fewer]


# All of it


def test_process_of_nothing_is_nothing() -> None:
    """No path and no hit give no block."""
    nothing = Processed(blocks=(), rejected=[], duplicates=[], over_document_cap=[], over_return_n=[])
    assert process([], limits()) == nothing
    assert process([path(), path(query=1)], limits()) == nothing
    assert nothing.retrieved == 0


@given(found=ANY_PATHS, widths=ANY_LIMITS)
def test_process_accounts_for_every_hit(found: tuple[PathHits, ...], widths: Limits) -> None:
    """Every hit is a block's or was dropped, once."""
    processed = process(found, widths)
    went_in = [(one.query, rank) for one in found for rank in range(1, len(one.hits) + 1)]
    came_out = [(block.hit_reasons[0].query, block.hit_reasons[0].rank) for block in processed.blocks]
    came_out += [(drop.query, drop.rank) for drop in processed.dropped]
    assert sorted(came_out) == went_in
    assert processed.retrieved == len(went_in)


@given(found=ANY_PATHS, widths=ANY_LIMITS)
def test_process_accounts_for_every_reason(found: tuple[PathHits, ...], widths: Limits) -> None:
    """The reasons of a block beyond its own are those of the duplicates that were merged into it."""
    processed = process(found, widths)
    merged = Counter(drop.merged_into for drop in processed.dropped if drop.reason == "duplicate")
    for block in processed.blocks:
        assert len(block.hit_reasons) == 1 + merged[block.document_id]
    assert all((drop.merged_into is not None) == (drop.reason == "duplicate") for drop in processed.dropped)


@given(found=ANY_PATHS, widths=ANY_LIMITS)
def test_process_is_idempotent(found: tuple[PathHits, ...], widths: Limits) -> None:
    """The hits of the blocks, processed again, are the same blocks."""
    first = process(found, widths).blocks
    reasons = [block.hit_reasons[0] for block in first]
    hits = {(one.query, rank): of for one in found for rank, of in enumerate(one.hits, start=1)}
    again = process([path(*(hits[reason.query, reason.rank] for reason in reasons))], widths)
    assert again.dropped == ()
    assert keys(again.blocks) == keys(first)
    assert [block.content for block in again.blocks] == [block.content for block in first]
    assert [block.score for block in again.blocks] == [reason.score for reason in reasons]
