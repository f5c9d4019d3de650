"""Percentiles and their order-statistic intervals."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from flashbench.stats.quantile import interval_ranks, quantile, samples_needed

_QUANTILES = (0.5, 0.9, 0.95, 0.99)


@pytest.mark.parametrize(("q", "needed"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368)])
def test_samples_needed(q, needed):
    """Two-sided 95 % needs 6, 36, 72 and 368 samples: one fewer is not estimable."""
    assert samples_needed(q) == needed
    assert quantile(np.arange(float(needed)), q) is not None
    assert quantile(np.arange(needed - 1.0), q) is None


@given(st.integers(6, 3000), st.sampled_from(_QUANTILES))
def test_bounds_are_scipys_order_statistics(n, q):
    """The bounds are those of scipy.stats.quantile_test's interval, or none where it has none."""
    x = np.arange(float(n))
    expected = scipy.stats.quantile_test(x, q=0, p=q).confidence_interval(0.95)
    found = quantile(x, q)
    if found is None:
        assert np.isnan(expected.low) or np.isnan(expected.high)
    else:
        assert (found.low, found.high) == (expected.low, expected.high)


@given(
    st.lists(st.floats(1e-9, 1e3), min_size=80, max_size=200),
    st.sampled_from((0.5, 0.9, 0.95)),
    st.sampled_from((0.25, 8.0)),
)
def test_scale(values, q, factor):
    """Times in another unit give the same percentiles in that unit; bounds enclose the value."""
    x = np.sort(values)
    plain, scaled = quantile(x, q), quantile(x * factor, q)
    assert plain is not None
    assert scaled is not None
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx(
        (plain.value * factor, plain.low * factor, plain.high * factor)
    )
    assert plain.low <= plain.value <= plain.high
    assert {plain.low, plain.high} <= set(values)


def test_median_of_an_even_count_is_the_mean_of_the_middle_two():
    """The p50 is the median."""
    found = quantile(np.arange(8.0), 0.5)
    assert found is not None
    assert found.value == 3.5


def test_ranks_hold_their_level():
    """Beyond each rank lies at most 2.5 % of the binomial, and a rank nearer would be more."""
    for n, q in ((100, 0.9), (500, 0.99), (2000, 0.5)):
        ranks = interval_ranks(n, q, 0.95)
        assert ranks is not None
        low, high = ranks
        below = scipy.stats.binom(n, q)
        assert below.cdf(low - 1) <= 0.025 < below.cdf(low)
        assert below.sf(high - 1) <= 0.025 < below.sf(high - 2)
