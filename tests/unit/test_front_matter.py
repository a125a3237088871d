"""Front matter of Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.indexing.front_matter import split_front_matter


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ("title: Plain", "Plain"),
        ("title: 7", "7"),
        ("title: 2024-05-01", "2024-05-01"),
        ("date: 2024-99-99\ntitle: T", "T"),
        ("title: >\n  two\n  lines", "two lines"),
        ("title: null", None),
        ("title: [a, b]", None),
        ("title: {{ page.title }}", None),
        ("title: '{{ page.title }}'", None),
        ("title: a: b\ntags: [", "a: b"),
        ("# a comment", None),
        ("", None),
        ("tags: [a]", None),
    ],
)
def test_yaml_is_read(fields: str, title: str | None) -> None:
    """A title is its text, whatever YAML makes of it; a template or a mistake costs the title at most."""
    assert split_front_matter(f"---\n{fields}\n---\ntext\n") == (title, "text\n")


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ('title = "Plain"', "Plain"),
        ("title = 7", "7"),
        ("title = 2024-05-01", "2024-05-01"),
        ("[params]\ntitle = 'not this one'", None),
        ("title = 'T'\ndate =", "T"),
        ("# a comment", None),
        ("", None),
    ],
)
def test_toml_is_read(fields: str, title: str | None) -> None:
    """As Hugo writes it, between lines of three plus signs."""
    assert split_front_matter(f"+++\n{fields}\n+++\ntext\n") == (title, "text\n")


@pytest.mark.parametrize(
    "text",
    [
        "---\njust text\n---\n\nmore\n",
        "---\n- a\n- list\n---\n\nmore\n",
        "---\nNote: text with a mistake: in it\nand more text\n---\n",
        "---\ntitle: not closed\n\nmore\n",
        "+++\njust text\n+++\n",
        "text\n---\ntitle: not at the start\n---\n",
        "---",
    ],
)
def test_text_between_rules_stays(text: str) -> None:
    """Nothing that people read is lost."""
    assert split_front_matter(text) == (None, text)


@pytest.mark.parametrize("nested", ["[" * 20_000, "{" * 20_000, "- " * 20_000])
def test_deep_nesting_is_no_error(nested: str) -> None:
    """Whatever the parser makes of it, the document is read."""
    assert split_front_matter(f"---\na: {nested}\n---\ntext")[1].endswith("text")


@given(st.text(alphabet="ab:-+#[]{}'\"\n \t&*!|>%", max_size=60), st.sampled_from(("---", "+++")))
def test_any_text_can_stand_between_rules(fields: str, rule: str) -> None:
    """The text below is never touched."""
    title, body = split_front_matter(f"{rule}\n{fields}\n{rule}\nthe text")
    assert body.endswith("the text")
    assert title is None or title.strip()
