"""What the README says of the settings is what the code has."""

from __future__ import annotations

from pathlib import Path

from streams.observability.catalogue import METRICS
from streams.settings.model import Settings
from streams.settings.sources import setting_keys
from streams.wire.requests import LookupRequest, RequestedBudget
from tests.support.contract import check_recording, check_result
from tests.support.readme import README, blocks, text_of

ROOT = Path(__file__).parents[2]


def test_the_settings_table_is_that_of_the_code() -> None:
    """Every key with its default and meaning; `python -m tests.unit.test_readme` writes the table anew."""
    assert _between("settings", README.read_text(encoding="utf-8")) == settings_table()


def test_the_metrics_table_is_that_of_the_code() -> None:
    """Every metric with its labels and meaning; the same command writes it anew."""
    assert _between("metrics", README.read_text(encoding="utf-8")) == metrics_table()


def test_every_block_is_run() -> None:
    """What can be run is run by the gate or by a test, which asks for it by name."""
    runnable = [block for block in blocks() if block.language]
    assert [(block.line, block.language) for block in runnable if block.runner not in {"run", "test"}] == []
    names = [(block.runner, str(block.name)) for block in runnable]
    assert len(set(names)) == len(names)
    files = (file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    tests = "".join(text for text in files if "text_of" in text)
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for runner, name in names:
        assert f'"{name}"' in tests if runner == "test" else name in gate, name


def test_result_in_the_readme_is_in_the_contract() -> None:
    """The example of a result is one that the stage may write."""
    value = text_of("result").encode()
    headers = (("lookup-request-id", b"r-1"), ("lookup-status", b"ok"), ("content-type", b"application/json"))
    check_result(value, headers)


def test_recording_in_the_readme_is_in_the_contract() -> None:
    """So is the example of a recording."""
    check_recording(text_of("recording").encode())


def test_every_field_of_a_request_is_explained() -> None:
    """The table of fields knows them all, those of the budget too."""
    table = README.read_text(encoding="utf-8").partition("### Requests")[2].partition("### Results")[0]
    fields = (*LookupRequest.model_fields, *RequestedBudget.model_fields)
    assert [name for name in fields if f"`{name}`" not in table] == []


def settings_table() -> str:
    """Make the table out of the settings' own declarations."""
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for key, field in setting_keys(Settings).items():
        shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
        default = "-" if field.default is None else f"`{shown}`"
        rows.append(f"| `{key}` | {default} | {field.description} |")
    return "\n".join(rows) + "\n"


def metrics_table() -> str:
    """Make the table out of the catalogue."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        values = f": {', '.join(f'`{value}`' for value in metric.values)}" if metric.values else ""
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels}{values} | {metric.meaning} |")
    return "\n".join(rows) + "\n"


TABLES = {"settings": settings_table, "metrics": metrics_table}


def _between(name: str, text: str) -> str:
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]


if __name__ == "__main__":
    for name, table in TABLES.items():
        text = README.read_text(encoding="utf-8")
        begin = f"<!-- {name} -->\n"
        README.write_text(text.replace(begin + _between(name, text), begin + table()), encoding="utf-8")
