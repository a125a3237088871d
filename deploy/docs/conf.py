"""How the pages become a site: `python -m sphinx -W --keep-going deploy/docs build/docs`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

project = "lookup-stage"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser"]
myst_heading_anchors = 4
highlight_language = "text"  # of blocks that name none

html_theme = "furo"
html_title = f"{project} {release}"
html_favicon = "../pictures/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

INCLUDED = {"RUNBOOK.md": "runbook.md", "LICENSES.md": "licences.md", "CHANGELOG.md": "changes.md"}
"""Files outside this folder that are pages of the site; links to them lead to those pages."""

LINK = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, INCLUDED))})")


def setup(app: Any) -> None:
    """Have Sphinx rewrite each page as it is read."""
    app.connect("source-read", _link_to_pages)


def _link_to_pages(_app: Any, page: str, source: list[str]) -> None:
    up = "../" * page.count("/")
    source[0] = LINK.sub(lambda link: f"]({up}{INCLUDED[link[1]]}", source[0])
