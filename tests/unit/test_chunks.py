"""Markdown into chunks."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.indexing.chunks import (
    MAX_BREADCRUMB_CHARACTERS,
    MAX_CHUNK_CHARACTERS,
    Chunk,
    markdown_chunks,
)
from streams.indexing.markdown import MAX_HEADING_CHARACTERS, fences_are_balanced

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
    assert second.embedding_text == "Title > Section\nSection\nsecond"


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
        ("---\ntitle: 7\n---\ntext\n", "7"),
        ("---\ntitle: 2024-05-01\n---\ntext\n", "2024-05-01"),
        ("+++\ntitle = 2024-05-01\n+++\ntext\n", "2024-05-01"),
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
    "text", ["---\njust text\n---\n\nmore\n", "---\n- one\n- two\n---\n\nmore\n", "+++\nplus\n+++\n\nmore"]
)
def test_rule_that_is_no_front_matter_stays_text(text: str) -> None:
    """Only fields between rules at the very start are front matter."""
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
        assert len(chunk.breadcrumb) <= MAX_BREADCRUMB_CHARACTERS
        assert any(map(str.isalnum, chunk.content))
        assert fences_are_balanced(chunk.content)
    assert markdown_chunks(text, doc_id="d", source="d.md") == chunks


@given(st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), min_size=1, max_size=400))
def test_every_word_is_in_a_chunk(words: list[str]) -> None:
    """Cutting loses nothing."""
    contents = " ".join(content for _, content in cut("# T\n\n" + " ".join(words)))
    assert contents.split() == words


# What Markdown is made of


def contents(text: str, size: int = MAX_CHUNK_CHARACTERS) -> list[str]:
    """Return the content of each chunk."""
    return [chunk.content for chunk in markdown_chunks(text, doc_id="d", source="d.md", size=size)]


def test_long_code_is_divided_between_lines_and_keeps_its_language() -> None:
    """Each part is fenced; the first stands with the words that introduce the code."""
    lines = [f"setting_{number}: value" for number in range(40)]
    pieces = contents("# T\n\nSet these:\n\n```yaml\n" + "\n".join(lines) + "\n```\n\nDone.\n", 200)
    assert pieces[0].startswith("Set these:\n\n```yaml\nsetting_0: value\n")
    assert all("```yaml\n" in piece and piece.count("```") == 2 for piece in pieces)
    assert [line for piece in pieces for line in piece.split("\n") if line.startswith("setting_")] == lines
    assert pieces[-1].endswith("```\n\nDone.")


def test_short_code_stands_with_words_around_it() -> None:
    """A command by itself says little of what it is for."""
    pieces = contents("# T\n\n" + "A sentence of words. " * 38 + "\n\n```sh\nmake\n```\n")
    assert len(pieces) == 2
    assert pieces[1].startswith("A sentence of words.")
    assert pieces[1].endswith("```sh\nmake\n```")


@pytest.mark.parametrize("text", ["# T\n\nwords\n\n```\n\n```\n", "# T\n\nwords\n\n```yaml"])
def test_fence_without_code_is_no_chunk(text: str) -> None:
    """It stands beside words, or nowhere."""
    assert [piece.startswith("words") for piece in contents(text)] == [True]
    assert contents("```yaml\n```\n\n---\n\n![](x.png)\n\n<br>\n") == []


def test_every_part_of_a_table_has_the_header_row() -> None:
    """A row without names of columns says nothing."""
    rows = [f"| key {number} | what it means \\| does |" for number in range(40)]
    pieces = contents("# T\n\n| name | meaning |\n|:-----|--------:|\n" + "\n".join(rows), 300)
    assert all(piece.startswith("| name | meaning |\n| :-- | --: |\n| key ") for piece in pieces)
    assert [line for piece in pieces for line in piece.split("\n")[2:]] == rows


def test_row_that_is_too_long_is_divided_by_cell() -> None:
    """Its cells stay below their names."""
    pieces = contents("| a | b |\n|-|-|\n| key | " + "word " * 100 + "|\n", 200)
    assert len(pieces) > 2
    assert all(piece.startswith("| a | b |\n| --- | --- |\n| ") for piece in pieces)
    assert " ".join(pieces).count("word") == 100


def test_lists_are_divided_between_items() -> None:
    """Nested ones stay with their item where it fits, and are divided like any list where it does not."""
    items = [f"- item {number}\n  1. {'nested ' * 5}{number}" for number in range(10)]
    pieces = contents("\n".join(items), 200)
    assert "\n".join(pieces) == "\n".join(items).replace(" \n", "\n")
    long = contents("1. first\n   - " + "\n   - ".join(f"nested {number}" for number in range(60)), 200)
    assert long[0].startswith("1. first\n- nested 0\n")
    assert all(line.startswith("- nested ") for piece in long[1:] for line in piece.split("\n"))


def test_quotes_stay_quotes() -> None:
    """A callout keeps its kind, and each part its marks."""
    pieces = contents("> [!NOTE]\n" + "\n>\n".join(f"> {'word ' * 30}{number}" for number in range(5)), 300)
    assert pieces[0].startswith("> [!NOTE]\n> word")
    assert all(line.startswith(">") for piece in pieces for line in piece.split("\n"))


@pytest.mark.parametrize(
    "hidden",
    [
        "<!-- a comment -->",
        "<!--\nof several\n\nlines -->",
        "[a link]: https://example.com",
        "[//]: # (a comment)",
        "import Tabs from '@theme/Tabs';\nimport { A,\n  B } from \"./x\"",
        "export const meta = {title: 'x'};",
        "{/* a comment */}",
    ],
)
def test_what_readers_do_not_see_is_left_out(hidden: str) -> None:
    """It is no text of the page."""
    assert contents(f"# T\n\nbefore\n\n{hidden}\n\nafter\n") == ["before\n\nafter"]
    assert contents(f"{hidden}\n") == []


@pytest.mark.parametrize(
    "shown",
    [
        ":::note\n\nText of it.\n\n:::",
        "!!! note\n\n    Text of it.",
        "[^1]: https://example.com",
        "[TODO]: later",
        "<details>\n<summary>More</summary>\n\ntext\n\n</details>",
        "import this module from the shell, as usual",
        "<!-- never closed",
    ],
)
def test_what_readers_see_stays(shown: str) -> None:
    """Admonitions, footnotes, tags with words between them, and what only looks like code."""
    assert contents(f"# T\n\nbefore\n\n{shown}\n") == [f"before\n\n{shown}"]


def test_chunk_has_the_definitions_of_its_links() -> None:
    """Those of other chunks' links are left out."""
    text = "# T\n\nSee [The Page][p] and [q].\n\n## S\n\nmore\n\n[P]: /p\n[q]: /q 'Title'\n[unused]: /u\n"
    assert contents(text) == ["See [The Page][p] and [q].\n\n[P]: /p\n[q]: /q 'Title'", "more"]


def test_tag_right_above_a_fence_hides_no_code() -> None:
    """MDX needs no blank line there."""
    code = "\n\n".join(f"line {number}" for number in range(60))
    pieces = contents(f"<TabItem>\n```js\n{code}\n```\n</TabItem>\n", 200)
    assert all(fences_are_balanced(piece) and piece.count("```js") == 1 for piece in pieces)


def test_heading_of_any_length_is_bounded() -> None:
    """What is over the bound is text: nothing of it is lost, and no breadcrumb is longer than its bound."""
    long = "heading " * 100
    [above, below] = markdown_chunks(f"# {long}\n\n{'#' * 2} Sub\n\ntext", doc_id="d", source="d.md")
    assert len(above.title or "") <= MAX_HEADING_CHARACTERS
    assert above.content.split() == long.split()
    assert (below.breadcrumb or "").endswith("… > Sub")
    deep = "".join(f"{'#' * level} {level} {'long ' * 35}\n\n" for level in range(1, 7))
    [chunk] = markdown_chunks(f"{deep}text", doc_id="d", source="d.md")
    assert len(chunk.breadcrumb or "") <= MAX_BREADCRUMB_CHARACTERS
    assert " > … > " in (chunk.breadcrumb or "")


def test_long_text_above_a_rule_is_no_heading() -> None:
    """Whoever wrote it meant a rule."""
    [(breadcrumb, content)] = cut("# T\n\n" + "log line " * 30 + "\n---\n\nAfterwards.\n")
    assert breadcrumb == "T"
    assert content.endswith("Afterwards.")


def test_ids_of_headings_are_no_words() -> None:
    """Documentation generators take them off as well."""
    assert cut("# T\n\n## Section {#its-id}\n\ntext") == [("T > Section", "text")]


BLOCKS = st.sampled_from(
    (
        *("word{n} and more words{n}. ", "- item{n}\n  - nested{n}", "> quoted{n}\n> > twice{n}"),
        *("```py\ncode{n} = 1\n```", "| a{n} | b{n} |\n|-|-|\n| c{n} | d{n} |", "1. first{n}\n\n   more{n}"),
        *(
            "    indented{n}",
            "## heading{n}",
            "text{n}\n---",
            "~~~\nopen{n}",
            "- ```\n  initem{n}",
            "> ```\n> q{n}",
        ),
        *(
            "<div>\nhtml{n}\n</div>",
            ":::tip\ninside{n}\n:::",
            "`````\n```\ninner{n}\n`````",
            "!!! note\n\n    x{n}",
        ),
    )
)


@given(
    st.lists(st.tuples(BLOCKS, st.integers(1, 60)), min_size=1, max_size=12), st.sampled_from((100, 230, 800))
)
def test_every_word_of_any_markdown_stands_in_a_piece(blocks: list[tuple[str, int]], size: int) -> None:
    """However blocks follow each other: no word is lost, no piece is too long or without words."""
    texts = [
        "\n".join([block.format(n=f"q{number}z{again}") for again in range(count)])
        for number, (block, count) in enumerate(blocks)
    ]
    text = "\n\n".join(texts)
    chunks = markdown_chunks(text, doc_id="d", source="d.md", size=size)
    shown = set(re.findall(r"\w+", "\n".join(f"{chunk.breadcrumb}\n{chunk.content}" for chunk in chunks)))
    markup = {"py", "1"}
    missing = set(re.findall(r"\w+", text)) - shown - markup
    assert missing == set()
    for chunk in chunks:
        assert len(chunk.content) <= size
        assert any(map(str.isalnum, chunk.content))
        assert fences_are_balanced(chunk.content)


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "word ",
        "`",
        "*a_ ",
        "[",
        "> ",
        "- ",
        "```\n",
        "<a ",
        "<!--",
        "|",
        "a\n",
        "[a]: /b\n",
        "# a\n",
        "&",
    ],
)
def test_time_grows_with_the_length_of_the_text(part: str) -> None:
    """Eight times the text takes about eight times as long, not sixty-four times, however it is made."""
    short, long = (_seconds(part * (length // len(part))) for length in (12_500, 100_000))
    assert long < 30 * max(short, 0.01)


def _seconds(text: str) -> float:
    """Return the processor time that a text takes, the shortest of three."""
    times = []
    for _ in range(3):
        began = time.process_time()
        markdown_chunks(text, doc_id="d", source="d.md")
        times.append(time.process_time() - began)
    return min(times)
