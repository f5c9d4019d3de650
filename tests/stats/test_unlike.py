"""The unpaired interval where the spreads of both sides differ."""

import numpy as np
import pytest
import scipy.stats
import unlike_spreads
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from simulated_noise import normal

from flashbench.stats.shift import unpaired_shift
from flashbench.stats.unlike import unlike_shift

SIDES = st.integers(4, 14).flatmap(lambda n: arrays(float, n, elements=st.floats(-1, 1)))


@given(SIDES, SIDES, st.sampled_from([0.05, 0.001]))
def test_it_contains_the_rank_interval_and_agrees_with_p(old, new, alpha):
    """Never narrower, p never smaller; p is at most alpha exactly if "no change" is excluded."""
    plain, shift = unpaired_shift(old, new, alpha), unlike_shift(old, new, alpha)
    assert shift.low <= plain.low <= plain.value == shift.value <= plain.high <= shift.high
    assert shift.p >= plain.p
    assert (shift.low > 0 or shift.high < 0) == (shift.p <= alpha * (1 + 1e-9))


@pytest.mark.parametrize(("m", "n"), [(8, 12), (20, 9)])
def test_p_is_that_of_yuens_test(m, n):
    """With unequal sides, where ranks see more: as scipy's trimmed Welch test has it, with whole
    degrees of freedom."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        old, new = rng.standard_normal(m), 1 + 6 * rng.standard_normal(n)
        yuen = scipy.stats.ttest_ind(old, new, equal_var=False, trim=0.2)
        whole = 2 * scipy.stats.t.sf(abs(yuen.statistic), np.floor(yuen.df))
        expected = max(whole, unpaired_shift(old, new, 0.05).p)
        assert unlike_shift(old, new, 0.05).p == pytest.approx(expected, rel=1e-7)


def test_sides_alike_keep_the_rank_interval():
    """Equal spreads, one number of launches: nothing is lost. Equal launches have no spread."""
    side = np.arange(12.0)
    assert unlike_shift(side, side + 1, 0.05) == unpaired_shift(side, side + 1, 0.05)
    same = np.ones(12)
    assert unlike_shift(same, 2 * same, 0.05) == unpaired_shift(same, 2 * same, 0.05)


@pytest.mark.parametrize("sizes", [(7, 7), (12, 12), (20, 7)])
def test_families_of_unlike_spreads_hold_their_level(sizes):
    """Ten times the spread: more than 8 of 60 families at 5 % would be so once in 400 tests; by
    ranks alone it is a fifth to two thirds of them."""
    assert unlike_spreads.flagged(normal, sizes, 10, 60) <= 8


def test_what_is_seen_stays_seen():
    """Twice the time at the least number of launches, 2 % after 20 of which a tenth is spiky."""
    assert unlike_spreads.power(normal, 7, 69.3, 1, 200) == 200
    assert unlike_spreads.power(unlike_spreads.spiky, 7, 69.3, 1, 200) >= 190
    assert unlike_spreads.power(unlike_spreads.spiky, 20, 2, 1, 400) >= 0.65 * 400
