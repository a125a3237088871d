"""Markdown into chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.indexing.chunks import MAX_CHUNK_CHARACTERS, Chunk, markdown_chunks

MARKDOWN = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(
            (
                *("# Title", "## Section", "### Sub", "#", "Setext", "===", "---", "title: front"),
                *("```", "~~~", "> # quoted", "- # item", "    # code", "<!-- # -->"),
                *("", " ", "\r", "word " * 400, "x" * 2_000),
            )
        ),
    ),
    max_size=25,
).map("\n".join)


def cut(text: str) -> list[tuple[str | None, str]]:
    """Return breadcrumb and content of each chunk."""
    return [
        (chunk.breadcrumb, chunk.content) for chunk in markdown_chunks(text, doc_id="d", source="dir/d.md")
    ]


def test_chunk_knows_its_document_and_place() -> None:
    """Every chunk carries what its identity and its evidence are made of."""
    first, second = markdown_chunks(
        "# Title\n\nfirst\n\n## Section\n\nsecond\n", doc_id="dir/d", source="dir/d.md"
    )
    assert first == Chunk(
        doc_id="dir/d",
        chunk_index=0,
        content="first",
        source="dir/d.md",
        title="Title",
        breadcrumb="Title",
    )
    assert (second.chunk_index, second.breadcrumb) == (1, "Title > Section")
    assert second.key == "dir/d#chunk-1"
    assert second.metadata == {
        "docId": "dir/d",
        "chunkIndex": 1,
        "source": "dir/d.md",
        "title": "Title",
        "breadcrumb": "Title > Section",
    }
    assert second.embedding_text == "Title > Section\nsecond"


def test_metadata_have_no_unknown_fields() -> None:
    """What is not known is left out; further metadata never replace the chunk's own."""
    chunk = Chunk(doc_id="d", chunk_index=0, content="text", extra={"team": "blue", "docId": "another"})
    assert chunk.metadata == {"docId": "d", "chunkIndex": 0, "team": "blue"}
    assert chunk.embedding_text == "text"


def test_breadcrumb_holds_the_headings_above() -> None:
    """A deeper heading goes below, one of the same level takes the place of the one before."""
    text = "# T\n\na\n\n## One\n\nb\n\n### Deep\n\nc\n\n## Two\n\nd\n\n# Other\n\ne\n"
    assert cut(text) == [
        ("T", "a"),
        ("T > One", "b"),
        ("T > One > Deep", "c"),
        ("T > Two", "d"),
        ("T > Other", "e"),
    ]


def test_heading_stands_in_no_content() -> None:
    """A heading is said once, in the breadcrumb, and sections without text of their own leave no chunk."""
    assert cut("# T\n\n## Empty above\n\n### Full\n\ntext\n") == [("T > Empty above > Full", "text")]


def test_section_that_is_a_heading_only_is_one_chunk() -> None:
    """Nothing of a document is lost: a heading with nothing below it is content."""
    assert cut("# T\n\ntext\n\n## To be written\n") == [("T", "text"), ("T > To be written", "To be written")]
    assert cut("# Lonely") == [("Lonely", "Lonely")]


@pytest.mark.parametrize(
    "text",
    [
        "# T\n\n```\n# no heading\n```\n",
        "# T\n\n~~~bash\n## no heading\n~~~\n",
        "# T\n\n    # no heading\n",
        "# T\n\n> # no heading\n",
        "# T\n\n- # no heading\n",
        "# T\n\n#no heading\n",
    ],
)
def test_hash_that_is_no_heading_divides_nothing(text: str) -> None:
    """Comments in code, quotes and lists are not sections."""
    [(breadcrumb, content)] = cut(text)
    assert breadcrumb == "T"
    assert "no heading" in content


def test_underlined_heading_is_one() -> None:
    """Both forms of a heading count, with their markup taken out."""
    assert cut("Big *and* `bold`\n===\n\na\n\nSmall\n---\n\nb\n") == [
        ("Big and bold", "a"),
        ("Big and bold > Small", "b"),
    ]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n## Section\n\n# The title\n\ntext\n", "The title"),
        ("---\ntitle: From front matter\n---\n\n# From heading\n\ntext\n", "From heading"),
        ("---\ntitle: From front matter\ntags: [a]\n---\ntext\n", "From front matter"),
        ("---\ntitle: 7\n---\ntext\n", "d"),
        ("---\ntags: [a]\n---\n\ntext\n", "d"),
        ("#\n\ntext\n", "d"),
        ("text\n", "d"),
    ],
)
def test_title_is_heading_or_front_matter_or_file(text: str, title: str) -> None:
    """The first heading of the first level wins, then the front matter, then the file's name."""
    chunks = markdown_chunks(text, doc_id="dir/d", source="dir/d.md")
    assert {chunk.title for chunk in chunks} == {title}
    assert all((chunk.breadcrumb or "").startswith(title) for chunk in chunks)
    assert not any("From front matter" in chunk.content for chunk in chunks)


@pytest.mark.parametrize(
    "text", ["---\njust text\n---\n\nmore\n", "---\na: [\n---\n\nmore\n", "---\nd: 2024-99-99\n---\n\nmore"]
)
def test_rule_that_is_no_front_matter_stays_text(text: str) -> None:
    """Only a mapping between rules at the very start is front matter."""
    assert any("more" in content for _, content in cut(text))
    assert cut(text) != cut("more")


def test_long_section_is_cut_where_its_markdown_breaks() -> None:
    """Chunks stay within their length, and paragraphs whole where they fit."""
    paragraphs = [f"{number} {'word ' * 60}".strip() for number in range(10)]
    contents = [content for _, content in cut("# T\n\n" + "\n\n".join(paragraphs))]
    assert len(contents) == 5
    assert "\n\n".join(contents) == "\n\n".join(paragraphs)


def test_line_ends_do_not_matter() -> None:
    """A document has the same chunks whichever system wrote it, and whether or not it begins with a mark."""
    text = "# T\n\na\nb\n\n## S\n\nc\n"
    assert cut("\ufeff" + text.replace("\n", "\r\n")) == cut(text)


@pytest.mark.parametrize("text", ["", "\n \n", "---\ntitle: T\n---\n", "\ufeff"])
def test_blank_document_has_no_chunks(text: str) -> None:
    """There is nothing to find in it."""
    assert cut(text) == []


@given(MARKDOWN)
def test_chunks_are_well_formed(text: str) -> None:
    """Whatever the text: places count from 0, no content is blank or too long, equal text cuts equally."""
    chunks = markdown_chunks(text, doc_id="d", source="d.md")
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert chunk.content.strip()
        assert len(chunk.content) <= MAX_CHUNK_CHARACTERS
        assert chunk.breadcrumb
        assert chunk.breadcrumb.startswith(chunk.title or "")
    assert markdown_chunks(text, doc_id="d", source="d.md") == chunks


@given(st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), min_size=1, max_size=400))
def test_every_word_is_in_a_chunk(words: list[str]) -> None:
    """Cutting loses nothing."""
    contents = " ".join(content for _, content in cut("# T\n\n" + " ".join(words)))
    assert contents.split() == words
