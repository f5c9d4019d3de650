"""Levels of a series: what is found, what is not, and invariants of every answer."""

import itertools

import change_points
import history_looks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_noise import normal

from flashbench.stats import optimal_partition, segments
from flashbench.stats.optimal_partition import SHORTEST
from flashbench.stats.segments import FEWEST, calibrate, segment

SERIES = 400
# At a true rate of 0.5 %, more than 8 of 400 series show a change once in 4000 such tests.
MOST = 8


@pytest.mark.parametrize(
    "noise",
    [normal, change_points.AR_02, change_points.AR_04, change_points.outliers, change_points.drift],
    ids=lambda noise: noise.__name__,
)
def test_null_series_seldom_show_a_change(noise):
    """At most about 0.5 % of series of 200 points without a change show one."""
    assert change_points.false_changes(noise, SERIES) <= MOST


@pytest.mark.parametrize(("after", "least"), [(100, 0.98), (8, 0.92)])
def test_a_two_percent_step_is_found(after, least):
    """2 % at 1 % standard deviation is found within 6 commits, old or 8 commits ago."""
    segmented = change_points.steps(normal, SERIES, after)
    assert change_points.found(segmented, after) >= least * SERIES


@pytest.mark.parametrize(("points", "least"), [(24, 0.6), (40, 0.83), (60, 0.89)])
def test_a_recent_step_shows_in_a_short_series(points, least):
    """8 commits after it 2 % is shown, though most of it would count as noise there."""
    shown, _ = history_looks.found(history_looks.step(SERIES, points, 8, 2, 1), points - 8)
    assert shown >= least * SERIES


@pytest.mark.parametrize("points", [24, 40, 60])
def test_a_short_null_series_seldom_shows_a_change(points):
    """Judging a recent change by the noise without it takes little noise for one."""
    assert change_points.false_changes(normal, SERIES, points) <= MOST


def test_range_and_interval_hold_the_truth():
    """The range holds the true commit, and the interval the true size, in about 95 % or more."""
    near = change_points.nearest(change_points.steps(normal, SERIES, 60), 60)
    assert sum(place for place, _, _ in near) >= 0.92 * len(near)
    assert sum(size for _, size, _ in near) >= 0.90 * len(near)


def test_noise_of_a_project_raises_its_penalty():
    """White noise needs no more than the penalty; noise that the model lacks does."""
    rng = np.random.default_rng(0)
    white = segments.segment_all(list(0.01 * rng.standard_normal((40, 200))))
    assert calibrate([one.residuals for one in white]) == 1.0
    slow = np.where(rng.random((40, 200)) < 0.1, 10, 0)  # every tenth commit
    values = list(0.01 * (rng.standard_normal((40, 200)) + slow))
    noisy = segments.segment_all(values)
    factor = calibrate([one.residuals for one in noisy])
    assert factor > 1.5
    before = sum(bool(one.steps) for one in noisy)
    after = sum(bool(one.steps) for one in segments.segment_all(values, factor=factor))
    assert after < before


def test_nothing_to_calibrate_on_changes_nothing():
    """Without series, or with few or short ones, the penalty is the simulated one."""
    assert calibrate([]) == 1.0
    assert calibrate([np.arange(999.0)]) == 1.0
    assert calibrate([np.arange(19.0)] * 100) == 1.0


def test_few_points_show_no_change():
    """A level needs four points, so fewer than eight show nothing, however far apart."""
    values = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    for count in range(FEWEST):
        assert not segment(values[:count]).steps
    assert [step.at for step in segment(values).steps] == [4]


def test_exact_numbers_have_levels_too():
    """A metric without any noise, such as memory, shows its steps; below 0.1 % it shows none."""
    values = np.repeat([0.0, 0.02, -0.05], [30, 25, 40])
    assert [step.at for step in segment(values).steps] == [30, 55]
    assert not segment(0.01 * values).steps


def test_a_short_bump_of_outliers_is_no_level():
    """Three points far off, side by side, are outliers; four are a level of their own."""
    rng = np.random.default_rng(1)
    values = 0.01 * rng.standard_normal(80)
    three, four = values.copy(), values.copy()
    three[40:43] += 0.3
    four[40:44] += 0.3
    assert not segment(three).steps
    assert [step.at for step in segment(four).steps] == [40, 44]


def test_long_series_are_segmented_as_a_whole():
    """Changes anywhere in 2000 points are found once each, also where windows of them meet."""
    places = [100, 190, 256, 700, 1024, 1500, 1992]
    rng = np.random.default_rng(2)
    values = 0.01 * rng.standard_normal(2000)
    for sign, place in enumerate(places):
        values[place:] += 0.04 * (-1) ** sign
    found = [step.at for step in segment(values).steps]
    assert len(found) == len(places)
    assert np.abs(np.array(found) - places).max() <= 2


def cost_of(window, cuts, price):
    """Squares that the levels leave, and the price of each change."""
    levels = np.split(window, cuts)
    return sum(((level - level.mean()) ** 2).sum() for level in levels) + price * len(cuts)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 30), st.integers(FEWEST, 14))
def test_no_segmentation_costs_less(seed, price, points):
    """The segmentation found is the cheapest of all ways to cut a short window, also in a batch of
    windows of several lengths."""
    rng = np.random.default_rng(seed)
    windows = [3 * rng.standard_normal(count) for count in (points, 20, FEWEST)]
    found = optimal_partition.windows_cuts(windows, [price, 5.0, price])
    ways = [
        cuts
        for size in range(points // SHORTEST)
        for cuts in itertools.combinations(range(1, points), size)
        if min(np.diff([0, *cuts, points])) >= SHORTEST
    ]
    least = min(cost_of(windows[0], list(cuts), price) for cuts in ways)
    assert cost_of(windows[0], found[0], price) == pytest.approx(least)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(5, 50), st.sampled_from([0.0, 0.4, 1.0, 4.0]))
def test_no_window_with_a_cut_is_ruled_out(seed, price, jump):
    """Windows that certainly have no cut are not searched, and searched they would have none."""
    rng = np.random.default_rng(seed)
    windows = [rng.standard_normal(count) for count in rng.integers(FEWEST, 257, 12)]
    for window in windows:
        window[rng.integers(len(window)) :] += jump
    costs = [price] * len(windows)
    found = optimal_partition.windows_cuts(windows, costs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimal_partition, "_may_have_cuts", lambda sums, *_: np.ones(sums.shape[1]))
        assert optimal_partition.windows_cuts(windows, costs) == found


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(8, 30), st.sampled_from([0.4, 1.0, 3.0]))
def test_a_series_is_searched_from_its_first_doubt(seed, price, jump):
    """Windows before it have no cuts: searched from the start, a series of any length has the
    same."""
    rng = np.random.default_rng(seed)
    series = [
        rng.standard_normal(count)
        for count in (4, 255, 256, 257, 384, 385, *rng.integers(4, 1200, 9))
    ]
    for values in series[::2]:
        values[rng.integers(len(values)) :] += jump
    costs = [price] * len(series)
    found = optimal_partition.cuts_of(series, costs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimal_partition, "_first_doubts", lambda series, costs: [0] * len(series))
        assert optimal_partition.cuts_of(series, costs) == found


def test_a_series_is_segmented_alike_among_others():
    """What is found in a series does not depend on those that it is given with."""
    rng = np.random.default_rng(5)
    series = [0.01 * rng.standard_normal(int(rng.integers(0, 700))) for _ in range(140)]
    for place, values in enumerate(series):
        values[len(values) // 2 :] += 0.004 * (place % 7)
    for values, found in zip(series, segments.segment_all(series), strict=True):
        alone = segment(values)
        assert found.steps == alone.steps
        assert found.residuals.tobytes() == alone.residuals.tobytes()


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 120),
    st.lists(st.tuples(st.integers(0, 119), st.floats(-1, 1)), max_size=4),
)
def test_every_segmentation_is_consistent(seed, count, jumps):
    """Levels have four points or more, ranges hold their change, and a mirrored series mirrors."""
    values = 0.01 * np.random.default_rng(seed).standard_normal(count)
    for place, size in jumps:
        values[place:] += size
    steps = segment(values).steps
    ends = [0, *(step.at for step in steps), count]
    if steps:
        assert min(np.diff(ends)) >= SHORTEST
    for left, step, right in zip(ends, steps, ends[2:], strict=False):
        assert left < step.first <= step.at <= step.last < right
        assert (step.before, step.after) == (step.at - left, right - step.at)
        assert step.shift.low <= step.shift.value <= step.shift.high
    mirrored = segment(3 - values).steps
    assert [step.at for step in mirrored] == [step.at for step in steps]
    for step, other in zip(steps, mirrored, strict=True):
        assert other.shift.value == pytest.approx(-step.shift.value, abs=1e-9)
