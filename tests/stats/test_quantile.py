"""Percentiles and their order-statistic intervals."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from flashbench.stats.quantile import (
    effective_size,
    interval_ranks,
    launch_quantile,
    quantile,
    samples_needed,
    t_quantile,
)

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


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 19, 60])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_t_quantile_is_scipys(freedom, confidence):
    """The t quantile agrees with scipy's to seven digits."""
    expected = scipy.stats.t.ppf((1 + confidence) / 2, freedom)
    assert t_quantile(freedom, confidence) == pytest.approx(expected, rel=1e-7)


def test_launches_that_differ_count_less():
    """Identical launches are worth many samples; launches that do not overlap, one each."""
    samples = np.linspace(1, 2, 50)
    alike, apart = [samples] * 20, [samples + 10 * i for i in range(20)]
    assert effective_size(apart, 96.0, 0.5, 0.95) == 20
    assert 60 < effective_size(alike, 1.5, 0.5, 0.95) < 1000
    narrow, wide = launch_quantile(alike, 0.5), launch_quantile(apart, 0.5)
    assert narrow is not None
    assert wide is not None
    assert wide.high - wide.low > 40 > 1 > narrow.high - narrow.low


@pytest.mark.parametrize(("q", "launches"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368)])
def test_an_interval_needs_as_many_launches_as_samples(q, launches):
    """Whatever the samples are, so that what is printed was not chosen by looking at them."""
    samples = np.random.default_rng(2).standard_normal((launches, 100))
    enough, fewer = launch_quantile(list(samples), q), launch_quantile(list(samples[1:]), q)
    assert enough is not None
    assert fewer is not None
    assert enough.bounded
    assert not fewer.bounded


def test_one_launch_has_no_interval():
    """A single launch gives its percentile without pretending to know the next launch."""
    alone = launch_quantile([np.arange(400.0)], 0.5)
    assert alone is not None
    assert alone.value == 199.5
    assert not alone.bounded
    assert launch_quantile([np.arange(50.0)], 0.95) is None
