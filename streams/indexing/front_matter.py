"""Front matter: the fields above a Markdown document's text, in YAML or TOML."""

from __future__ import annotations

import re
import tomllib

import yaml

YAML_RULE, TOML_RULE = "---", "+++"

_YAML_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_TOML_END = re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE)

_YAML_KEY = re.compile(r"[\"']?[\w$][\w .$/-]*[\"']?[ \t]*:(?=[ \t]|$)")
_TOML_KEY = re.compile(r"[\"']?\w[\w .-]*[\"']?[ \t]*=|\[")
_OTHER_LINE = re.compile(r"#|-[ \t]|-$|[ \t]|\{[{%#]|[\]}]")
"""How lines of fields begin, by which fields with a mistake in them are told from text between rules."""

_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(?P<title>.*)$", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{|\{%|<%")
_YAML_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


def split_front_matter(text: str) -> tuple[str | None, str]:
    """Separate a document's front matter from its text.

    Front matter stands between `---` and `---` (YAML) or `+++` and `+++` (TOML), from the first line on. It
    may be empty, consist of comments, or have a mistake in it; text between rules is not front matter.

    Args:
        text: The document, with line feeds only.

    Returns:
        The title, and the text below the front matter. The title is the text of a string, number or date; it
        is `None` where there is none, or where it is a template that another program would have filled in.
    """
    first, _, rest = text.partition("\n")
    rule = first.rstrip(" \t")
    if rule not in (YAML_RULE, TOML_RULE):
        return None, text
    closing = (_YAML_END if rule == YAML_RULE else _TOML_END).search(rest)
    if closing is None:
        return None, text
    fields, body = rest[: closing.start()], rest[closing.end() :].removeprefix("\n")
    read, key = (_yaml, _YAML_KEY) if rule == YAML_RULE else (_toml, _TOML_KEY)
    try:
        title = read(fields)
    except _OtherText:
        return None, text
    except ValueError:
        if not _looks_like_fields(fields, key):
            return None, text
        title = _title_of_broken(fields)
    return _usable_title(title), body


class _OtherText(Exception):
    """What stands between the rules can be read, and is not a set of fields."""


def _yaml(fields: str) -> object:
    """Return the title.

    Raises:
        ValueError: The fields are not YAML.
        _OtherText: They are YAML of something else than fields.
    """
    try:
        # Every scalar is its own text to this loader: a title that looks like a number or a date, or a date
        # that does not exist, needs no rule of its own.
        values = yaml.load(fields, Loader=yaml.BaseLoader)  # noqa: S506 - it makes text, lists and dicts only
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ValueError from error
    if isinstance(values, dict):
        title = values.get("title")
        return None if isinstance(title, str) and title in _YAML_NULLS else title
    if all(each.startswith("#") for each in _lines(fields)):
        return None
    raise _OtherText


def _toml(fields: str) -> object:
    try:
        return tomllib.loads(fields).get("title")
    except RecursionError as error:
        raise ValueError from error


def _looks_like_fields(fields: str, key: re.Pattern[str]) -> bool:
    lines = _lines(fields)
    return any(map(key.match, lines)) and all(key.match(each) or _OTHER_LINE.match(each) for each in lines)


def _lines(fields: str) -> list[str]:
    return [each for each in fields.split("\n") if each.strip()]


def _title_of_broken(fields: str) -> str | None:
    match = _TITLE.search(fields)
    return match["title"].strip().strip("\"'") if match else None


def _usable_title(title: object) -> str | None:
    if title is None or isinstance(title, dict | list):
        return None
    text = " ".join(str(title).split())
    return text if text and not _TEMPLATE.search(text) else None
