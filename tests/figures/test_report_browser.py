"""A report in a headless Chromium, from a file, with the network off."""

from pathlib import Path
from typing import TYPE_CHECKING

import forks
import numpy as np
import pytest
from figures.test_report_command import hostile
from pages.browser import Visit
from pages.outline import faults
from synthetic import make_cases, make_run

from flashbench.runfile import DeviceState, save

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CONTRAST = """() => {
  const parse = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const page = light(parse(getComputedStyle(document.body).backgroundColor));
  const worst = {};
  for (const one of document.querySelectorAll('main *, header *, footer *')) {
    if (one.tagName === 'title') continue;
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    const style = getComputedStyle(one);
    const ink = light(parse(one.closest('svg') ? style.fill : style.color));
    const ratio = (Math.max(page, ink) + 0.05) / (Math.min(page, ink) + 0.05);
    if (ratio < 4.5) worst[one.tagName + '.' + one.getAttribute('class')] = ratio;
  }
  return worst;
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report")
    speeds = [0.9, 1.0, 1.3, 1.011, 1.0]
    run = make_run(np.random.default_rng(0), cases=make_cases(5), launches=12, speedup=speeds)
    for number, launch in enumerate(run.launches):
        launch.before = DeviceState(cpu_mhz=2000.0 + number, load_average=1.5)
    save(run, made / "plain.json")
    save(hostile(), made / "hostile.json")
    done = forks.run(("report", "plain.json", "hostile.json", "-o", "r.html"), made)
    assert done.returncode == 0
    return made


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 1280])
def test_it_opens_alone(browser: "Browser", folder: Path, width: int, dark: bool) -> None:
    """Without a request, a script or a complaint; no wider than the screen; texts have contrast."""
    visited = Visit(browser, folder, width=width, dark=dark)
    page = visited.open("r.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.broken") is None
    assert page.locator("script, img").count() == 0
    assert page.evaluate(CONTRAST) == {}
    assert visited.complaints == []
    visited.close()


def test_its_outline(browser: "Browser", folder: Path) -> None:
    """A heading for the page, each run file and each part, and a name for every picture and
    table."""
    visited = Visit(browser, folder)
    page = visited.open("r.html")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert faults(page) == []
    assert page.locator("h2").count() == 3  # side by side, and each run file
    names = page.locator("svg[role=img]").evaluate_all("a => a.map(e => e.ariaLabel)")
    assert all(len(name) > 20 for name in names)
    assert page.locator("figure").count() == page.locator("figure[aria-labelledby]").count()
    assert page.locator("table").count() == page.locator("table caption").count()
    visited.close()


def test_it_prints(browser: "Browser", folder: Path) -> None:
    """On A4, in black on white also from a dark screen, every panel whole on its page."""
    visited = Visit(browser, folder, dark=True)
    page = visited.open("r.html")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("svg.panel text.t").first.evaluate("e => getComputedStyle(e).fill") == (
        "rgb(27, 31, 36)"
    )
    heights = page.locator("svg[role=img]").evaluate_all("a => a.map(e => e.clientHeight)")
    assert max(heights) < 1000
    page.set_viewport_size({"width": 690, "height": 1000})  # A4 between its margins
    widths = page.locator("table").evaluate_all("a => a.map(e => e.scrollWidth)")
    assert max(widths) <= 690
    assert page.pdf(format="A4").startswith(b"%PDF")
    visited.close()


def test_a_phone_shows_four_panels(browser: "Browser", folder: Path) -> None:
    """And the others behind a box that the keyboard reaches; wide screens and paper show all."""
    visited = Visit(browser, folder, width=400)
    page = visited.open("r.html")
    figure = page.locator("#run1-distributions")
    panels = figure.locator("svg[role=img]:visible")
    assert panels.count() == 4
    page.emulate_media(media="print")
    assert panels.count() == 5
    page.emulate_media(media="screen")
    figure.get_by_label("All 5 panels").press("Space")
    assert panels.count() == 5
    visited.resize(1280)
    figure.locator("input").evaluate("one => one.checked = false")
    assert (panels.count(), figure.locator("label:visible").count()) == (5, 0)
    visited.close()


def test_axe_finds_nothing(browser: "Browser", folder: Path) -> None:
    """No violation of WCAG 2 A and AA, in light and in dark, with all tables unfolded."""
    pytest.importorskip("axe_playwright_python", reason="no axe: pip install flashbench[browser]")
    from pages.test_accessibility import violations

    visited = Visit(browser, folder)
    page = visited.open("r.html")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], scheme
    visited.close()
