"""README and pages: every code block is run, and what they say about the code is what the code has.

`python -m tests.unit.test_readme` writes the generated tables.
"""

from __future__ import annotations

import pytest

from streams.observability.catalogue import METRICS
from streams.settings.model import Settings
from streams.settings.sources import setting_keys
from streams.wire.requests import LookupRequest, RequestedBudget
from tests.support.contract import check_recording, check_result
from tests.support.pages import README, ROOT, SITE, blocks, named, text_of

README_MAX_BYTES = 12 * 1_024


def settings_table() -> str:
    """Return a table for each group of settings, out of their own declarations."""
    lines: list[str] = []
    group = ""
    for key, field in setting_keys(Settings).items():
        if key.partition(".")[0] != group:
            group = key.partition(".")[0]
            lines += ["", f"### {group}", "", "| key | default | meaning |", "|---|---|---|"]
        shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
        default = "-" if field.default is None else f"`{shown}`"
        lines.append(f"| `{key}` | {default} | {field.description} |")
    return "\n".join([*lines, "", ""])


def metrics_table() -> str:
    """Return the table of the catalogue."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        values = f": {', '.join(f'`{value}`' for value in metric.values)}" if metric.values else ""
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels}{values} | {metric.meaning} |")
    return "\n".join(rows) + "\n"


TABLES = {
    "settings": (SITE / "settings.md", settings_table),
    "metrics": (SITE / "observability.md", metrics_table),
}


@pytest.mark.parametrize("name", TABLES)
def test_table_is_that_of_the_code(name: str) -> None:
    """Every setting and every metric is there; `python -m tests.unit.test_readme` writes the tables."""
    page, table = TABLES[name]
    assert _between(name, page.read_text(encoding="utf-8")) == table()


def test_readme_is_short() -> None:
    """Everything else is on the pages."""
    assert README.stat().st_size <= README_MAX_BYTES


def test_every_block_is_run() -> None:
    """Every code block is run by the gate or by a test that asks for it by name."""
    runnable = [block for block in blocks() if block.runnable]
    unmarked = [(named(block.page), block.line) for block in runnable if block.runner not in {"run", "test"}]
    assert unmarked == []
    assert len(runnable) > 15
    files = (file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    tests = "".join(text for text in files if "text_of" in text)
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    by_gate = {block.name for block in blocks(README) if block.runner == "run"}
    for block in runnable:
        if block.runner == "test":
            assert f'"{block.name}"' in tests, block.name
        else:
            assert block.name in by_gate, block.name
            assert str(block.name) in gate, block.name


def test_blocks_of_one_name_are_the_same() -> None:
    """Whichever page shows a command, the one that is run is the same."""
    texts: dict[str | None, set[str]] = {}
    for block in blocks():
        if block.runnable:
            texts.setdefault(block.name, set()).add(block.text)
    assert {name: len(found) for name, found in texts.items() if len(found) > 1} == {}


def test_result_on_its_page_is_in_the_contract() -> None:
    """The example is a result that the stage may write."""
    value = text_of("result").encode()
    headers = (("lookup-request-id", b"r-1"), ("lookup-status", b"ok"), ("content-type", b"application/json"))
    check_result(value, headers)


def test_recording_on_its_page_is_in_the_contract() -> None:
    """The example is a recording that the stage may write."""
    check_recording(text_of("recording").encode())


def test_every_field_of_a_request_is_explained() -> None:
    """The table of fields has every field of a request and of its budget."""
    text = (SITE / "requests-and-results.md").read_text(encoding="utf-8")
    table = text.partition("## Requests")[2].partition("## Results")[0]
    fields = (*LookupRequest.model_fields, *RequestedBudget.model_fields)
    assert [name for name in fields if f"`{name}`" not in table] == []


def _between(name: str, text: str) -> str:
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]


if __name__ == "__main__":
    for name, (page, table) in TABLES.items():
        text = page.read_text(encoding="utf-8")
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        page.write_text(before + begin + table() + end + after, encoding="utf-8")
