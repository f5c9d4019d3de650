"""A headless Chromium without a network, and everything that it complains of."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="no playwright: pip install flashbench[browser]")
from playwright.sync_api import Browser, BrowserContext, Locator, Page, sync_playwright

VARIABLE = "FLASHBENCH_BROWSER"
# The shell first: the same engine, without the windows and profiles that a page does not need.
NAMES = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome"),
)


def executable() -> str | None:
    """The browser that $FLASHBENCH_BROWSER names, or one on the PATH."""
    return os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    path = executable()
    if path is None:
        pytest.skip(f"no Chromium here: apt-get install chromium, or set ${VARIABLE}")
    # A sandbox needs rights that root in a container lacks; names of hosts lead nowhere.
    options = ["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-gpu"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


# A resize is told to the page before its next frame.
RESIZED = """() => new Promise((done) => requestAnimationFrame(
  () => requestAnimationFrame(() => done(window.innerWidth))))"""


@cache
def _context(browser: Browser) -> BrowserContext:
    """One for all pages, which keep nothing in it: another costs a processor second each."""
    return browser.new_context(offline=True)


class Visit:
    """A page opened from a file, offline, with what went wrong on it."""

    def __init__(self, browser: Browser, site: Path, width: int = 1100, dark: bool = False) -> None:
        self._site = site
        self.complaints: list[str] = []
        self.page: Page = _context(browser).new_page()
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        self.page.set_default_timeout(10_000)
        self.page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", lambda made: self.complaints.append(f"failed: {made.url}"))
        self.page.on("request", lambda made: self._local(made.url))

    def _local(self, url: str) -> None:
        if not url.startswith(self._site.as_uri()):
            self.complaints.append(f"asked for: {url}")

    def open(self, path: str) -> Page:
        """`path` in the site, with a query or fragment; a new document also of the same file."""
        self.page.goto("about:blank")
        self.page.goto(f"{self._site.as_uri()}/{path}")
        return self.page

    def resize(self, width: int) -> None:
        """Give the window that width, and the page the time to draw for it."""
        self.page.set_viewport_size({"width": width, "height": 800})
        assert self.page.evaluate(RESIZED) == width

    def close(self) -> None:
        self.page.close()


def figures(page: Page, count: int) -> Locator:
    """The graphs of the page, once `count` of them are there and drawn."""
    page.wait_for_function(
        "count => document.querySelectorAll('figure').length === count"
        " && document.querySelectorAll('figure[data-drawn]').length === count",
        arg=count,
    )
    return page.locator("figure")
