"""The graphs of the site in a headless Chromium: marks, legends, units, tables."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pages.browser import Visit, figures
from pages.sample import BROKEN, CASES, COMMITS, content, sparse
from playwright.sync_api import Browser, Page

from flashbench.site.content import Graph
from flashbench.site.publish import publish

pytestmark = pytest.mark.slow

SAMPLE = content()
GRAPHS = 2 * len(CASES) + 1
Open = Callable[..., Page]


def test_a_graph_has_all_its_marks(visit: Open) -> None:
    """Points, line, interval, quartiles, failed builds with the reason and changes are drawn."""
    first = figures(visit("graphs.html"), 8).first.locator(".plot")
    points = len(SAMPLE.graphs[0].series.points)
    assert first.locator(".dot.speedup").count() == points
    assert first.locator("path.value.speedup").get_attribute("d").count("L") == points - 1
    assert first.locator("path.band.speedup").get_attribute("d").count("L") == 2 * points - 1
    assert first.locator("path.quartile").count() == 2
    gaps = first.locator(".gap")
    assert gaps.count() == len(BROKEN)
    assert "missing header: csrc/kernel.cpp:3" in gaps.first.locator("title").text_content()
    assert first.locator(".failed").count() == 1
    assert first.locator(".range").count() == 1
    assert first.locator("text.up").text_content() == "▲ 20.0 %"
    assert first.locator("text.jump").text_content() == "(▼ 10.0 %)"


def test_every_graph_has_title_legend_and_units(visit: Open) -> None:
    """Each is named, and says what its axes and its marks are."""
    page = visit("graphs.html")
    page.get_by_role("button", name="Show more").click()
    drawn = figures(page, GRAPHS)
    for index in range(GRAPHS):
        one = drawn.nth(index)
        assert one.locator("figcaption h2").text_content() == SAMPLE.graphs[index].title
        title = one.locator(".plot text.title").text_content()
        assert title in ("speed-up over SDPA (\u00d7, above 1 is faster)", "value (bytes)")
        assert "commits, oldest first" in one.locator(".plot").text_content()
        assert "build failed" in one.locator(".legend").text_content()
        assert "arrow keys" in one.get_by_role("img").first.get_attribute("aria-label").lower()


def test_times_have_titles_legends_and_units(visit: Open) -> None:
    """Both lines are named, with their intervals and percentiles, which can be switched off."""
    page = visit("graphs.html#show=time")
    first = figures(page, 8).first
    assert first.locator(".plot text.title").text_content() == "time (\u00b5s)"
    legend = first.locator(".legend").text_content()
    for text in ("kernel", "SDPA", "99 % interval", "25th and 75th percentile", "change"):
        assert text in legend
    assert first.locator(".plot .quartile").count() == 4
    page.get_by_label("25th and 75th percentile").uncheck()
    page.wait_for_function("() => !document.querySelector('.plot .quartile')")
    assert "percentile" not in figures(page, 8).first.locator(".legend").text_content()


def test_percentiles_of_single_samples_can_be_shown(visit: Open) -> None:
    """The 90th and 99th of both lines, in the legend and beside the cursor; of speed-ups none."""
    page = visit("graphs.html#show=time&tail=1")
    first = figures(page, 8).first
    assert page.get_by_label("90th and 99th percentile").is_checked()
    legend = first.locator(".legend").text_content()
    for name in ("p90", "p99"):
        assert first.locator(f".plot path.{name}").count() == 2
        assert f"{name[1:]}th percentile of the samples of all launches" in legend
    first.locator("svg[tabindex]").press("Home")
    assert re.search(r", p90 [\d.]+, p99 [\d.]+", first.locator(".readout").text_content())
    page.get_by_label("show", exact=True).select_option("speedup")
    page.wait_for_function("() => document.querySelector('.plot path.value.speedup')")
    assert figures(page, 8).first.locator("path.p90").count() == 0


def test_the_legend_says_what_leaves_the_picture(browser: Browser, tmp_path: Path) -> None:
    """The percentile of single samples that is drawn along the edge, and no other."""
    known = sparse()
    (graph,) = known.graphs
    points = replace(graph.series.points, p99=graph.series.points.value * 30)
    series = replace(graph.series, points=points)
    history = replace(known.history, series=(series,))
    publish(replace(known, history=history, graphs=(Graph(series),)), tmp_path / "site")
    visited = Visit(browser, tmp_path / "site")
    page = visited.open("graphs.html#show=time&tail=1")
    items = figures(page, 1).first.locator(".legend li").all_text_contents()
    cut = [text for text in items if "cut at the thick dashes" in text]
    assert [text.split()[0] for text in cut] == ["99th"]
    assert visited.complaints == []
    visited.close()


LONG = """() => {
    const count = 150_000;
    const x = Array.from({ length: count }, (_, i) => i);
    const v = x.map((i) => 1 + (i % 7) / 100);
    const line = { role: "speedup", unit: "", scale: 1, x, v, lo: v.map((n) => n - 0.01), hi: v };
    const commit = { hash: "0123456789", date: "2024-01-01", time: "00:00" };
    const view = { show: "speedup", axis: "all", from: 0, to: count - 1 };
    const svg = flashbench.shape("svg");
    document.body.append(svg);
    const graph = { lines: [line], failed: [], changes: [], jumps: [] };
    return flashbench.draw(svg, graph, view, x.map(() => commit), new Map(), []).stops.length;
}"""


def test_a_graph_may_have_any_number_of_points(visit: Open) -> None:
    """More of them than a function takes arguments are drawn."""
    assert visit("graphs.html").evaluate(LONG) == 150_000


def test_a_graph_is_a_table_too(visit: Open) -> None:
    """The table has a row for each point and each commit without one, with the same numbers."""
    first = figures(visit("graphs.html"), 8).first
    first.locator("summary").click()
    rows = first.locator("tbody tr")
    rows.first.wait_for()
    assert rows.count() == COMMITS
    assert "speed-up 1.3" in rows.first.text_content()
    assert "not measured" in rows.nth(20).text_content()
