"""The data of figures: ticks, families of lengths, drawn values."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import make_cases, make_run

from flashbench.figures.chapter import chapter
from flashbench.figures.figure import (
    AT_ONCE,
    NOT_FOLDED,
    Axis,
    Data,
    Dots,
    Figure,
    Line,
    Panel,
    folded,
    linear_ends,
    log_ends,
)
from flashbench.figures.speedups import against, by_shape, judged
from flashbench.figures.svg import DARK, LIGHT, SHAPES, WIDTH, panel_svg, sheet
from flashbench.figures.times import families, scaling
from flashbench.operations.attention.operation import attention_case, grid
from flashbench.operations.attention.shapes import GRID, MODELS, Shape
from flashbench.report import report_one
from flashbench.run_reader import read_for_analysis
from flashbench.runfile import RunFile

RESULTS = Path(__file__).parents[2] / "results"
NUMBERS = st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=20)


@given(NUMBERS)
def test_ticks_lie_on_the_axis(numbers: list[float]) -> None:
    """Few, ascending, inside the ends, which hold every number."""
    for scale, ends in (("log", log_ends(numbers)), ("linear", linear_ends(numbers))):
        assert ends[0] < min(numbers) <= max(numbers) < ends[1]
        ticks = [number for number, _ in Axis("", scale, ends).ticks]  # type: ignore[arg-type]
        assert len(ticks) <= 8
        assert ticks == sorted(set(ticks))
        assert all(ends[0] * 0.999 - 1 <= tick <= ends[1] * 1.001 for tick in ticks)
        assert all(map(math.isfinite, ticks))


@pytest.mark.parametrize(
    ("name", "series", "title"),
    [
        ("h200-fa4", ("flashbench", "fa4"), "cuda, bf16, full, head dim 64"),
        ("cpu", ("fp32", "fp16", "bf16"), "cpu, causal, head dim 64"),
    ],
)
def test_speedups_name_every_case(name: str, series: tuple[str, ...], title: str) -> None:
    """Rows are shapes; what is marked side by side is in the legend, the rest in the title."""
    report = report_one(read_for_analysis(RESULTS / f"{name}.json"))
    figure = by_shape(judged(report), against(report))
    assert (figure.series, figure.panels[0].title) == (series, title)
    said = [
        text for p in figure.panels for m in p.marks if isinstance(m, Dots) for text in m.titles
    ]
    ids = {one.case.id for one in judged(report)}
    assert {text.partition(": ")[0] for text in said} == ids
    assert len(said) == len(report.comparisons)
    assert all(p.y.rows for p in figure.panels)


def test_a_part_of_a_group_says_whose_mean_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean is that of all rows, whichever of them the panel shows."""
    report = report_one(read_for_analysis(RESULTS / "cpu.json"))
    whole = by_shape(judged(report), "SDPA").panels
    assert not any(" of all " in panel.x.label for panel in whole)
    monkeypatch.setattr("flashbench.figures.speedups._ROWS", 1)
    parts = [p for p in by_shape(judged(report), "SDPA").panels if ", rows 1 to 1" in p.title]
    assert [p.x.label for p in parts] == [
        f"{p.x.label} of all {len(p.y.rows)} rows" for p in whole if len(p.y.rows) > 1
    ]
    assert parts
    for panel in parts:
        assert f">{panel.x.label}, log</text>" in panel_svg(panel)


@given(st.lists(st.sampled_from("abcdefghijklmnop"), max_size=100))
def test_folding_keeps_every_panel(groups: list[str]) -> None:
    """Each panel once: all at once if they are few, else some of every group."""
    axis = Axis("", "linear", (0, 1))
    panels = [Panel(str(n), axis, axis, [], "", group=name) for n, name in enumerate(groups)]
    shown, others = folded(panels)
    folded_away = [(name, panel) for name, rest in others for panel in rest]
    assert all(panel.group == name for name, panel in folded_away)
    both = [*shown, *(panel for _, panel in folded_away)]
    assert sorted(int(panel.title) for panel in both) == [*range(len(panels))]
    assert {panel.group for panel in shown} == set(groups)
    if len(panels) > NOT_FOLDED:
        assert len(shown) <= max(AT_ONCE, len(set(groups)))
    else:
        assert shown == panels


def test_families_differ_in_length_alone_where_they_can() -> None:
    """Four lengths of one shape are a family; others of the same heads stand together; each case is
    in one at most."""
    lengths = (256, 512, 1024, 2048)
    strict = [attention_case(Shape(1, 8, 8, n, n, 64), "fp16", False, "cpu") for n in lengths]
    loose = [
        attention_case(Shape(4096 // n, 8, 8, n, n, 128), "fp16", False, "cpu") for n in lengths
    ]
    found = dict(families([*loose, *strict]))
    assert found == {"fp16, full, d64, b1-h8": strict, "fp16, full, d128, h8": loose}
    for shapes in (GRID, MODELS):
        groups = families(grid(shapes, ("fp16", "bf16"), (False, True), "cuda"))
        members = [case for _, cases in groups for case in cases]
        assert len(members) == len(set(members))
        for _, cases in groups:
            keys = [case.sizes["k_len"] for case in cases]
            assert keys == sorted(set(keys))
            assert len(keys) > 1
            assert len({(c.dtype, *c.options.values(), c.sizes["head_dim"]) for c in cases}) == 1


@pytest.mark.parametrize(("count", "lines"), [(2, 0), (4, 2)])
def test_two_lengths_have_no_line(count: int, lines: int) -> None:
    """Their marks stand alone, and in the panel's words: a line would be straight anyway."""
    report = report_one(make_run(np.random.default_rng(0), cases=make_cases(count), launches=6))
    (panel,) = scaling(report.data[0], "rate").panels
    assert sum(isinstance(mark, Line) for mark in panel.marks) == lines
    assert [len(mark.x) for mark in panel.marks if isinstance(mark, Dots)] == [count] * 2
    assert panel.summary.count(" at 64 keys, ") == 2


def test_a_picture_may_follow_the_screen() -> None:
    """For the README, dark too; a picture for paper is white everywhere."""
    figure = Figure("x", "x", "", [], (), Data([], []))
    assert "prefers-color-scheme" in sheet(figure, dark=True)
    assert "prefers-color-scheme" not in sheet(figure)


# Machado, Oliveira & Fernandes 2009, severity 1; of linear RGB.
SIGHT = {
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@pytest.mark.parametrize("sight", SIGHT)
def test_series_differ_for_the_colour_blind(colours: tuple[str, ...], sight: str) -> None:
    """Any two colours are 9 apart in CIE Lab (2.3 can be seen), and no two have one shape."""
    levels = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours]) / 255
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(SIGHT[sight]).T, 0, 1) @ XYZ.T / [0.9505, 1, 1.089]
    f = np.where(seen > 0.008856, np.cbrt(seen), 7.787 * seen + 16 / 116)
    lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=2) + 100 * np.eye(len(lab))
    assert apart.min() > 9
    assert len(set(SHAPES)) == len(SHAPES) == len(colours)


def extreme(kind: str) -> RunFile:
    """Three cases whose times are as far apart, as equal or as wild as a run file may hold."""
    rng = np.random.default_rng(0)
    run = make_run(rng, cases=make_cases(3), launches=9)
    for result in (result for launch in run.launches for result in launch.results):
        for timing in result.timings:
            wild = (10.0 ** rng.uniform(-12, 8.9, len(timing.seconds))).tolist()
            fixed = {"apart": 1e-12 if result.candidate == "ours" else 9e8, "equal": 1e-3}
            timing.seconds = wild if kind == "wild" else [fixed[kind]] * len(timing.seconds)
    return run


@pytest.mark.parametrize("kind", ["apart", "equal", "wild"])
def test_any_times_can_be_drawn(kind: str) -> None:
    """Every place in a picture is a finite number inside of it."""
    found = chapter("run", extreme(kind)).figures
    assert len(found) == 6
    for figure in found:
        drawn = sheet(figure)
        assert not re.search(r'"[^"]*\b(nan|inf)\b[^"]*"', drawn)
        width, height = re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn).groups()  # type: ignore[union-attr]
        for x in re.findall(r' c?x="([0-9.]+)"', drawn):
            assert 0 <= float(x) <= float(width)
        for y in re.findall(r' c?y="([0-9.]+)"', drawn):
            assert 0 <= float(y) <= float(height)


def test_a_picture_of_many_panels_and_series() -> None:
    """It shows those that a page has open, and a legend in as many lines as it takes."""
    axis = Axis("", "linear", (0, 1))
    panels = [Panel(f"panel {n}", axis, axis, [], "", group=str(n % 2)) for n in range(30)]
    names = tuple(f"a candidate with number {n}" for n in range(6))
    drawn = sheet(Figure("x", "x", "", panels, names, Data([], [])))
    assert drawn.count(">panel ") == AT_ONCE
    legend = re.findall(r'<text x="(\d+)" y="(\d+)">a candidate with number', drawn)
    assert len(legend) == len(names)
    assert {y for _, y in legend} == {"34", "50"}
    assert max(int(x) for x, _ in legend) < 2 * WIDTH - 24 * 6
