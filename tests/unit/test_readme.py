"""What the README says of the settings is what the code has."""

from __future__ import annotations

from pathlib import Path

from streams.setting_sources import setting_keys
from streams.settings import Settings

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->"


def test_the_settings_table_is_that_of_the_code() -> None:
    """Every key with its default and meaning; `python -m tests.unit.test_readme` writes the table anew."""
    assert _between(README.read_text(encoding="utf-8")) == settings_table()


def settings_table() -> str:
    """Makes the table out of the settings' own declarations."""
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for key, field in setting_keys(Settings).items():
        default = "-" if field.default is None else f"`{field.default}`"
        rows.append(f"| `{key}` | {default} | {field.description} |")
    return "\n".join(rows) + "\n"


def _between(text: str) -> str:
    return text.partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    README.write_text(text.replace(BEGIN + _between(text), BEGIN + settings_table()), encoding="utf-8")
