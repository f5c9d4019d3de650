"""Filters of the site's graphs, and the address that keeps them, in a headless Chromium."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pages.browser import Visit, figures
from pages.sample import CASES, COMMITS, STEP, content, sparse
from playwright.sync_api import Browser, Page

from flashbench.history.model import Machine
from flashbench.site.content import Graph
from flashbench.site.publish import publish

pytestmark = pytest.mark.slow

SAMPLE = content()
HASHES = [commit.id for commit in SAMPLE.history.commits]
GRAPHS = 2 * len(CASES) + 1
Open = Callable[..., Page]


# For each field the width of its text, and the width there is for it.
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
    """Each value of each filter leaves the series that have it, and no other."""
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
        select = page.get_by_label(label, exact=True)
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


def test_filters_pass_what_they_say(visit: Open) -> None:
    """Words, dtype, mask, machine and changes each leave the graphs that have them."""
    page = visit("graphs.html")
    figures(page, 8)
    page.get_by_label("case (words)").fill("Q2048 causal")
    figures(page, 2)
    page.get_by_label("machine", exact=True).select_option("box")
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
    """The choice is stored in the URL, and a URL restores the choice."""
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
    """Invalid values filter nothing, and none becomes markup."""
    page = visit("graphs.html#dtype=int4&show=%3Cimg%20src=x%3E&from=zz&to=2025-10-12&bogus=1")
    first = figures(page, 8).first
    assert page.get_by_label("dtype").input_value() == ""
    assert page.get_by_label("from commit").get_attribute("aria-invalid") == "true"
    assert first.locator(".plot .dot").count() == 4  # the days from the first to 2025-10-12
    page = visit("graphs.html#case=%3Cimg%20src=x%20onerror=1%3E")
    figures(page, 0)
