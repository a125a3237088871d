"""Chromium without a window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver

from tests.support.fixtures import require_tool


@contextmanager
def chromium(*, width: int = 1280, height: int = 1000) -> Iterator[webdriver.Chrome]:
    """Open a browser that keeps a log of its console and of what it asks for, and close it."""
    options = webdriver.ChromeOptions()
    options.binary_location = require_tool("chromium")
    # As root it runs without its sandbox only, which is enough for pages made here.
    arguments = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    for argument in (*arguments, f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=require_tool("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        yield browser
    finally:
        browser.quit()
