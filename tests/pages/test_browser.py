"""The pages of the site in a headless Chromium, from files, with the network off."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pages.browser import Visit, figures
from pages.sample import BROKEN, CASES, HOSTILE, SUBJECTS, history
from playwright.sync_api import Browser, Page

from flashbench.site.content import case_page, commit_page, machine_page

HASHES = [commit.id for commit in history().commits]
HOSTILE_COMMIT = next(i for i, subject in SUBJECTS.items() if subject == HOSTILE)
PAGES = {
    "overview": "index.html",
    "graphs": "graphs.html",
    "changes": "changes.html",
    "commits": "commits.html",
    "case": case_page(CASES[0]),
    "commit": commit_page(HASHES[HOSTILE_COMMIT]),
    "broken commit": commit_page(HASHES[BROKEN[0]]),
    "machine": machine_page("box"),
    "hostile machine": machine_page(HOSTILE),
}
Open = Callable[..., Page]


@pytest.fixture(scope="module", params=PAGES)
def narrow(browser: Browser, site: Path, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """Each kind of page on a screen of 320 pixels."""
    visited = Visit(browser, site, width=320)
    page = visited.open(PAGES[request.param])
    if request.param == "graphs":
        figures(page, 8)
    yield visited
    visited.close()


def test_every_page_opens_alone(narrow: Visit) -> None:
    """From disk, offline: the page requests nothing outside the folder and logs no error."""
    assert narrow.complaints == []
    assert narrow.page.locator("h1").count() == 1
    assert narrow.page.title().endswith(" · toy <b>project</b>")


def test_hostile_texts_stay_texts(narrow: Visit) -> None:
    """What a commit, an author, a machine or a parameter says is shown, and nothing of it runs."""
    page = narrow.page
    assert page.evaluate("window.broken") is None
    assert page.locator("img, main script").count() == 0
    if not page.url.endswith((PAGES["changes"], PAGES["machine"])):
        assert HOSTILE in page.evaluate("document.body.textContent")


def test_a_phone_needs_no_horizontal_scroll(narrow: Visit) -> None:
    """No page is wider than 320 pixels, whatever is unfolded; wide tables scroll inside of
    themselves, also by keyboard."""
    page = narrow.page
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.wait_for_function("() => !document.querySelector('figure details:not(:has(table))')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert (
        page.locator("table").count() == page.locator("[role=region][tabindex='0'] table").count()
    )
    assert narrow.complaints == []


def test_a_page_prints_on_a4(narrow: Visit) -> None:
    """Without controls, and no wider than the paper."""
    page = narrow.page
    page.emulate_media(media="print")
    narrow.resize(794)
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.locator("button:visible, form:visible, nav ul:visible").count() == 0
    page.emulate_media(media="screen")
    narrow.resize(320)


def test_folded_answers_are_printed(visit: Open) -> None:
    """On the screen they are a click away."""
    page = visit("index.html")
    answer = '<details class="answer"><summary>Which</summary><p>these</p></details>'
    page.locator("main").evaluate(
        "(main, html) => main.insertAdjacentHTML('beforeend', html)", answer
    )
    assert not page.get_by_text("these", exact=True).is_visible()
    page.emulate_media(media="print")
    assert page.get_by_text("these", exact=True).is_visible()


# In the first table: whether cells of the first row are seen whole, and the row's name far right.
SEEN = """() => {
  const wide = document.querySelector(".wide");
  const box = wide.getBoundingClientRect();
  const row = [...wide.querySelector("tbody tr").cells].filter((cell) => cell.checkVisibility());
  const inside = (cell) => {
    const { left, right } = cell.getBoundingClientRect();
    return left >= box.left - 1 && right <= box.right + 1;
  };
  const whole = row.map(inside);
  wide.scrollLeft = 1e6;
  return [whole, wide.scrollLeft > 0, inside(row[0]), inside(row.at(-1))];
}"""


@pytest.mark.parametrize("kind", ["commit", "commits", "changes", "machine", "case"])
def test_a_phone_shows_what_a_table_is_about(visit: Open, kind: str) -> None:
    """Beside the name of a row stands its number, state or verdict; the name stays when the rest
    is scrolled. The others are cards: nothing is left to scroll to."""
    page = visit(PAGES[kind], width=390)
    whole, scrolled, name, last = page.evaluate(SEEN)
    assert all(whole[: 3 if kind == "case" else 2])  # of a case the metric and its number
    cards = kind not in ("machine", "case")
    assert (scrolled, name, last) == (not cards, True, True)
    assert all(whole) == cards
    second = {"commit": "speed-up", "commits": "state", "changes": "speed", "machine": "verdict"}
    second["case"] = "metric"
    heading = page.locator(".wide thead th").nth(1).text_content()
    assert heading.startswith(second[kind])


# Every text that is seen, with the contrast to what lies behind it (WCAG 2).
CONTRASTS = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = (rgb) => rgb.slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = numbers(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || ["TITLE", "NOSCRIPT", "OPTION"].includes(node.tagName.toUpperCase())) continue;
    const style = getComputedStyle(node);
    const ink = numbers(node.ownerSVGElement ? style.fill : style.color);
    const [dark, light] = [luminance(ink), luminance(behind(node))].sort((a, b) => a - b);
    found.push([(light + 0.05) / (dark + 0.05), node.textContent.slice(0, 40)]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(narrow: Visit, scheme: str) -> None:
    """As drawn, 4.5 to 1 at least, in light and dark."""
    narrow.page.emulate_media(color_scheme=scheme)
    found = narrow.page.evaluate(CONTRASTS)
    assert len(found) > 10
    assert min(found)[0] >= 4.5, min(found)


def test_light_and_dark(narrow: Visit) -> None:
    """The page follows what the reader prefers."""
    background = "getComputedStyle(document.body).backgroundColor"
    narrow.page.emulate_media(color_scheme="dark")
    assert narrow.page.evaluate(background) == "rgb(13, 17, 23)"
    narrow.page.emulate_media(color_scheme="light")
    assert narrow.page.evaluate(background) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [320, 1200])
@pytest.mark.parametrize("machine", ["box", HOSTILE])
def test_figures_have_units_and_fit(visit: Open, machine: str, width: int) -> None:
    """On a phone and on a wide screen: named, with units, marks inside; no wider than the page."""
    page = visit(machine_page(machine), width=width)
    speedups, *rooflines = page.locator("figure").all()
    assert len(rooflines) == (machine != "box")  # a CPU's peaks are not known
    assert "speed-up" in speedups.locator("svg").last.text_content()
    for roofline in rooflines:
        text = roofline.text_content()
        assert "TFLOP/s (dense), 4800 GB/s" in text
        assert "FLOP a byte that has to be moved" in text
        assert roofline.locator("polyline").count() > 0
    for one in (speedups, *rooflines):
        assert one.locator("figcaption").text_content()
        for panels in one.locator(".all input:visible").all():
            panels.check()  # a phone shows four panels and this box
        for panel in one.locator("svg[role=img]").all():
            box = panel.bounding_box()
            assert 250 < box["width"] <= min(width, 372)
            marks = panel.locator("g :is(circle, path)").evaluate_all(
                "all => all.map(mark => mark.getBoundingClientRect().x)"
            )
            assert all(box["x"] <= mark <= box["x"] + box["width"] for mark in marks)


def test_pages_work_without_scripts(browser: Browser, site: Path) -> None:
    """Tables and pictures need no JavaScript, and the graphs say that they do."""
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(f"{site.as_uri()}/{machine_page('box')}")
    assert page.locator("figure.drawn").count() == 1
    assert page.locator("tbody th").first.text_content() == "b1-h1-q128-d64-fp32-full"
    page.goto(f"{site.as_uri()}/graphs.html")
    assert "drawn by JavaScript" in page.locator("noscript").text_content()
    context.close()
