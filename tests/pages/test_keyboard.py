"""The site's graphs by keyboard and by pointer, in a headless Chromium."""

from collections.abc import Callable

import pytest
from pages.browser import figures
from pages.sample import BROKEN, COMMITS, HOSTILE, SUBJECTS, content
from playwright.sync_api import Page

from flashbench.site.content import commit_page

pytestmark = pytest.mark.slow

SAMPLE = content()
HASHES = [commit.id for commit in SAMPLE.history.commits]
HOSTILE_COMMIT = next(i for i, subject in SUBJECTS.items() if subject == HOSTILE)
Open = Callable[..., Page]


def test_the_keyboard_does_all(visit: Open) -> None:
    """Tab comes to the skip link first; arrows walk along points, and Enter opens their commit."""
    page = visit("graphs.html")
    first = figures(page, 8).first
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    first.locator("svg[tabindex]").focus()
    page.keyboard.press("Home")
    assert SAMPLE.history.commits[0].subject in first.locator(".readout").text_content()
    for _ in range(HOSTILE_COMMIT):
        page.keyboard.press("ArrowRight")
    assert HOSTILE in first.locator(".readout").text_content()
    assert "speed-up 1." in first.locator(".readout").text_content()
    for _ in range(BROKEN[0] - HOSTILE_COMMIT):
        page.keyboard.press("ArrowRight")
    assert "missing header" in first.locator(".readout").text_content()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{commit_page(HASHES[BROKEN[0]])}")
    assert "missing header" in page.locator("main").text_content()


def test_tab_comes_to_everything(few: Page) -> None:
    """Links, filters, the graph and its table, in the order of the page, each with a ring to see;
    Space and Enter work them."""
    found = []
    for _ in range(40):
        few.keyboard.press("Tab")
        one = few.evaluate(
            "() => { const one = document.activeElement; return [one.name || one.id ||"
            " one.tagName.toLowerCase(), getComputedStyle(one).outlineStyle]; }"
        )
        if one[0] == "body":
            break
        found.append(one)
        if one[0] == "changed":
            few.keyboard.press("Space")
            few.wait_for_function("() => location.hash.includes('changed')")
    assert all(ring == "solid" for _, ring in found), found
    names = [name for name, _ in found]
    fields = ["case", "show", "summary", "axis", "from", "to", "pin"]
    fields += ["changed", "quartiles", "tail"]
    links, tools = 5 * ["a"], 2 * ["button"]  # a zoom in and out; no commit to compare with yet
    assert names == [*links, *fields, "button", *tools, "a", "svg", "a", "summary"]
    assert few.get_by_label("with changes only").is_checked()
    few.locator("figure summary").focus()
    few.keyboard.press("Enter")
    few.locator("tbody tr").first.wait_for()


def test_the_pointer_shows_the_nearest_commit(visit: Open) -> None:
    """Where the mouse or a finger is, the commit there is named."""
    page = visit("graphs.html")
    first = figures(page, 8).first
    svg = first.locator("svg[tabindex]")
    box = svg.bounding_box()
    svg.click(position={"x": box["width"] - 20, "y": 100})
    assert f"Change number {COMMITS - 1}" in first.locator(".readout").text_content()
