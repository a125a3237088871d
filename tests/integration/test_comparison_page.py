"""The comparison's page in a real browser, opened as a file, with no network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from pipeline.model import SearchHit
from streams.comparison.reports.page import html_page
from streams.comparison.thresholds import check
from tests.builders import answer, failure, hit, limits, recording
from tests.comparisons import all_compared
from tests.support.browser import chromium

HOSTILE = (
    "</script></style><script>document.title='taken'</script><img src=http://127.0.0.1/x onerror=alert(1)>"
)


def hits(count: int) -> list[SearchHit]:
    """Return hits of documents of their own, best first."""
    return [
        hit(f"doc{place}", 0, score=0.9 - place / 100, content=f"Part {place} of the old text. {HOSTILE}")
        for place in range(count)
    ]


def page(folder: Path) -> Path:
    """Compare one request of each kind and return the page."""
    base = [
        recording(answer(*hits(4)), request_id=request_id, queries=[f"What about {request_id}? {HOSTILE}"])
        for request_id in ("a-cut", "b-lost-two", "c-rewritten", "d-failed", "e-swapped", HOSTILE)
    ]
    rewritten = hit("doc0", 0, score=0.9, content=f"Part 0 of the new text. {HOSTILE}")
    swapped = [hit("doc1", 0, score=0.95, content=hits(2)[1].content), hits(1)[0], *hits(4)[2:]]
    candidate = [
        recording(answer(*hits(4)), request_id="a-cut", widths=limits(return_n=3)),
        recording(answer(*hits(2)), request_id="b-lost-two"),
        recording(answer(rewritten, *hits(4)[1:]), request_id="c-rewritten"),
        recording(failure(), request_id="d-failed"),
        recording(answer(*swapped), request_id="e-swapped"),
        recording(answer(*hits(3)), request_id=HOSTILE),
    ]
    comparison = all_compared(folder, base, candidate)
    file = folder / "report.html"
    file.write_text(html_page(comparison, check(comparison, {"jaccard": 0.99})), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Yield Chromium with the page open, and its logs."""
    with chromium() as opened:
        opened.get(page(tmp_path_factory.mktemp("page")).as_uri())
        yield opened


@pytest.fixture(autouse=True)
def reload(browser: webdriver.Chrome) -> None:
    """Return each test the page as it comes."""
    browser.refresh()


def ids(browser: webdriver.Chrome) -> list[str]:
    """Return the requests that are shown, in their order."""
    bodies = browser.find_elements(By.CSS_SELECTOR, "#requests tbody")
    return [str(body.get_attribute("data-id"))[:12] for body in bodies if body.is_displayed()]


def heading(browser: webdriver.Chrome, key: str) -> WebElement:
    """Return a column's heading."""
    return browser.find_element(By.CSS_SELECTOR, f"#requests th[data-key={key}] button")


def detail(browser: webdriver.Chrome, request_id: str) -> WebElement:
    """Open a request and return its evidence."""
    body = browser.find_element(By.CSS_SELECTOR, f"#requests tbody[data-id='{request_id}']")
    body.find_element(By.CSS_SELECTOR, ".open").click()
    return body.find_element(By.CSS_SELECTOR, ".detail")


def requested(browser: webdriver.Chrome) -> set[str]:
    """Return the address of everything that the browser asked for."""
    messages = [json.loads(entry["message"])["message"] for entry in _log(browser, "performance")]
    return {
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    }


def _log(browser: webdriver.Chrome, kind: str) -> list[Any]:
    return list(browser.get_log(kind))  # type: ignore[no-untyped-call]


def test_the_page_asks_for_nothing_and_complains_of_nothing(browser: webdriver.Chrome) -> None:
    """No request but for itself, no message in the console, and no script of the evidence's has run."""
    for button in browser.find_elements(By.CSS_SELECTOR, "#all, #requests th button"):
        button.click()
    assert requested(browser) == {browser.current_url}
    assert _log(browser, "browser") == []
    assert browser.title.startswith("Evidence compared")
    assert browser.find_elements(By.CSS_SELECTOR, "img, main script") == []


def test_requests_are_sorted_by_any_column_and_back(browser: webdriver.Chrome) -> None:
    """By figures as figures, by ids as text; the heading says which way."""
    worst_first = ids(browser)
    assert worst_first[:2] == ["d-failed", "b-lost-two"]
    heading(browser, "id").click()
    by_id = ids(browser)
    assert by_id[1:] == ["a-cut", "b-lost-two", "c-rewritten", "d-failed", "e-swapped"]
    heading(browser, "id").click()
    assert ids(browser) == by_id[::-1]
    heading(browser, "lost").click()
    assert ids(browser)[0] == "b-lost-two"
    sorted_heading = browser.find_element(By.CSS_SELECTOR, "#requests th[data-key=lost]")
    assert sorted_heading.get_attribute("aria-sort") == "descending"
    heading(browser, "place").click()
    assert ids(browser) == worst_first


def test_everything_works_from_the_keyboard(browser: webdriver.Chrome) -> None:
    """Enter sorts, space opens and closes; the text of a card can be reached and scrolled."""
    heading(browser, "lost").send_keys(Keys.ENTER)
    assert ids(browser)[0] == "b-lost-two"
    button = browser.find_element(By.CSS_SELECTOR, "#requests .open")
    shown = browser.find_element(By.ID, str(button.get_attribute("aria-controls")))
    assert not shown.is_displayed()
    button.send_keys(Keys.SPACE)
    assert shown.is_displayed()
    assert button.get_attribute("aria-expanded") == "true"
    button.send_keys(Keys.TAB)
    focused = browser.switch_to.active_element
    assert focused.get_attribute("class") == "content"
    button.send_keys(Keys.SPACE)
    assert not shown.is_displayed()


def test_lost_evidence_is_marked_with_its_reason(browser: webdriver.Chrome) -> None:
    """On the base's side, beside what the candidate has."""
    base, candidate = detail(browser, "a-cut").find_elements(By.CSS_SELECTOR, ".sides > section")
    [lost] = base.find_elements(By.CSS_SELECTOR, ".card.lost")
    assert "doc3#chunk-0" in lost.text
    assert "lost: over return-n" in lost.text
    assert len(candidate.find_elements(By.CSS_SELECTOR, ".card")) == 3


def test_differing_words_are_marked(browser: webdriver.Chrome) -> None:
    """On both sides, and no others."""
    marks = detail(browser, "c-rewritten").find_elements(By.TAG_NAME, "mark")
    assert [mark.text.strip() for mark in marks] == ["old", "new"]


def test_moved_evidence_says_where_it_went(browser: webdriver.Chrome) -> None:
    """Each of two that changed places."""
    moved = detail(browser, "e-swapped").find_elements(By.CSS_SELECTOR, ".card.moved .notes")
    assert [note.text for note in moved] == [
        "rank 2 in the candidate",
        "rank 1 in the candidate",
        "rank 2 in the base",
        "rank 1 in the base",
    ]


def test_requests_are_found_by_what_is_in_them(browser: webdriver.Chrome) -> None:
    """Ids, queries and evidence; clearing the field shows all again."""
    field = browser.find_element(By.ID, "find")
    field.send_keys("e-SWAPPED")
    assert ids(browser) == ["e-swapped"]
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(Keys.DELETE)
    assert len(ids(browser)) == 6


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_the_page_follows_the_scheme_and_can_be_told_otherwise(
    browser: webdriver.Chrome, scheme: str, *, dark: bool
) -> None:
    """Text is light on dark or dark on light, as the system has it; a button turns it round."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    assert is_dark(browser) == dark
    browser.find_element(By.ID, "theme").click()
    assert is_dark(browser) != dark


def is_dark(browser: webdriver.Chrome) -> bool:
    """Return whether the background is darker than the text."""
    body = browser.find_element(By.TAG_NAME, "body")
    back, text = (body.value_of_css_property(name) for name in ("background-color", "color"))
    return _brightness(back) < _brightness(text)


def _brightness(colour: str) -> int:
    return sum(int(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3])


@pytest.mark.parametrize("width", [360, 1600])
def test_nothing_is_wider_than_the_window(browser: webdriver.Chrome, width: int) -> None:
    """On a telephone and on a wide screen, with all evidence open."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.find_element(By.ID, "all").click()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
