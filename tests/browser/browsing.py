"""Chromium for the tests: the machine's own, started without network, on file:// pages."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: requirements-test.txt")

CHROMIUM = Path("/usr/bin/chromium")
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium(**variables: str) -> Iterator[Browser]:
    """A browser with these variables added to the test's."""
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS, env=os.environ | variables)
        try:
            yield browser
        finally:
            browser.close()


def opened_in_s(browser: Browser, path: Path) -> float:
    """Seconds from the navigation to the moment when tables sort and addresses lead to trials."""
    page = browser.new_page()
    started = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    page.close()
    return time.perf_counter() - started
