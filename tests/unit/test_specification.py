"""The specification's scenarios, each under the specification's own words.

What else there is to say about a rule stands in the test file of the module that holds it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import orjson
import pytest

from pipeline.lookup import LookupPipeline
from pipeline.model import Evidence, HitReason, Limits, Outcome, PathHits, SearchHit, SearchQuery
from pipeline.outcome import conclude
from pipeline.processor import process
from pipeline.projector import project
from streams.settings.loading import load
from streams.settings.model import Settings
from streams.settings.sources import CONFIG_FILE_VARIABLE, environment_name, setting_keys
from tests.builders import (
    FakeSearch,
    answer,
    answering,
    block,
    budget,
    hit,
    hit_with,
    limits,
    lookup,
    path,
)

ROOT = Path(__file__).parents[2]


def outcome(*hits: SearchHit, widths: Limits | None = None) -> Outcome:
    """Conclude the hits of one path under the default budget."""
    return conclude([answer(*hits)], limits=widths or limits(), budget=budget())


def keys(evidence: Sequence[Evidence]) -> list[str]:
    """Return the evidence's keys, in rank order."""
    return [item.document_id for item in evidence]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return an environment in which no setting is set."""
    for name in (CONFIG_FILE_VARIABLE, *map(environment_name, setting_keys(Settings))):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def widths_with(environment: pytest.MonkeyPatch, variables: Mapping[str, str]) -> Limits:
    """Load the configured widths with some variables set."""
    for name, value in variables.items():
        environment.setenv(name, value)
    return load().rag.limits


# Identity


@pytest.mark.parametrize("doc_field", ["docId", "doc_id"])
@pytest.mark.parametrize("chunk_field", ["chunkIndex", "chunk_index"])
def test_identity_from_metadata_doc_id_and_chunk_index(doc_field: str, chunk_field: str) -> None:
    """Identity from metadata: `docId` or `doc_id` and `chunkIndex` or `chunk_index`.

    They give `docId`, `chunkIndex`, and `evidenceKey` = `docId#chunk-{chunkIndex}`.
    """
    [item] = outcome(hit_with(id=7, metadata={doc_field: "docA", chunk_field: 2})).evidence
    assert (item.doc_id, item.chunk_index, item.document_id) == ("docA", 2, "docA#chunk-2")


def test_without_chunk_index_but_with_a_vector_id_vector_id() -> None:
    """Without chunk index but with a vector id: `vector:{id}`."""
    [item] = outcome(hit("docA", row_id=449_363_921_044_373_505)).evidence
    assert (item.doc_id, item.chunk_index) == ("docA", None)
    assert item.document_id == "vector:449363921044373505"


# Duplicates


def test_two_candidates_are_duplicates_only_when_they_share_the_evidence_key() -> None:
    """Two candidates are duplicates only when they share the `evidenceKey`."""
    rows = [hit("docA", chunk, row_id=row, source="a.md") for chunk, row in ((0, 1), (0, 2), (1, 1))]
    found = outcome(*rows)
    assert keys(found.evidence) == ["docA#chunk-0", "docA#chunk-1"]
    assert [(drop.rank, drop.merged_into) for drop in found.dropped] == [(2, "docA#chunk-0")]
    assert len({item.content for item in found.evidence}) == 1


def test_different_chunks_of_one_source_stay_separate_blocks_subject_to_the_per_document_cap() -> None:
    """Different chunks of one source stay separate blocks, subject to the per-document cap."""
    chunks = [hit("docA", chunk, source="runbooks/a.md") for chunk in range(3)]
    assert keys(outcome(*chunks, widths=limits(max_chunks_per_document=3)).evidence) == [
        "docA#chunk-0",
        "docA#chunk-1",
        "docA#chunk-2",
    ]
    assert keys(outcome(*chunks).evidence) == ["docA#chunk-0", "docA#chunk-1"]


def test_of_true_duplicates_one_block_stays_with_the_higher_ranked_content_hit_reasons_merge() -> None:
    """Of true duplicates one block stays, with the higher-ranked content; hit reasons merge."""
    answers = [
        answer(hit("docA", 0, score=0.4, content="older")),
        answer(hit("docA", 0, score=0.8, content="newer"), query=1),
    ]
    [item] = conclude(answers, limits=limits(), budget=budget()).evidence
    assert (item.content, item.score) == ("newer", 0.8)
    assert item.hit_reasons == (
        HitReason(query=1, rank=1, score=0.8),
        HitReason(query=0, rank=1, score=0.4),
    )


# Widths


def test_rag_max_chunks_per_document_default_2(environment: pytest.MonkeyPatch) -> None:
    """`rag.max-chunks-per-document` (default 2)."""
    assert widths_with(environment, {}).max_chunks_per_document == 2
    assert widths_with(environment, {"RAG_MAX_CHUNKS_PER_DOCUMENT": "3"}).max_chunks_per_document == 3


@pytest.mark.parametrize("most", [1, 2, 3])
def test_of_the_ranked_chunks_of_one_doc_id_only_the_top_n_by_score_remain(
    environment: pytest.MonkeyPatch, most: int
) -> None:
    """Of the ranked chunks of one docId only the top N by score remain."""
    widths = widths_with(environment, {"RAG_MAX_CHUNKS_PER_DOCUMENT": str(most)})
    chunks = [hit("docA", chunk, score=score) for chunk, score in enumerate((0.1, 0.9, 0.3, 0.7))]
    found = outcome(*chunks, hit("docB", 0, score=0.2), widths=widths)
    assert keys(found.evidence) == [*["docA#chunk-1", "docA#chunk-3", "docA#chunk-2"][:most], "docB#chunk-0"]
    assert found.ledger.over_document_cap == 4 - most


async def test_rag_retrieve_k_is_the_recall_width(environment: pytest.MonkeyPatch) -> None:
    """`rag.retrieve-k` is the recall width."""
    search = FakeSearch({"disk full": answering()})
    widths = widths_with(environment, {"RAG_RETRIEVE_K": "33"})
    await LookupPipeline(search, None).run(lookup("disk full", widths=widths), timeout_s=10)
    assert [query.limit for query in search.asked] == [33]


def test_rag_return_n_is_the_most_blocks_after_post_processing(environment: pytest.MonkeyPatch) -> None:
    """`rag.return-n` is the most blocks after post-processing."""
    widths = widths_with(environment, {"RAG_RETURN_N": "3"})
    for count, blocks in ((2, 2), (3, 3), (4, 3)):
        found = path(*(hit(f"doc{number}", 0) for number in range(count)))
        assert len(process([found], widths).blocks) == blocks


@pytest.mark.parametrize(
    ("variables", "retrieve_k", "return_n"),
    [
        pytest.param({"RAG_TOP_K": "8"}, 8, 8, id="both absent"),
        pytest.param({"RAG_TOP_K": "8", "RAG_RETRIEVE_K": "30"}, 30, 8, id="return-n absent"),
        pytest.param({"RAG_TOP_K": "8", "RAG_RETURN_N": "4"}, 8, 4, id="retrieve-k absent"),
        pytest.param(
            {"RAG_TOP_K": "8", "RAG_RETRIEVE_K": "30", "RAG_RETURN_N": "4"}, 30, 4, id="none absent"
        ),
        pytest.param({}, 20, 5, id="all absent"),
    ],
)
def test_rag_top_k_is_the_legacy_fallback_where_the_new_keys_are_absent(
    environment: pytest.MonkeyPatch, variables: dict[str, str], retrieve_k: int, return_n: int
) -> None:
    """`rag.top-k` is the legacy fallback where the new keys are absent."""
    widths = widths_with(environment, variables)
    assert (widths.retrieve_k, widths.return_n) == (retrieve_k, return_n)


async def test_with_20_and_5_the_port_is_asked_for_up_to_20_and_at_most_5_blocks_come_out(
    environment: pytest.MonkeyPatch,
) -> None:
    """With 20 and 5 the port is asked for up to 20, and at most 5 blocks come out."""
    widths = widths_with(environment, {"RAG_RETRIEVE_K": "20", "RAG_RETURN_N": "5"})
    search = FakeSearch({"disk full": answering(*(hit(f"doc{number}", 0) for number in range(20)))})
    answered = await LookupPipeline(search, None).run(lookup("disk full", widths=widths), timeout_s=10)
    assert [query.limit for query in search.asked] == [20]
    assert answered.outcome.ledger.retrieved == 20
    assert keys(answered.outcome.evidence) == [f"doc{number}#chunk-0" for number in range(5)]


# Projection


def test_the_projector_deduplicates_by_chunk_identity() -> None:
    """The projector deduplicates by chunk identity."""
    twice = [block(hit("docA", 0, source=source)) for source in ("runbooks/a.md", "runbooks/copy-of-a.md")]
    projected = project(twice, budget())
    assert keys(projected.evidence) == ["docA#chunk-0"]
    assert [drop.reason for drop in projected.dropped] == ["duplicate"]


def test_the_projector_never_drops_a_chunk_because_its_source_matches() -> None:
    """The projector never drops a chunk because its `source` matches."""
    blocks = [block(hit("docA", chunk, source="runbooks/a.md")) for chunk in range(4)]
    projected = project(blocks, budget())
    assert [item.source for item in projected.evidence] == ["runbooks/a.md"] * 4
    assert projected.dropped == ()


@pytest.mark.parametrize(
    "found",
    [hit("docA", 2), hit("docA", row_id=7), hit(content="no id at all")],
    ids=["chunk", "row", "text"],
)
def test_the_projectors_document_id_is_the_evidence_key(found: SearchHit) -> None:
    """The projector's `document_id` is the evidence key."""
    [item] = project([block(found)], budget()).evidence
    assert item.document_id == block(found).document_id


# Ports


async def test_the_pipeline_reaches_the_search_only_through_knowledge_search_port() -> None:
    """The pipeline reaches the search only through `KnowledgeSearchPort`.

    It works with any object that has the port's methods, and where pymilvus cannot be imported: only adapters
    need it.
    """
    search = FakeSearch({"disk full": answering(hit("docA", 0))})
    answered = await LookupPipeline(search, None).run(lookup("disk full"), timeout_s=10)
    assert keys(answered.outcome.evidence) == ["docA#chunk-0"]
    program = f"""
import importlib, pathlib, sys
sys.path.insert(0, {str(ROOT)!r})
sys.modules["pymilvus"] = None
root = pathlib.Path({str(ROOT)!r})
for file in sorted((root / "pipeline").rglob("*.py")):
    if "adapters" not in file.parts:
        importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))
"""
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], check=True, timeout=120)


# Lessons


def test_chunk_index_0_and_score_0_0_are_values() -> None:
    """Chunk index 0 and score 0.0 are values."""
    [item] = outcome(hit("docA", 0, score=0.0, row_id=7)).evidence
    assert (item.document_id, item.chunk_index, item.score) == ("docA#chunk-0", 0, 0.0)
    assert item.hit_reasons == (HitReason(query=0, rank=1, score=0.0),)


def test_1_1_and_1_0_are_one_index_true_is_none() -> None:
    """`1`, `"1"` and `1.0` are one index; `true` is none."""
    found = outcome(*(hit("docA", chunkIndex=index, row_id=7) for index in (1, "1", 1.0, True)))
    assert [(item.document_id, item.chunk_index) for item in found.evidence] == [
        ("docA#chunk-1", 1),
        ("vector:7", None),
    ]
    assert found.ledger.duplicates == 2


def test_a_duplicate_must_not_use_up_a_documents_places() -> None:
    """A duplicate must not use up a document's places."""
    found = [hit("docA", 0, score=0.9), hit("docA", 0, score=0.8), hit("docA", 1, score=0.7)]
    assert keys(outcome(*found, widths=limits(max_chunks_per_document=2)).evidence) == [
        "docA#chunk-0",
        "docA#chunk-1",
    ]


def test_a_documents_missing_id_must_not_make_all_such_rows_one_document() -> None:
    """A document's missing id must not make all such rows one document."""
    rows = [hit(None, chunk, row_id=chunk) for chunk in range(4)]
    assert len(outcome(*rows, widths=limits(max_chunks_per_document=1)).evidence) == 4


async def test_which_path_answered_first_must_not_decide_what_an_agent_reads() -> None:
    """Which path answered first must not decide what an agent reads."""
    found = {
        "a": [hit("docA", 0, score=0.5, content="a"), hit("docA", 1, score=0.5, content="a")],
        "b": [hit("docA", 0, score=0.5, content="b"), hit("docB", 0, score=0.5, content="b")],
        "c": [hit("docB", 0, score=0.5, content="c"), hit("docA", 2, score=0.5, content="c")],
    }
    outcomes = set()
    for order in permutations(found):
        answered = {text: asyncio.Event() for text in found}
        before = dict(zip(order[1:], order, strict=False))

        async def reply(
            query: SearchQuery,
            answered: Mapping[str, asyncio.Event] = answered,
            before: Mapping[str, str] = before,
        ) -> Sequence[SearchHit]:
            if query.text in before:
                await answered[before[query.text]].wait()
            answered[query.text].set()
            return found[query.text]

        ran = await LookupPipeline(FakeSearch(dict.fromkeys(found, reply)), None).run(
            lookup(*found), timeout_s=10
        )
        assert ran.outcome.status == "ok"
        outcomes.add(orjson.dumps(ran.outcome))
    assert len(outcomes) == 1
    paths = [PathHits(query=query, hits=tuple(hits)) for query, hits in enumerate(found.values())]
    assert len({orjson.dumps(process(order, limits()).blocks) for order in permutations(paths)}) == 1


def test_the_best_hit_may_be_longer_than_the_whole_budget() -> None:
    """The best hit may be longer than the whole budget: shorten and mark it, never return nothing."""
    best = block(hit("docA", 0, content="Restart the consumer. " * 100))
    for total in (100, 5, 1):
        [item] = project([best], budget(max_total_chars=total, min_chars_per_item=200)).evidence
        assert item.truncated
        assert 1 <= len(item.content) <= total
        assert best.content.startswith(item.content)


def test_asking_for_fewer_results_must_not_reorder_them() -> None:
    """Asking for fewer results must not reorder them."""
    found = [hit(f"doc{number % 4}", number, score=(number * 7 % 5) / 5) for number in range(12)]
    every = keys(outcome(*found, widths=limits(return_n=12)).evidence)
    assert len(every) == 8
    for fewer in range(1, 12):
        assert keys(outcome(*found, widths=limits(return_n=fewer)).evidence) == every[:fewer]
