"""Starts a Chromium without a window for the tests of the page, where one is installed.

It is the one on the path, or the one that ``playwright install chromium`` downloads. On Debian:
``apt-get install chromium``.
"""

import shutil
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def chromium():
    """A browser; a test that asks for it is skipped without one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: install the group `browser`")
    pytest.importorskip("vl_convert", reason="no vl-convert-python: install the extra `report`")
    with playwright.sync_playwright() as driver:
        path = next(filter(None, map(shutil.which, NAMES)), None) or driver.chromium.executable_path
        if not Path(path).exists():
            pytest.skip("no Chromium: install it (apt-get install chromium, or playwright install chromium)")
        # In a container the user is root, for whom Chromium has no sandbox. The page is our own.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
