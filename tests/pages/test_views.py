"""Views of the site's graphs in a headless Chromium: scale, zoom, comparing, and the heat map."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pages.browser import Visit, figures
from pages.sample import BROKEN, CASES, COMMITS, HOSTILE, STEP, content
from playwright.sync_api import Browser, Locator, Page

from flashbench.history.model import Points
from flashbench.site.content import Content, Graph, case_page
from flashbench.site.publish import publish

pytestmark = pytest.mark.slow

SAMPLE = content()
COLUMNS = ("value", "low", "high", "q25", "q75")
HASHES = [commit.id[:10] for commit in SAMPLE.history.commits]
Open = Callable[..., Page]


def with_ratio(change: Callable[[Points], Points]) -> Content:
    """The sample with its first series alone, whose ratio to SDPA is another."""
    graph = SAMPLE.graphs[0]
    assert graph.series.ratio is not None
    series = replace(graph.series, ratio=change(graph.series.ratio))
    history = replace(SAMPLE.history, series=(series,))
    return replace(SAMPLE, history=history, graphs=(Graph(series),), latest=())


def drawn(browser: Browser, folder: Path, known: Content) -> Locator:
    """The graph of a content with one series, on a page that complains of nothing."""
    publish(known, folder)
    visited = Visit(browser, folder)
    (one,) = figures(visited.open("graphs.html"), 1).all()
    assert visited.complaints == []
    return one


def ticks(one: Locator) -> list[float]:
    """The numbers of the y axis."""
    return [float(text) for text in one.locator(".plot text.number").all_text_contents()]


def test_intervals_wider_than_the_picture_give_way_to_quartiles(
    browser: Browser, tmp_path: Path
) -> None:
    """The band is that of the quartiles, the legend says so, and the axis suits the values."""
    known = with_ratio(lambda one: replace(one, low=one.value / 9, high=one.value * 9))
    noisy = drawn(browser, tmp_path, known)
    legend = noisy.locator(".legend").text_content()
    assert "25th to 75th percentile of the launches; the 99 % interval" in legend
    assert "is wider than the picture" in legend
    assert noisy.locator("path.quartile").count() == 0
    assert max(ticks(noisy)) < 2.5


def test_a_single_far_value_is_cut_and_marked(browser: Browser, tmp_path: Path) -> None:
    """It does not flatten the others, an arrow names it, and the newest value is never cut."""

    def far(one: Points, place: int) -> Points:
        value = np.where(np.arange(len(one)) == place, one.value / 50, one.value)
        return replace(one, value=value)

    cut = drawn(browser, tmp_path / "a", with_ratio(lambda one: far(one, 10)))
    assert max(ticks(cut)) < 5
    assert cut.locator(".plot .beyond").count() == 1
    assert "outside of the picture" in cut.locator(".plot .beyond title").text_content()
    assert "a value outside of the picture" in cut.locator(".legend").text_content()
    newest = drawn(browser, tmp_path / "b", with_ratio(lambda one: far(one, len(one) - 1)))
    assert max(ticks(newest)) > 50
    assert newest.locator(".plot .beyond").count() == 0


def test_a_band_that_leaves_the_picture_is_marked(browser: Browser, tmp_path: Path) -> None:
    """By dashes at the edge, at the commits where it is cut."""

    def wide(one: Points) -> Points:
        return replace(one, low=np.where(np.arange(len(one)) == 5, one.value / 30, one.low))

    one = drawn(browser, tmp_path, with_ratio(wide))
    assert one.locator(".plot path.cut").get_attribute("d").count("M") == 1
    assert (
        "99 % interval of the median, cut at the thick dashes"
        in one.locator(".legend").text_content()
    )


def test_a_far_one_does_not_squeeze_the_data(browser: Browser, tmp_path: Path) -> None:
    """A kernel that is ten times as fast has an axis around ten."""

    def tenth(one: Points) -> Points:
        return replace(one, **{name: getattr(one, name) / 10 for name in COLUMNS})

    one = drawn(browser, tmp_path, with_ratio(tenth))
    assert min(ticks(one)) > 5
    assert one.locator(".plot line.one").count() == 0


def test_dragging_and_keys_zoom(visit: Open) -> None:
    """All graphs show the range, the address keeps it, and 0 shows all again."""
    page = visit("graphs.html")
    svg = figures(page, 8).first.locator("svg[tabindex]")
    whole = page.locator(".plot").nth(1).locator(".dot").count()
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100, steps=3)
    assert svg.locator(".selection").get_attribute("visibility") == "visible"
    page.mouse.up()
    page.wait_for_function("() => location.hash.includes('from=') && location.hash.includes('to=')")
    count = page.locator(".plot").nth(1).locator(".dot").count()
    assert 5 < count < 12 < whole
    again = visit(f"graphs.html{page.url.partition('graphs.html')[2]}")
    figures(again, 8)
    assert again.locator(".plot").nth(1).locator(".dot").count() == count
    svg.focus()
    page.keyboard.press("+")
    assert page.locator(".plot").nth(1).locator(".dot").count() < count
    page.keyboard.press("-")
    page.keyboard.press("0")
    page.wait_for_function("() => !location.hash.includes('from')")
    assert page.locator(".plot").nth(1).locator(".dot").count() == whole


def test_two_commits_are_compared_in_place(visit: Open) -> None:
    """c marks one; at another stands how many times as fast it is, with ends; the address keeps
    it, and buttons do the same on a phone."""
    page = visit("graphs.html", width=390)
    first = figures(page, 8).first
    svg = first.locator("svg[tabindex]")
    svg.press("Home")
    svg.press("c")
    page.wait_for_function("() => location.hash.includes('pin=')")
    assert first.locator(".plot .pin").count() == 1
    svg.press("End")
    said = first.locator(".readout").text_content()
    found = re.search(rf"([\d.]+) times that of {HASHES[0]} \[([\d.]+), ([\d.]+)\]", said)
    assert found, said
    value, low, high = map(float, found.groups())
    ratio = SAMPLE.graphs[0].series.ratio.value
    assert value == pytest.approx(ratio[0] / ratio[-1], rel=1e-3)
    assert low < value < high
    tools = page.get_by_role("group", name="Commits of all graphs")
    tools.get_by_role("button", name="Compare with this commit").click()
    page.wait_for_function(f"() => location.hash.includes('{HASHES[-1]}')")
    again = visit(f"graphs.html#pin={HASHES[STEP]}", width=390)
    assert figures(again, 8).first.locator(".plot .pin").count() == 1


def test_two_machines_are_compared_in_place(visit: Open) -> None:
    """The same series of the other machine is drawn beside, named in legend and line; a series
    that the other has not stays alone."""
    page = visit("graphs.html#machine=box")
    figures(page, 6)
    page.get_by_label("compare with machine").select_option(HOSTILE)
    page.wait_for_function("() => document.querySelectorAll('.plot path.value.other').length === 5")
    first = figures(page, 6).first
    assert f"over SDPA on {HOSTILE}" in first.locator(".legend").text_content()
    first.locator("svg[tabindex]").press("End")
    assert f"speed-up on {HOSTILE} 1." in first.locator(".readout").text_content()
    assert page.evaluate("window.broken") is None


def test_the_front_page_draws_each_mean_and_the_heat_map(visit: Open) -> None:
    """A graph a device; the heat map says by keyboard what is where, and leads to the case."""
    page = visit("index.html")
    assert figures(page, 2).first.locator(".plot path.value.speedup").count() == 1
    page.wait_for_selector("#heat[data-drawn]")
    canvas = page.locator("#heat canvas")
    assert f"{len(CASES)} cases at {COMMITS - 1} commits" in canvas.get_attribute("aria-label")
    assert page.locator("#heat .names li").count() == len(CASES)
    readout = page.locator("#heat .readout")
    canvas.focus()
    ratio = SAMPLE.graphs[0].series.ratio.value
    assert f"{1 / ratio[-1]:.2f}" in readout.text_content()
    assert HASHES[-1] in readout.text_content()
    canvas.press("Home")
    canvas.press("c")
    assert f"Speed over that at {HASHES[0]}" in page.locator("#heat .key").text_content()
    canvas.press("End")
    assert re.search(rf"1\.\d+ times that at {HASHES[0]}", readout.text_content())
    page.get_by_role("button", name="Compare with the oldest").click()
    assert "Speed-up over SDPA" in page.locator("#heat .key").text_content()
    canvas.press("Home")
    for _ in range(BROKEN[0]):
        canvas.press("ArrowRight")
    assert "not measured" in readout.text_content()
    canvas.press("Enter")
    page.wait_for_url("**/cases/*.html")


# The colours of the first row's cells at some columns, in the middle of each.
CELLS = """([columns, wanted]) => {
  const canvas = document.querySelector("#heat canvas");
  const pen = canvas.getContext("2d");
  const { data } = pen.getImageData(0, Math.round(canvas.height / 10), canvas.width, 1);
  const at = (column) => 4 * Math.floor(((column + 0.5) * canvas.width) / columns);
  return wanted.map((column) => [...data.slice(at(column), at(column) + 4)]);
}"""


# How light the swatches of the key are, as a greyscale picture has them.
LIGHTNESS = """() => [...document.querySelectorAll("#heat .swatch")].map((one) => {
  const [r, g, b] = getComputedStyle(one).backgroundColor.match(/[0-9]+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b;
})"""


@pytest.mark.parametrize("dark", [False, True])
def test_a_heat_map_is_lighter_and_bluer_where_it_is_faster(visit: Open, dark: bool) -> None:
    """After the speed-up more than before; a commit without results has a line of its own; slower,
    as fast and faster differ in grey."""
    page = visit("index.html", dark=dark)
    page.wait_for_selector("#heat[data-drawn]")
    columns = COMMITS - 1
    before, after, broken = page.evaluate(CELLS, [columns, [STEP - 3, columns - 1, BROKEN[0]]])
    assert after[2] - after[0] > before[2] - before[0] > 10
    assert sum(after[:3]) > sum(before[:3])
    assert broken[0] > broken[2]
    slow, same, fast = page.evaluate(LIGHTNESS)
    assert slow + 40 < same < fast - 40


def test_a_case_page_draws_its_graphs(visit: Open) -> None:
    """All series of the case, from a page in a folder, with links that lead back out of it."""
    page = visit(case_page(CASES[0]))
    first = figures(page, 2).first
    first.locator("svg[tabindex]").press("End")
    first.locator(".readout a").click()
    page.wait_for_url(f"**/commits/{SAMPLE.history.commits[-1].id}.html")
