"""The graphs of the site in a headless Chromium: marks, axes, filters, keyboard."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from pages.browser import Visit, figures
from pages.sample import (
    BROKEN,
    CASES,
    COMMITS,
    EVERY,
    HOSTILE,
    SPARSE,
    STEP,
    SUBJECTS,
    content,
    sparse,
)
from playwright.sync_api import Browser, Page

from flashbench.history.model import Machine
from flashbench.site.content import Graph, commit_page
from flashbench.site.publish import publish

pytestmark = pytest.mark.slow

SAMPLE = content()
HASHES = [commit.id for commit in SAMPLE.history.commits]
HOSTILE_COMMIT = next(i for i, subject in SUBJECTS.items() if subject == HOSTILE)
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


def test_every_graph_has_title_legend_and_units(visit: Open) -> None:
    """Each is named, and says what its axes and its marks are."""
    page = visit("graphs.html")
    page.get_by_role("button", name="Show more").click()
    drawn = figures(page, GRAPHS)
    for index in range(GRAPHS):
        one = drawn.nth(index)
        assert one.locator("figcaption").text_content() == SAMPLE.graphs[index].title
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
    """Of the percentiles of single samples that which is drawn along the edge, and no other."""
    known = sparse()
    (graph,) = known.graphs
    points = replace(graph.series.points, p99=graph.series.points.value * 30)
    series = replace(graph.series, points=points)
    history = replace(known.history, series=(series,))
    publish(replace(known, history=history, graphs=(Graph(series),)), tmp_path / "site")
    visited = Visit(browser, tmp_path / "site")
    page = visited.open("graphs.html#show=time&tail=1")
    items = figures(page, 1).first.locator(".legend li").all_text_contents()
    cut = [text for text in items if "cut where it leaves the picture" in text]
    assert [text.split()[0] for text in cut] == ["99th"]
    assert visited.complaints == []
    visited.close()


# Of each field the width of its text, and that which is there for it.
FIELDS = "form select:visible, form input[placeholder]:visible"
ROOM = """(fields) => fields.map((field) => {
  const style = getComputedStyle(field);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = style.font;
  const text = field.options ? field.selectedOptions[0].text : field.placeholder;
  const arrow = field.options ? 16 : 0;
  const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return [field.name, pen.measureText(text).width, room - arrow];
})"""


def test_what_a_filter_says_is_read_whole(visit: Open) -> None:
    """The choices and the example of a date fit into their fields on every screen."""
    page = visit("graphs.html")
    figures(page, 8)
    for width in (320, 390, 768, 1024, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        fields = page.eval_on_selector_all(FIELDS, ROOM)
        assert {"show", "axis", "from"} <= {name for name, _, _ in fields}
        assert all(needed <= room for _, needed, room in fields), (width, fields)


def test_every_choice_passes_its_graphs(browser: Browser, tmp_path: Path) -> None:
    """Of each filter, each value leaves the series that have it, and no other."""
    alone = sparse()
    (graph,) = alone.graphs
    machine, cuda = "other", CASES[1].replace("cpu", "cuda")
    others = (
        {"candidate": "theirs"},
        {"metric": "gpu_warm", "case": cuda},
        {"case": CASES[2]},
        {"machine": machine},
    )
    series = [
        graph.series,
        *(replace(graph.series, benchmark=str(i), **o) for i, o in enumerate(others)),
    ]
    graphs = tuple(Graph(one) for one in series)
    machines = (*alone.history.machines, Machine(machine))
    history = replace(alone.history, series=tuple(series), machines=machines)
    publish(replace(alone, history=history, graphs=graphs), tmp_path / "site")
    visited = Visit(browser, tmp_path / "site")
    page = visited.open("graphs.html")
    figures(page, len(graphs))
    titles = {"machine": 2, "candidate": 2, "dtype": 2, "mask": 2, "device": 2, "metric": 2}
    for label, values in titles.items():
        select = page.get_by_label(label)
        options = [one for one in select.locator("option").all_text_contents() if one != "any"]
        assert len(options) == values, label
        passed = []
        for value in options:
            select.select_option(value)
            name = select.get_attribute("name")
            page.wait_for_function(f"() => location.hash === '#{name}={value}'")
            shown = page.locator("figcaption").all_text_contents()
            assert page.locator("#count").text_content().startswith(f"{len(shown)} of 5 graphs")
            passed += shown
        assert sorted(passed) == sorted(one.title for one in graphs)
        page.get_by_role("button", name="Clear").click()
        figures(page, len(graphs))
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
    const graph = { lines: [line], failed: [], changes: [] };
    return flashbench.draw(svg, graph, view, x.map(() => commit), new Map(), []).stops.length;
}"""


def test_a_graph_may_have_any_number_of_points(visit: Open) -> None:
    """More of them than a function takes arguments are drawn."""
    assert visit("graphs.html").evaluate(LONG) == 150_000


def test_filters_pass_what_they_say(visit: Open) -> None:
    """Words, dtype, mask, machine and changes each leave the graphs that have them."""
    page = visit("graphs.html")
    figures(page, 8)
    page.get_by_label("case or series").fill("Q2048 causal")
    figures(page, 2)
    page.get_by_label("machine").select_option("box")
    figures(page, 1)
    page.get_by_role("button", name="Clear").click()
    figures(page, 8)
    page.get_by_label("dtype").select_option("bf16")
    figures(page, 2)
    page.get_by_label("mask").select_option("causal")
    figures(page, 0)
    assert page.locator("#count").text_content() == f"0 of {GRAPHS} graphs pass the filters."
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("with changes only").check()
    assert figures(page, 1).locator("figcaption").text_content() == SAMPLE.graphs[0].title


def test_the_address_keeps_the_state(visit: Open) -> None:
    """What is chosen stands in the address, and an address gives what was chosen."""
    page = visit("graphs.html")
    figures(page, 8)
    page.get_by_label("dtype").select_option("bf16")
    page.get_by_label("show", exact=True).select_option("time")
    page.get_by_label("from commit").fill(HASHES[STEP][:8])
    page.wait_for_function("() => location.hash.includes('from=')")
    again = visit(f"graphs.html{page.url.partition('graphs.html')[2]}")
    drawn = figures(again, 2)
    assert again.get_by_label("dtype").input_value() == "bf16"
    assert drawn.first.locator(".plot .title").text_content() == "time (µs)"
    assert drawn.first.locator(".plot .dot.time").count() == COMMITS - STEP
    assert drawn.first.locator(".plot .dot.control").count() == COMMITS - STEP
    again.evaluate("location.hash = '#dtype=fp16&machine=box&case=causal'")
    figures(again, 2)


def test_an_untrusted_address_is_harmless(visit: Open) -> None:
    """Values that are no choice filter nothing, and none of them is taken for markup."""
    page = visit("graphs.html#dtype=int4&show=%3Cimg%20src=x%3E&from=zz&to=2025-10-12&bogus=1")
    first = figures(page, 8).first
    assert page.get_by_label("dtype").input_value() == ""
    assert page.get_by_label("from commit").get_attribute("aria-invalid") == "true"
    assert first.locator(".plot .dot").count() == 4  # the days from the first to 2025-10-12
    page = visit("graphs.html#case=%3Cimg%20src=x%20onerror=1%3E")
    figures(page, 0)


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
    fields = ["case", "show", "axis", "from", "to", "changed", "quartiles", "tail", "button"]
    assert names == [*5 * ["a"], *fields, "svg", "summary"]
    assert few.get_by_label("with changes only").is_checked()
    few.locator("summary").focus()
    few.keyboard.press("Enter")
    few.locator("tbody tr").first.wait_for()


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
    """Commits of one day are told apart by the time; numbers have the digits that differ."""
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


def test_the_pointer_shows_the_nearest_commit(visit: Open) -> None:
    """Where the mouse or a finger is, the commit there is named."""
    page = visit("graphs.html")
    first = figures(page, 8).first
    svg = first.locator("svg[tabindex]")
    box = svg.bounding_box()
    svg.click(position={"x": box["width"] - 20, "y": 100})
    assert f"Change number {COMMITS - 1}" in first.locator(".readout").text_content()


def test_a_graph_is_a_table_too(visit: Open) -> None:
    """The table has a row for each point and each commit without one, with the same numbers."""
    first = figures(visit("graphs.html"), 8).first
    first.locator("summary").click()
    rows = first.locator("tbody tr")
    rows.first.wait_for()
    assert rows.count() == COMMITS
    assert "speed-up 1.3" in rows.first.text_content()
    assert "not measured" in rows.nth(20).text_content()
