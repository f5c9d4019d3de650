"""Corrections for many comparisons, modes across launches, order of launches."""

import math

import numpy as np
import pytest
from simulated_noise import autocorrelated, autoregressive, normal

from flashbench.comparison import _allowing_for_order
from flashbench.stats.family import look_price, simultaneous_alpha
from flashbench.stats.modes import two_modes
from flashbench.stats.order import inflation, launch_correlation, stretch, widened
from flashbench.stats.sequential import (
    IntervalTerms,
    launches_needed_anytime,
    launches_needed_tight,
)
from flashbench.stats.shift import Shift, launches_advised, launches_needed


def test_simultaneous_alpha():
    """64 comparisons share the error; none at all is not a division by zero."""
    assert simultaneous_alpha(0.05, 64) == 0.05 / 64
    assert simultaneous_alpha(0.05, 0) == 0.05


@pytest.mark.parametrize("alpha", [-94.0, 0.0, 1.0, math.nan])
def test_levels_outside_0_and_1_are_refused(alpha: float):
    """A confidence of 95 instead of 0.95 is an error, not a search without an end."""
    for entry in (
        lambda: simultaneous_alpha(alpha, 64),
        lambda: launches_needed(alpha, paired=True),
        lambda: launches_advised(alpha, paired=False),
        lambda: launches_needed_anytime(alpha),
        lambda: launches_needed_tight(alpha),
    ):
        with pytest.raises(ValueError, match=r"alpha is .*, not between 0 and 1"):
            entry()


def test_further_looks_share_one_budget():
    """The first look costs nothing; all further ones together get at most alpha."""
    assert [look_price(earlier) for earlier in range(4)] == [1, 2, 6, 12]
    assert sum(1 / look_price(earlier) for earlier in range(1, 1000)) < 1


def test_modes_of_a_known_gpu_project():
    """Launches at 22.5 or 25.5 ms with 0.05 ms inside each are two modes, half of it each."""
    rng = np.random.default_rng(0)
    slow = np.arange(20) % 2 == 0
    times = np.log(np.where(slow, 25.5, 22.5) + 0.05 * rng.standard_normal(20))
    modes = two_modes(times, 0.01)
    assert modes is not None
    assert (np.exp(modes.low), np.exp(modes.high)) == pytest.approx((22.5, 25.5), rel=0.01)
    assert modes.share_high == 0.5


def test_modes_nearer_than_the_tolerance_do_not_matter():
    """Two ticks of a timer are no modes when they are less than the tolerance apart."""
    ticks = np.repeat([0.0, 0.005], 10)
    assert two_modes(ticks, 0.01) is None
    assert two_modes(ticks, 0.001) is not None


def test_one_odd_launch_is_no_mode():
    """An outlier, or two, are not a second mode; constant data have one."""
    assert two_modes(np.array([1.0, *[0.0] * 19]), 0.01) is None
    assert two_modes(np.array([1.0, 1.0, *[0.0] * 18]), 0.01) is None
    assert two_modes(np.zeros(20), 0.0) is None
    assert two_modes(np.zeros(3), 0.0) is None


def test_correlated_launches_are_found():
    """AR(1) with rho 0.5 is estimated from a family; independent launches mostly have 0, also when
    all cases share their noise; constant and few launches have 0 always."""
    rng = np.random.default_rng(1)
    assert launch_correlation(autocorrelated(rng, (60, 20))) == pytest.approx(0.5, abs=0.1)
    # More than 3 of 100 at 0.005, or 12 at 0.05, would be so once in 500 such tests.
    shared = [normal(rng, (1, 20)) + 0.1 * normal(rng, (30, 20)) for _ in range(100)]
    assert sum(launch_correlation(values) > 0 for values in shared) <= 3
    assert 0 < sum(launch_correlation(values, 0.05) > 0 for values in shared) <= 12
    assert launch_correlation(np.zeros((3, 10))) == 0
    assert launch_correlation(autocorrelated(rng, (60, 5))) == 0


def test_what_cases_have_in_common_counts_by_what_it_does_to_a_mean():
    """A fifth of the variance is common and correlated by 0.8: a mean is as imprecise as at rho
    0.44, though neighbours are correlated by 0.16 only. Common but independent launches: 0."""
    rng = np.random.default_rng(3)
    common, own = autoregressive(0.8)(rng, (1, 200)), 2 * rng.standard_normal((64, 200))
    assert launch_correlation(common + own) == pytest.approx(0.44, abs=0.1)
    shared = rng.standard_normal((100, 1, 20)) + 2 * rng.standard_normal((100, 64, 20))
    assert sum(launch_correlation(values) > 0 for values in shared) <= 3


def test_correlation_of_cases_that_left_the_plan():
    """Cases without the later launches count with those they have, too short ones do not."""
    rng = np.random.default_rng(2)
    values = autocorrelated(rng, (60, 20))
    values[:20, 10:] = np.nan
    assert launch_correlation(values) == pytest.approx(0.5, abs=0.1)
    values[20:, 3:] = np.nan
    values[:20, 5:] = np.nan
    assert launch_correlation(values) == 0


def test_stretch():
    """None for independent launches; at least the mean's own inflation, nearly that with many
    launches; infinite where few launches show nothing of their spread."""
    assert stretch(0.0, 20, 0.05) == 1
    for correlation in (0.1, 0.5, 0.8):
        assert stretch(correlation, 20, 0.05 / 64) > inflation(correlation)
        assert stretch(correlation, 4000, 0.05) == pytest.approx(inflation(correlation), rel=0.01)
    assert math.isinf(stretch(0.9, 12, 0.05))


def test_widened_keeps_the_middle():
    """The interval is stretched about the estimate, infinite ends stay."""
    wide = widened(Shift(0.1, 0.05, 0.2, 0.001), 2.0)
    assert (wide.value, wide.low, wide.high) == pytest.approx((0.1, 0.0, 0.3))
    assert not widened(Shift(0.1, -math.inf, math.inf, 1.0), 2.0).bounded
    assert not widened(Shift(0.1, 0.1, 0.1, 1.0), math.inf).bounded


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.5])
def test_p_agrees_with_the_interval_that_allows_for_order(sides: int, correlation: float) -> None:
    """p is at most alpha exactly when the interval, widened or not, excludes no change."""
    rng = np.random.default_rng(7)
    seen = set()
    for _ in range(300):
        launches = [rng.normal(0, 1, rng.integers(8, 16)) for _ in range(sides)]
        launches[-1] += rng.normal(0, 8)
        shift = _allowing_for_order(tuple(launches), IntervalTerms(0.02, 1, correlation))
        excludes = shift.low > 0 or shift.high < 0
        assert excludes == (shift.p <= 0.02)
        seen.add(excludes)
    assert seen == {True, False}
