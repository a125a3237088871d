"""The pages as a site: built without a warning, searchable, and loading nothing from elsewhere."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.browser import chromium
from tests.support.pages import ROOT, SITE, text_of

BUILD_TIMEOUT_S = 120
TIMEOUT_S = 20
WIDE, NARROW = 1400, 420


def build(docs: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run the command that the pages name."""
    words = shlex.split(text_of("pages"))
    here = {".venv/bin/python": sys.executable, "deploy/docs": str(docs), "build/docs": str(out)}
    assert here.keys() <= set(words)
    return subprocess.run(
        [here.get(word, word) for word in words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    out = tmp_path_factory.mktemp("site")
    done = build(SITE, out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the site on loopback and return its address."""
    handler = partial(_QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    """Open one browser for all tests here."""
    with chromium(width=WIDE) as opened:
        yield opened


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


class _Loaded(HTMLParser):
    """Collects what a page loads by itself; links that a reader may follow are not among it."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the address that an element loads."""
        attribute = "href" if tag == "link" else "src"
        if tag != "a":
            self.addresses += [value for name, value in attrs if name == attribute and value]


def test_every_page_is_built(site: Path) -> None:
    """No page is left out, and those of the runbook, the licences and the changes are among them."""
    for page in SITE.rglob("*.md"):
        assert (site / page.relative_to(SITE).with_suffix(".html")).is_file(), page
    assert "LookupOffsetsStandStill" in (site / "runbook.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("link", ["gone.md", "index.md#gone", "#gone", "../gone.json"])
def test_link_that_leads_nowhere_fails_the_build(tmp_path: Path, link: str) -> None:
    """The check can fail: the complaint names the link."""
    docs = tmp_path / "deploy" / "docs"
    docs.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(SITE / "conf.py", docs)
    (docs / "index.md").write_text(f"# Page\n\n[there]({link})\n", encoding="utf-8")
    done = build(docs, tmp_path / "out")
    assert done.returncode != 0
    assert link.partition("#")[2] or link in done.stderr


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures lie beside the pages."""
    loaded = _Loaded()
    for page in site.rglob("*.html"):
        loaded.feed(page.read_text(encoding="utf-8"))
    assert len(loaded.addresses) > 100
    styles = [found for file in site.rglob("*.css") for found in _urls(file)]
    assert [url for url in (*loaded.addresses, *styles) if re.match(r"(https?:)?//", url)] == []


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("page", ["index", "architecture", "settings", "guarantees", "comparison"])
def test_page_is_shown_without_errors_and_asks_nobody_else(
    browser: Chrome, address: str, page: str, width: int
) -> None:
    """Everything is found, and the page is no wider than the screen; wide tables scroll by themselves."""
    _resize(browser, width)
    list(_asked(browser))  # by the page before
    browser.get(f"{address}/{page}.html")
    assert [entry["message"] for entry in _log(browser, "browser")] == []
    asked = list(_asked(browser))
    assert len(asked) > 3
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for picture in browser.find_elements(By.CSS_SELECTOR, "article img"):
        assert int(picture.get_property("naturalWidth") or 0) > 0, picture.get_attribute("src")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "page"), [("approximate", "frozen-replay"), ("metadata-layout", "settings")]
)
def test_search_finds_a_page(browser: Chrome, address: str, words: str, page: str) -> None:
    """The search works in the browser alone."""
    _resize(browser, WIDE)
    browser.get(f"{address}/search.html?q={words}")
    WebDriverWait(browser, TIMEOUT_S).until(
        lambda opened: opened.find_elements(By.CSS_SELECTOR, f'#search-results a[href*="{page}"]')
    )


def _resize(browser: Chrome, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == NARROW}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def _asked(browser: Chrome) -> Iterator[str]:
    for entry in _log(browser, "performance"):
        message = orjson.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def _log(browser: Chrome, name: str) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = browser.get_log(name)  # type: ignore[no-untyped-call]
    return entries


def _urls(style: Path) -> list[str]:
    text = style.read_text(encoding="utf-8")
    return [url.strip("\"'") for url in re.findall(r"(?:url\(|@import\s+)([^);]+)", text)]
