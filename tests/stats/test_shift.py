"""The Hodges-Lehmann shift and its exact rank interval."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flashbench.stats.shift import (
    launches_advised,
    launches_needed,
    mann_whitney_p,
    paired_shift,
    smallest_p,
    unpaired_shift,
)

# Hollander & Wolfe (1973), table 3.1 and 4.1, as in the examples of R's ?wilcox.test.
DEPRESSION_BEFORE = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
DEPRESSION_AFTER = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])
PERMEABILITY_TERM = np.array([0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46])
PERMEABILITY_EARLY = np.array([1.15, 0.88, 0.90, 0.74, 1.21])

_FLOATS = st.floats(-1, 1, allow_subnormal=False).map(lambda x: round(x, 6))
_LAUNCHES = st.integers(1, 25).flatmap(lambda n: arrays(float, n, elements=_FLOATS))


def test_paired_shift_of_a_textbook_example():
    """The depression data give the estimate 0.46 and the p of V = 40 in R."""
    shift = paired_shift(DEPRESSION_BEFORE - DEPRESSION_AFTER, 0.05)
    assert shift.value == pytest.approx(0.46)
    assert shift.p == pytest.approx(2 * 0.01953125)
    assert (shift.low, shift.high) == pytest.approx((0.01, 0.786))


@given(_LAUNCHES, _LAUNCHES, st.floats(-1, 1))
def test_p_of_ranks_is_that_of_the_interval(old, new, shift):
    """mann_whitney_p agrees with the p of unpaired_shift, with ties too."""
    moved = np.round(new - shift, 6)
    assert mann_whitney_p(old, moved) == pytest.approx(unpaired_shift(old, moved, 0.05).p)


def test_unpaired_shift_of_a_textbook_example():
    """The permeability data give the estimate 0.305 and the p of W = 35 in R."""
    shift = unpaired_shift(PERMEABILITY_EARLY, PERMEABILITY_TERM, 0.05)
    assert shift.value == pytest.approx(0.305)
    assert shift.p == pytest.approx(0.2544122544)
    assert (shift.low, shift.high) == pytest.approx((-0.15, 0.76))


@pytest.mark.parametrize("launches", [1, 2, 5, 12, 40])
def test_paired_p_is_scipys(launches):
    """Without ties the p-value is that of scipy's exact signed-rank test."""
    x = np.random.default_rng(launches).normal(0.3, 1, launches)
    expected = scipy.stats.wilcoxon(x, method="exact").pvalue
    assert paired_shift(x, 0.05).p == pytest.approx(expected)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 9), (12, 12), (20, 31)])
def test_unpaired_p_is_scipys(a, b):
    """Without ties the p-value is that of scipy's exact Mann-Whitney test."""
    rng = np.random.default_rng(a * b)
    x, y = rng.normal(size=a), rng.normal(0.5, 1, b)
    expected = scipy.stats.mannwhitneyu(x, y, method="exact").pvalue
    assert unpaired_shift(x, y, 0.05).p == pytest.approx(expected)


@pytest.mark.parametrize("sizes", [(129,), (65, 65)])
def test_normal_approximation_takes_over_where_it_is_good(sizes):
    """Above the exact sizes the approximate p errs to the large side, at p = 0.001 by 15 %."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, sizes[0]))
    if len(sizes) == 1:
        ours, exact = paired_shift(x + 0.2, 0.05).p, scipy.stats.wilcoxon(x + 0.2, method="exact")
    else:
        ours = unpaired_shift(x, y + 0.4, 0.05).p
        exact = scipy.stats.mannwhitneyu(x, y + 0.4, method="exact")
    assert exact.pvalue * 0.99 <= ours <= exact.pvalue * 1.15


@given(_LAUNCHES, st.sampled_from([0.05, 0.01, 0.05 / 64]))
def test_interval_and_p_agree(x, alpha):
    """The interval of confidence 1 - alpha excludes 0 exactly when p <= alpha."""
    shift = paired_shift(x, alpha)
    assert (shift.low > 0 or shift.high < 0) == (shift.p <= alpha)
    assert shift.low <= shift.value <= shift.high


@given(_LAUNCHES, _LAUNCHES)
def test_swapping_the_sides_mirrors_the_shift(x, y):
    """B against A is A against B with the sign turned."""
    there, back = unpaired_shift(x, y, 0.05), unpaired_shift(y, x, 0.05)
    assert there.value == pytest.approx(-back.value)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p == pytest.approx(back.p)


@given(_LAUNCHES, st.floats(-3, 3).map(lambda x: round(x, 3)))
def test_the_shift_moves_with_the_data(x, offset):
    """Adding a constant to every log-ratio adds it to the estimate and to both bounds."""
    plain, moved = paired_shift(x, 0.05), paired_shift(x + offset, 0.05)
    assert moved.value == pytest.approx(plain.value + offset)
    assert (moved.low, moved.high) == pytest.approx((plain.low + offset, plain.high + offset))


@given(_LAUNCHES)
def test_identical_sides_never_differ(x):
    """A sample against itself has shift 0, in the middle of its interval."""
    shift = unpaired_shift(x, x, 0.05)
    assert shift.value == pytest.approx(0)
    assert shift.low <= 0 <= shift.high


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 18, 0.05 / 64, 0.05 / 512])
def test_launches_needed_is_the_first_bounded_interval(paired, alpha):
    """One launch fewer than `launches_needed` has an unbounded interval, that many has not."""
    n = launches_needed(alpha, paired=paired)
    x = np.arange(float(n))

    def bounded(m: int) -> bool:
        shift = paired_shift(x[:m], alpha) if paired else unpaired_shift(x[:m], x[:m], alpha)
        return shift.bounded

    assert bounded(n)
    assert not bounded(n - 1)


def test_smallest_p():
    """5 pairs can reach 2/32, 3 against 3 launches 2/20; a single launch nothing."""
    assert smallest_p(5) == 2 / 32
    assert smallest_p(3, 3) == 2 / 20
    assert smallest_p(1) == 1.0
    assert paired_shift(np.array([0.5]), 0.05).low == -math.inf


@pytest.mark.parametrize("comparisons", [1, 8, 64])
def test_one_outlier_hides_a_clear_change_below_the_advised_launches_only(comparisons):
    """Paired and unpaired: with one launch far off the other way, the interval excludes 0 from
    `launches_advised` on, and with one launch less does not."""
    alpha = 0.05 / comparisons
    paired, unpaired = (launches_advised(alpha, paired=kind) for kind in (True, False))
    for less in (0, 1):
        changed = np.linspace(0.10, 0.11, paired - less)
        changed[0] = -0.3
        assert (paired_shift(changed, alpha).low > 0) == (not less)
        old, new = np.linspace([-0.005, 0.10], [0.005, 0.11], unpaired - less).T
        new[0] = -0.3
        assert (unpaired_shift(old, new, alpha).low > 0) == (not less)
