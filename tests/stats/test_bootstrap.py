"""The percentile bootstrap on ranks is what resampling converges to."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flashbench.stats.bootstrap import (
    _distribution,
    _rank_weights,
    _ranks,
    bootstrap_median_ratio,
    bootstrap_quantile,
)

_TIMES = st.integers(1, 40).flatmap(
    lambda n: arrays(float, n, elements=st.floats(1e-3, 1e3, allow_subnormal=False))
)
_RESAMPLES = 40_000


@pytest.mark.parametrize("n", [1, 2, 5, 20, 21])
@pytest.mark.parametrize("q", [0.5, 0.9])
def test_weights_are_those_of_resampling(n, q):
    """Each value comes as often from resampling as its weight says, to Monte-Carlo error."""
    values = np.arange(n, dtype=float) ** 2  # no two means of neighbours are equal
    support, weights, _ = _distribution(values, q)
    assert weights.sum() == pytest.approx(1)
    lower, upper = _ranks(n, q)
    rng = np.random.default_rng(n)
    drawn = np.sort(values[rng.integers(n, size=(_RESAMPLES, n))], axis=1)
    found = (drawn[:, lower - 1] + drawn[:, upper - 1]) / 2
    for value in np.unique(support):
        expected = weights[support == value].sum()
        error = 5 * np.sqrt(expected / _RESAMPLES) + 1e-4
        assert np.mean(found == value) == pytest.approx(expected, abs=error)


@pytest.mark.parametrize("n", [9, 20, 50])
def test_interval_of_the_median_is_scipys(n):
    """The bounds lie where scipy's percentile bootstrap puts them, to Monte-Carlo error."""
    values = np.random.default_rng(n).lognormal(size=n)
    found = bootstrap_quantile(values, 0.5)
    expected = scipy.stats.bootstrap(
        (values,), np.median, method="percentile", n_resamples=_RESAMPLES, rng=1, axis=-1
    )
    resampled = np.sort(expected.bootstrap_distribution)
    for bound, tail in ((found.low, 0.025), (found.high, 0.975)):
        assert np.mean(resampled < bound - 1e-12) <= tail + 0.005
        assert np.mean(resampled <= bound + 1e-12) >= tail - 0.005
    assert found.value == np.median(values)


@pytest.mark.parametrize("sizes", [(9, 12), (20, 20), (21, 15)])
def test_interval_of_the_ratio_of_medians_is_scipys(sizes):
    """So do those of the ratio of two medians."""
    rng = np.random.default_rng(sum(sizes))
    old, new = rng.lognormal(size=sizes[0]), rng.lognormal(0.3, size=sizes[1])
    found = bootstrap_median_ratio(old, new)
    expected = scipy.stats.bootstrap(
        (old, new),
        lambda x, y, axis: np.median(y, axis=axis) / np.median(x, axis=axis),
        method="percentile",
        n_resamples=_RESAMPLES,
        rng=2,
    )
    resampled = expected.bootstrap_distribution
    for bound, tail in ((found.low, 0.025), (found.high, 0.975)):
        assert np.mean(resampled < bound * (1 - 1e-9)) <= tail + 0.005
        assert np.mean(resampled <= bound * (1 + 1e-9)) >= tail - 0.005
    assert found.value == pytest.approx(np.median(new) / np.median(old))


@given(_TIMES, st.sampled_from([0.5, 0.9]), st.sampled_from([0.25, 4.0]))
def test_bounds_hold_the_value_and_scale(values, q, factor):
    """low <= value <= high, all within the sample; another unit scales them."""
    plain, scaled = bootstrap_quantile(values, q), bootstrap_quantile(values * factor, q)
    assert values.min() <= plain.low <= plain.value <= plain.high <= values.max()
    assert (scaled.low, scaled.value, scaled.high) == (
        plain.low * factor,
        plain.value * factor,
        plain.high * factor,
    )


@given(_TIMES, _TIMES)
def test_ratio_holds_its_value_and_turns_round(old, new):
    """The interval holds the ratio of the medians, and that of old to new is one over it."""
    there, back = bootstrap_median_ratio(old, new), bootstrap_median_ratio(new, old)
    assert there.low * (1 - 1e-9) <= there.value <= there.high * (1 + 1e-9)
    assert there.value == pytest.approx(1 / back.value)


def test_weights_of_many_values():
    """2000 values neither overflow nor lose probability, and their ranks lie about the middle."""
    rows, columns, weights = _rank_weights(2000, 1000, 1001)
    assert weights.sum() == pytest.approx(1)
    assert float(((rows + columns) / 2) @ weights) == pytest.approx(999.5, abs=0.01)
