"""Axes of the site's graphs, in a headless Chromium: which commits they have, and labels."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from pages.browser import Visit, figures
from pages.sample import EVERY, SPARSE, sparse
from playwright.sync_api import Browser, Page

from flashbench.site.content import Graph
from flashbench.site.publish import publish

pytestmark = pytest.mark.slow

Open = Callable[..., Page]


def places(page: Page, marks: str) -> list[float]:
    """Where marks of the graph are, from the left, in its own units."""
    return page.eval_on_selector_all(
        f".plot {marks}",
        "marks => marks.map(m => { const box = m.getBBox(); return box.x + box.width / 2; })",
    )


def test_commits_without_a_measurement_take_no_room(few: Page) -> None:
    """Where most have none, the axis has those that were tried alone, evenly; a change still lies
    between the measured commits around it, and failed builds where they are."""
    assert few.get_by_label("commits on the axis").input_value() == "tried"
    dots, gaps = places(few, ".dot"), places(few, ".gap")
    tried = sorted(dots + gaps)
    steps = [right - left for left, right in pairwise(tried)]
    assert len(tried) == SPARSE // EVERY + 3
    assert max(steps) - min(steps) < 0.2
    assert "23 tried of 200 commits, oldest first" in few.locator(".plot").text_content()
    edges = few.eval_on_selector(".plot .range", "m => [m.getBBox().x, m.getBBox().width]")
    assert dots[10] < edges[0] < gaps[2] < dots[11] <= edges[0] + edges[1] < dots[12]
    assert abs(places(few, "line.change")[0] - dots[11]) < 0.2
    few.get_by_label("commits on the axis").select_option("all")
    few.wait_for_function("() => location.hash === '#axis=all'")
    figures(few, 1)
    assert few.locator(".plot .dot").count() == len(dots)
    assert "commits, oldest first" in few.locator(".plot").text_content()
    assert places(few, ".gap")[0] < dots[4]
    assert few.get_by_role("button", name="Clear").click() is None
    few.wait_for_function("() => location.hash === ''")
    assert few.get_by_label("commits on the axis").input_value() == "tried"


def test_labels_of_the_axes_differ_and_are_no_longer_than_needed(few: Page, visit: Open) -> None:
    """Commits of one day are distinguished by time; numbers show the digits that differ."""
    labels = few.locator(".plot text.commit").all_text_contents()
    assert labels[0] == "2025-10-09 09:00"
    assert len(set(labels)) == len(labels) >= 5
    assert all(re.fullmatch(r"\d\d:\d\d", label) for label in labels[1:])
    assert "oldest first (UTC)" in few.locator(".plot").text_content()
    page = visit("graphs.html")
    first = figures(page, 8).first
    days = first.locator(".plot text.commit").all_text_contents()
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) for day in days)
    numbers = first.locator(".plot text.number").all_text_contents()
    assert len(numbers) >= 3
    assert any(not number.endswith("0") for number in numbers)
    assert len({len(number) for number in numbers}) == 1


# Whether a graph was drawn for the room that there is.
FILLS = "svg => svg.viewBox.baseVal.width === svg.parentElement.clientWidth"


@pytest.mark.parametrize("hours", [0.03, 0.36, 3.0])
@pytest.mark.parametrize("tried", [SPARSE // EVERY, 12])
def test_labels_of_the_axis_do_not_touch(
    browser: Browser, tmp_path: Path, hours: float, tried: int
) -> None:
    """On every screen, also where neighbours both have a date and a time of day."""
    known = sparse()
    commits = tuple(
        replace(one, time=1_760_048_040 + round(3600 * hours * i))
        for i, one in enumerate(known.history.commits)
    )
    (graph,) = known.graphs
    points = graph.series.points[:tried]
    series = replace(graph.series, points=points, control=None, ratio=None)
    history = replace(known.history, commits=commits, series=(series,), gaps=())
    publish(replace(known, history=history, graphs=(Graph(series),)), tmp_path / "site")
    visited = Visit(browser, tmp_path / "site")
    page = visited.open("graphs.html")
    for width in (320, 390, 768, 1024, 1280, 1600):
        visited.resize(width)
        figures(page, 1)
        assert page.eval_on_selector(".plot svg", FILLS)
        edges = page.eval_on_selector_all(
            ".plot text.commit",
            "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])",
        )
        assert len(edges) >= 2
        assert all(right + 5 < left for (_, right), (left, _) in pairwise(edges)), (width, edges)
    assert visited.complaints == []
    visited.close()
