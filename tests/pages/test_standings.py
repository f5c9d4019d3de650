"""The geometric mean of a device's cases, its state, and the numbers of the heat map."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages.sample import BROKEN, CASES, COMMITS, HOSTILE, STEP, content, sparse

from flashbench.history.model import Points
from flashbench.site.case_names import in_short, in_words
from flashbench.site.content import Graph, case_page
from flashbench.site.heat_map import COLUMNS, heat_map
from flashbench.site.jumps import jumps
from flashbench.site.publish import publish
from flashbench.site.slower import slower
from flashbench.site.sparkline import of_change, strip
from flashbench.site.standings import (
    Standing,
    geometric_mean,
    since,
    standings,
    state_of,
    with_changes,
)
from flashbench.stats.quantile import interval_ranks

SAMPLE = content()
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def points(commits: list[int], values: list[float], spread: float = 0.1) -> Points:
    value, unknown = np.array(values), np.full(len(values), np.nan)
    ends = value / (1 + spread), value * (1 + spread)
    launches = np.full(len(values), 10)
    return Points(np.array(commits), value, *ends, *ends, launches, unknown, unknown)


@given(st.lists(st.lists(st.floats(0.1, 10), min_size=4, max_size=4), min_size=1, max_size=6))
def test_the_mean_of_whole_series_is_the_geometric_mean(rows: list[list[float]]) -> None:
    """Commit by commit; without samples of launches it has no interval."""
    mean, cases = geometric_mean([points([0, 2, 3, 7], row) for row in rows])
    assert mean is not None
    assert cases == len(rows)
    assert mean.commit.tolist() == [0, 2, 3, 7]
    np.testing.assert_allclose(mean.value, np.exp(np.log(rows).mean(axis=0)))
    assert np.isnan([mean.low, mean.high]).all()


@given(st.integers(0, 2**32), st.integers(8, 12))
def test_the_interval_of_the_mean_is_that_of_its_launches(seed: int, launches: int) -> None:
    """The order statistics of the launches' means; a case that a commit did not measure lends
    its samples of before, and one launch less is one less of the mean."""
    samples = np.exp(np.random.default_rng(seed).normal(0, 0.1, (3, 4, launches)))
    samples[1, 2, -1] = np.nan
    members = []
    for one in samples:
        places = [0, 1, 3] if len(members) == 2 else [0, 1, 2, 3]
        medians = np.nanmedian(one[places], axis=1).tolist()
        members.append(replace(points(places, medians), samples=one[places]))
    samples[2, 2] = samples[2, 1]
    mean, _ = geometric_mean(members)
    assert mean is not None
    for place, expected in enumerate(np.exp(np.log(samples).mean(axis=0))):
        kept = expected[np.isfinite(expected)]
        assert mean.launches[place] == len(kept) == launches - (place == 2)
        np.testing.assert_allclose(np.log(mean.value[place]), np.median(np.log(kept)), atol=1e-12)
        ranks = interval_ranks(len(kept), 0.5, 0.99)
        ends = np.sort(kept)[[rank - 1 for rank in ranks]] if ranks else [np.nan, np.nan]
        np.testing.assert_allclose([mean.low[place], mean.high[place]], ends)


def test_a_case_that_is_not_measured_keeps_its_number() -> None:
    """A mean over fewer cases would jump although nothing changed."""
    whole = points(list(range(8)), [1.0] * 8)
    holed = points([0, 1, 2, 4, 5, 6, 7], [4.0] * 7)
    mean, cases = geometric_mean([whole, holed])
    assert mean is not None
    assert cases == 2
    np.testing.assert_allclose(mean.value, 2.0)
    assert mean.commit.tolist() == list(range(8))


def test_a_case_that_few_commits_measured_is_no_part() -> None:
    """Nor does a commit count that measured fewer than half of the cases."""
    some = [points([0, 1, 2, 3], [1.0] * 4) for _ in range(3)]
    mean, cases = geometric_mean([*some, points([3], [100.0])])
    assert (mean is None, cases) == (False, 3)
    lonely = points([0, 1, 2, 3, 4], [1.0] * 5)
    mean, _ = geometric_mean([lonely, *some])
    assert mean is not None
    assert mean.commit.tolist() == [0, 1, 2, 3]


@given(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=12))
def test_since_is_where_the_newest_state_began(values: list[float]) -> None:
    """All commits from there on have the state of the newest, and the one before has another."""
    series = points([3 * i for i in range(len(values))], values)
    start = since(series)
    place = 0 if start is None else start // 3
    assert len({state_of(v / 1.1, v * 1.1) for v in values[place:]}) == 1
    assert start is None or values[place - 1] != values[place]


def test_each_device_has_a_standing() -> None:
    """The sample has one a machine, whose mean is that of five equal cases; other benchmarks have
    none."""
    found = standings(SAMPLE.graphs)
    assert sorted(one.machine for one in found) == sorted(["box", HOSTILE])
    for one in found:
        assert (one.cases, one.device, one.metric) == (len(CASES), "cpu", "wall")
        assert one.points is not None
        expected = 1 / SAMPLE.graphs[0].series.ratio.value
        np.testing.assert_allclose(one.points.value, expected)
    for one in with_changes(found, SAMPLE.history, {}):
        assert one.mean is not None
        assert [change.commit for change in one.mean.changes] == [STEP]


def numbers(heat: dict) -> np.ndarray:
    """(rows, columns): the speed-ups as the page decodes them; NaN where there is none."""
    level = np.array([[DIGITS.index(one) for one in row] for row in heat["cells"]])
    level = 64 * level[:, ::2] + level[:, 1::2]
    shown = heat["widest"] ** (2 * (level - 1) / heat["levels"] - 1)
    return np.where(level, shown, np.nan)


def test_a_heat_map_has_every_speedup_to_a_thousandth() -> None:
    """For each case at each tried commit; the slowest case first, commits without results named."""
    standing = next(one for one in standings(SAMPLE.graphs) if one.machine == "box")
    heat = heat_map(standing, SAMPLE.history.gaps)
    assert [first for first, last in heat["columns"]] == [
        i
        for i in range(COMMITS)
        if i != 20  # neither measured nor failed to build
    ]
    assert [heat["columns"][i][0] for i in heat["broken"]] == list(BROKEN)
    shown = numbers(heat)
    expected = 1 / SAMPLE.graphs[0].series.ratio.value
    for row in shown:
        np.testing.assert_allclose(row[~np.isnan(row)], expected, rtol=2e-3)
    assert np.isnan(shown[:, heat["broken"]]).all()
    assert heat["rows"][0].keys() == {"name", "page", "graph"}


def test_a_long_history_is_a_heat_map_of_stretches() -> None:
    """As many columns as a phone can show, each with its newest number."""
    known = SAMPLE.graphs[0].series
    many = list(range(1000))
    series = replace(known, ratio=points(many, [1 / (1 + i / 1000) for i in many]))
    standing = Standing("box", "cpu", "wall", "kernel", (Graph(series),), None, 1)
    heat = heat_map(standing, ())
    assert len(heat["columns"]) == COLUMNS
    assert (heat["columns"][0][0], heat["columns"][-1][1]) == (0, 999)
    newest = [1 + last / 1000 for _, last in heat["columns"]]
    np.testing.assert_allclose(numbers(heat)[0], newest, rtol=2e-3)


def test_a_sparkline_has_its_change() -> None:
    """Line and range lie inside of the picture, the step at the change."""
    graph = SAMPLE.graphs[0]
    (change,) = graph.changes
    drawn = of_change(graph, change)
    places = [tuple(map(float, one.split(","))) for one in drawn["line"][1:].split("L")]
    assert all(0 <= x <= 100 and 0 <= y <= drawn["height"] for x, y in places)
    assert drawn["first"] < drawn["at"] <= drawn["first"] + drawn["width"] <= 101
    before, after = [y for x, y in places if x <= drawn["at"]][-2:]
    assert after < before - drawn["height"] / 3


def test_the_strip_of_builds_has_every_commit() -> None:
    """Where most were tried all have a place, else only those that were."""
    runs = strip(5, {0, 1, 4}, {2})
    assert [(one["state"], one["count"]) for one in runs] == [
        ("measured", 2), ("failed", 1), ("untried", 1), ("measured", 1),
    ]  # fmt: skip
    assert math.isclose(sum(one["width"] for one in runs), 100)
    assert [one["count"] for one in strip(100, {0, 50}, {99})] == [2, 1]


def answers(folder: Path) -> str:
    """What the front page answers, as a reader sees it."""
    page = (folder / "index.html").read_text()
    found = page.partition('<dl class="answers">')[2].partition("</dl>")[0]
    return " ".join(re.sub("<[^>]*>", " ", found).split())


def test_the_front_page_answers_first(tmp_path: Path) -> None:
    """Faster or not and since when, what got slower, what changed last, what is broken."""
    publish(SAMPLE, tmp_path / "a")
    said = answers(tmp_path / "a")
    newest = 1 / SAMPLE.graphs[0].series.ratio.value[-1]
    band = f"{newest / 1.02:.3f} to {newest * 1.02:.3f}"
    assert f"{newest:.3f}\u00d7 faster on A CPU (5 cases; {band}): since the first measured" in said
    assert f"No : of {len(SAMPLE.graphs)} series none has a slowdown" in said
    assert f"Last confirmed change: {SAMPLE.history.commits[STEP].id[:10]} of" in said
    assert "faster in 1 series ." in said
    assert "provisional" not in said
    assert "Nothing now : the newest commit that was tried" in said
    first, *others = SAMPLE.graphs
    (change,) = first.changes
    shift = replace(change.speedup, value=math.log(0.8))
    worse = replace(first, changes=(replace(change, speedup=shift),))
    publish(replace(SAMPLE, graphs=(worse, *others)), tmp_path / "b")
    said = answers(tmp_path / "b")
    total = len(SAMPLE.graphs)
    of_gpu = replace(worse.series, metric="gpu_warm", environment="gpu")
    more = replace(worse, series=replace(worse.series, environment="more"))
    mixed = replace(SAMPLE, graphs=(worse, replace(worse, series=of_gpu), more))
    assert slower(mixed)["sure"]["by"] == "2 by eager wall time and 1 by GPU time, warm L2"
    assert f"Yes: 1 of {total} series , by eager wall time, up to 20 % slower on box, at" in said
    assert "speed \u00d7 0.800 in b1-h8-q512-d64-fp16-full , eager wall time, on box" in said
    assert "slower in 1 series" in said
    ratio = first.series.ratio
    value = np.append(ratio.value[:-1], 2 * ratio.value[-1])
    ratio = replace(ratio, value=value, low=value / 1.01, high=value * 1.01)
    newest = Graph(replace(first.series, ratio=ratio), (), jumps(ratio, ()))
    publish(replace(SAMPLE, graphs=(newest, *others)), tmp_path / "c")
    said = answers(tmp_path / "c")
    fell = f"{100 * (1 - value[-2] / value[-1]):.0f} %"
    assert f"Maybe: 1 of {total} series , by eager wall time, up to {fell} slower on box." in said
    assert '<details class="answer">' in (tmp_path / "c/index.html").read_text()  # is printed
    assert "no tests: a series whose speed never changed can be in them" in said
    assert "Too new to judge , 1 series: slower at the newest commits than just before" in said
    assert f"at {SAMPLE.history.commits[-1].id[:10]}" in said.partition("Too new")[2]
    later = replace(change, commit=STEP + 8, speedup=shift, provisional=True)
    publish(
        replace(SAMPLE, graphs=(replace(first, changes=(change, later)), *others)), tmp_path / "d"
    )
    said = answers(tmp_path / "d")
    assert f"Maybe: 1 of {total} series , by eager wall time, up to 20 % slower on box." in said
    before, after = (SAMPLE.history.commits[i].id[:10] for i in (STEP, STEP + 8))
    assert f"Last confirmed change: {before} of" in said
    assert f"Since then 1 provisional change , the newest at {after} of" in said


def test_the_front_page_of_a_tip_that_is_broken_says_so(tmp_path: Path) -> None:
    """And with nothing measured beside SDPA it claims no speed."""
    known = sparse()
    gap = replace(known.history.gaps[0], commit=199)
    history = replace(known.history, gaps=(*known.history.gaps, gap))
    publish(replace(known, history=history), tmp_path / "a")
    assert "has no results : compile error; 4 of 24" in answers(tmp_path / "a")
    ratio = known.graphs[0].series.ratio
    no_samples = replace(ratio, samples=np.empty((0, 0)))
    graph = Graph(replace(known.graphs[0].series, ratio=no_samples))
    publish(replace(known, graphs=(graph,)), tmp_path / "c")
    said = answers(tmp_path / "c").partition("Did anything")[0]
    assert "as fast, without an interval on A CPU (1 case)" in said
    assert "since the first" not in said
    four = replace(ratio, samples=ratio.samples[:, :4])
    publish(replace(known, graphs=(Graph(replace(graph.series, ratio=four)),)), tmp_path / "d")
    assert "as fast, by 4 launches, too few for an interval, on A CPU" in answers(tmp_path / "d")
    timed = replace(known.graphs[0].series, ratio=None, control=None)
    publish(replace(known, graphs=(Graph(timed),)), tmp_path / "b")
    assert "faster than SDPA" not in answers(tmp_path / "b")


@pytest.mark.parametrize(
    ("case", "short", "words"),
    [
        (
            "b1-h8-q512-d64-bf16-causal-cuda",
            "b1-h8-q512-d64-bf16-causal",
            "batch 1, 8 heads, 512 tokens, head dim 64, bf16, causal mask",
        ),
        (
            "b1-h32-g8-q1-k4096-d128-fp16-full-cuda",
            "b1-h32-g8-q1-k4096-d128-fp16-full",
            "batch 1, 32 heads on 8 key heads, 1 query, 4096 keys, head dim 128, fp16, no mask",
        ),
        ("somebody's <case>", "somebody's <case>", ""),
    ],
)
def test_a_case_is_said_in_words_and_short(case: str, short: str, words: str) -> None:
    """The id without the device; another tool's name is unchanged."""
    assert (in_short(case), in_words(case)) == (short, words)


def test_pages_of_cases_of_like_names_differ() -> None:
    """What a file name cannot have does not make two cases share one."""
    names = {case_page(name) for name in ("a/b", "a b", "", "..", "x" * 500, HOSTILE)}
    assert len(names) == 6
    assert all(re.fullmatch(r"cases/[A-Za-z0-9-]*\.html", name) for name in names)


def test_a_case_has_all_its_numbers_on_its_page(tmp_path: Path) -> None:
    """From both machines, with interval, quartiles, percentiles and the commit; and its change."""
    publish(SAMPLE, tmp_path)
    text = (tmp_path / case_page(CASES[0])).read_text()
    assert "batch 1, 8 heads, 512 tokens, head dim 64, fp16, no mask" in text
    assert text.count('<div class="placed"') == 2
    (row, _) = re.findall(r"<tr><th scope=\"row\">(?:box|&lt;/script).*?</tr>", text)
    newest = 1 / SAMPLE.graphs[0].series.ratio.value[-1]
    assert f"{newest:.3f} [" in row
    assert "eager wall time, cpu" in row
    assert row.count("µs") == 4  # ours, SDPA, p90, p99
    assert SAMPLE.history.commits[-1].id[:10] in row
    assert SAMPLE.history.commits[STEP].id[:10] in text.partition("<h2>Changes</h2>")[2]
