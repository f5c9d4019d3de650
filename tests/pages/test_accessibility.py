"""Every page of the site by axe-core, light and dark, with everything drawn and unfolded."""

from importlib import resources

import pytest
from pages.browser import Visit, figures
from pages.outline import faults
from pages.test_browser import PAGES
from playwright.sync_api import Browser, Page

pytest.importorskip("axe_playwright_python", reason="no axe: pip install flashbench[browser]")
pytestmark = pytest.mark.slow

AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text()
# Rules of WCAG 2.0 to 2.2, levels A and AA, with the size of targets; style sheets
# are not fetched again.
RUN = """() => axe.run(document, {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], preload: false,
  rules: { "target-size": { enabled: true } },
}).then((found) => found.violations.map(
  (one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200))]))"""

# Axe looks at each element: a third row like two others would tell nothing new. Rows are alike if
# they differ in text, targets and names alone.
TWO_OF_A_KIND = r"""() => {
  const alike = {};
  for (const row of document.querySelectorAll("tbody tr")) {
    const kind = row.outerHTML.replace(/>[^<]+/g, ">")
      .replace(/ (href|id|title|aria-[\w-]+|data-[\w-]+)="[^"]+"/g, " $1");
    alike[kind] = (alike[kind] ?? 0) + 1;
    if (alike[kind] > 2) row.remove();
  }
}"""
DRAWN = {"overview": 2, "graphs": 8, "case": 2}  # figures of pages that draw some


def violations(page: Page) -> list[object]:
    """What axe finds on the page; evaluated by the debugger, which no policy of the page stops."""
    page.evaluate(AXE)
    return page.evaluate(RUN)


@pytest.mark.parametrize("kind", PAGES)
def test_axe_finds_nothing(browser: Browser, site: object, kind: str) -> None:
    """No violation of WCAG 2 A and AA, in light and in dark."""
    visited = Visit(browser, site)
    page = visited.open(PAGES[kind])
    if kind in DRAWN:
        figures(page, DRAWN[kind])
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.evaluate(TWO_OF_A_KIND)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], scheme
    assert visited.complaints == []
    visited.close()


def test_axe_finds_what_is_wrong(browser: Browser, site: object) -> None:
    """A text that is as grey as its ground, and a picture without a name, are found."""
    visited = Visit(browser, site)
    page = visited.open("commits.html")
    page.evaluate(
        "() => { document.querySelector('h1').style.color = '#eee';"
        " document.querySelector('main').append(document.createElement('input')); }"
    )
    assert {name for name, _ in violations(page)} >= {"color-contrast", "label"}
    visited.close()


@pytest.mark.parametrize("kind", ["overview", "graphs", "case", "machine", "commit"])
def test_the_outline_of_a_page(browser: Browser, site: object, kind: str) -> None:
    """What a screen reader reads: one title, headings in order, landmarks, a name for every
    picture, table and link, and headers in every table."""
    visited = Visit(browser, site)
    page = visited.open(PAGES[kind])
    if kind in DRAWN:
        figures(page, DRAWN[kind])
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert faults(page) == []
    visited.close()


def test_a_bad_outline_is_found(browser: Browser, site: object) -> None:
    """Every rule is broken by a change of a good page."""
    visited = Visit(browser, site)
    page = visited.open("index.html")
    figures(page, 2)
    page.evaluate(
        """() => {
        document.querySelector('h2').outerHTML = '<h1>again</h1><h4>deep</h4>';
        document.querySelector('nav').remove();
        document.querySelector('svg[role=img]').removeAttribute('aria-label');
        for (const one of document.querySelectorAll('table th')) one.outerHTML = '<td>x</td>';
        }"""
    )
    found = " ".join(faults(page))
    for fault in ("2 headings", "level 4 after 1", "navigation: not", "image without", "headers"):
        assert fault in found
    visited.close()
