"""Anytime-valid intervals: what holds of them whatever the launches are."""

import itertools
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from asymptotic import normal_mixture
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from simulated_noise import autocorrelated

from flashbench.stats.sequential import (
    anytime_shift,
    excludes_no_change,
    expected_half_width,
    launches_needed_anytime,
    launches_needed_tight,
    sign_mixture,
    t_mixture,
)

_FLOATS = st.floats(-1, 1, allow_subnormal=False).map(lambda x: round(x, 4))
_LAUNCHES = st.integers(1, 30).flatmap(lambda n: arrays(float, n, elements=_FLOATS))
_ALPHAS = st.sampled_from([0.3, 0.05, 0.05 / 64])
_METHODS = pytest.mark.parametrize(
    "method", [anytime_shift, t_mixture, sign_mixture, normal_mixture], ids=lambda m: m.__name__
)
# Wherever 0 lies exactly on a bound, rounding decides; off it, p and the interval have to agree.
_EDGE = 1e-9


@_METHODS
@given(x=_LAUNCHES, alpha=_ALPHAS)
def test_interval_holds_the_value_and_agrees_with_p(method, x, alpha):
    """low <= value <= high, and p <= alpha exactly when the interval excludes 0."""
    shift = method(x, alpha)
    assert shift.low <= shift.value <= shift.high
    assert 0 <= shift.p <= 1
    assume(abs(shift.p / alpha - 1) > _EDGE)
    assert (shift.low > 0 or shift.high < 0) == (shift.p <= alpha)


_DISTANCES = st.sampled_from([0.0, 1e-6, 1e-3, 0.05, 1.0])
_ROWS = st.tuples(st.integers(1, 6), st.integers(1, 30)).flatmap(
    lambda shape: arrays(float, shape, elements=_FLOATS)
)


def excluded(row, alpha):
    shift = anytime_shift(row, alpha)
    return shift.low > 0 or shift.high < 0


@given(rows=_ROWS, offset=_DISTANCES, scale=_DISTANCES, alpha=_ALPHAS)
def test_rows_exclude_no_change_as_each_alone(rows, offset, scale, alpha):
    """Row by row the answer of `anytime_shift`: ties, constants, launches close together."""
    rows = offset + scale * rows
    for row in rows:  # on the edge, rounding decides
        assume(abs(t_mixture(row, alpha).p / alpha - 1) > _EDGE)
    assert excludes_no_change(rows, alpha).tolist() == [excluded(row, alpha) for row in rows]


@pytest.mark.parametrize("digits", [2, 3, 12])
def test_noisy_rows_exclude_no_change_as_each_alone(digits):
    """The same near where verdicts turn: normal noise, also rounded to ticks, from far to near."""
    rng = np.random.default_rng(11)
    answers = set()
    for n, alpha, distance in itertools.product((6, 9, 12, 13, 25), (0.05, 0.05 / 64), (1, 3, 12)):
        signs = rng.choice([-1.0, 1.0], (40, 1))
        rows = signs * np.round(0.1 * (distance + rng.standard_normal((40, n))), digits)
        found = excludes_no_change(rows, alpha)
        assert found.tolist() == [excluded(row, alpha) for row in rows]
        answers.update(found.tolist())
    assert answers == {False, True}


@_METHODS
@given(x=_LAUNCHES)
def test_more_confidence_is_wider(method, x):
    """The interval at a smaller alpha contains that at a larger one; p is the same."""
    narrow, wide = method(x, 0.05), method(x, 0.001)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high
    if method is not anytime_shift:  # it has no p where it has no interval
        assert wide.p == narrow.p


@_METHODS
@given(x=_LAUNCHES, factor=st.sampled_from([-4.0, 0.25, 2.0]))
def test_the_interval_scales_and_mirrors_with_the_launches(method, x, factor):
    """Launches times a constant give bounds times it, turned round where it is negative."""
    plain, scaled = method(x, 0.05), method(x * factor, 0.05)
    bounds = sorted((plain.low * factor, plain.high * factor))
    assert (scaled.low, scaled.high) == pytest.approx(tuple(bounds), abs=1e-12)
    assert scaled.p == pytest.approx(plain.p)


@pytest.mark.parametrize("method", [t_mixture, sign_mixture, normal_mixture])
@given(x=_LAUNCHES, offset=st.sampled_from([-2.0, 0.5, 8.0]))
def test_the_interval_moves_with_the_launches(method, x, offset):
    """A constant added to every launch is added to the value and to both bounds."""
    assume(method is sign_mixture or np.ptp(x) > 0)
    plain, moved = method(x, 0.05), method(x + offset, 0.05)
    assert moved.value == pytest.approx(plain.value + offset)
    assert (moved.low, moved.high) == pytest.approx((plain.low + offset, plain.high + offset))


@given(x=_LAUNCHES, alpha=_ALPHAS)
def test_the_gate_is_never_surer_than_the_t_mixture(x, alpha):
    """Guards only widen: the t-mixture's interval is inside the one the gate uses."""
    gate, plain = anytime_shift(x, alpha), t_mixture(x, alpha)
    assert gate.low <= plain.low
    assert plain.high <= gate.high
    assert gate.p >= plain.p


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 64, 0.05 / 512])
def test_equal_launches_wait_for_the_sign_version(alpha):
    """Launches without spread, or two values of a clock, are no evidence until the sign version has
    enough of them: zero variance of few launches says nothing about the next."""
    enough = launches_needed_tight(alpha)
    assert enough > launches_needed_anytime(alpha)
    for launches in range(1, enough):
        assert not anytime_shift(np.full(launches, 0.3), alpha).bounded
        assert not anytime_shift(np.full(launches, 0.0), alpha).bounded
    assert anytime_shift(np.full(enough, 0.3), alpha).low == pytest.approx(0.3)
    ticks = np.array([0.3] * 7 + [0.31] * 2)
    assert not anytime_shift(ticks, 0.05 / 64).bounded


@pytest.mark.parametrize("cases", [1, 8, 64, 512])
def test_launches_needed_is_the_first_that_can_be_bounded(cases):
    """So many launches have an interval, about 0 and off it, wide apart and close together; one
    fewer has none, whatever they are."""
    alpha = 0.05 / cases
    n = launches_needed_anytime(alpha)
    for centre, width in ((0.0, 1.0), (1.0, 0.2), (0.0, 1e-3), (-5.0, 2.0)):
        launches = centre + width * np.linspace(-1, 1, n)
        assert anytime_shift(launches, alpha).bounded
        assert not anytime_shift(launches[:-1], alpha).bounded


def test_launches_needed_for_64_cases():
    """6 launches, as the documentation says."""
    assert launches_needed_anytime(0.05 / 64) == 6


def test_sign_evidence_is_exact_by_enumeration():
    """Over all 2^14 sequences of signs, 1/p ever reaches 1/alpha in at most alpha of them, and what
    is above 1 of it has mean 1 at most after any number of launches."""
    n, alpha = 14, 0.05
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
    evidence = np.ones_like(signs)
    for up in range(n + 1):
        for down in range(n + 1 - up):
            if up + down == 0:
                continue
            p = sign_mixture(np.array([1.0] * up + [-1.0] * down), alpha).p
            rows, looks = np.nonzero(
                ((signs > 0).cumsum(axis=1) == up) & (np.arange(1, n + 1) == up + down)
            )
            evidence[rows, looks] = 1 / p
    reached = (evidence >= 1 / alpha).any(axis=1).mean()
    assert 0 < reached <= alpha
    # 1/p is 1 where the martingale is below 1; the rest is the martingale, whose mean is 1. All
    # sequences are counted, so this holds exactly.
    mean = np.where(evidence > 1, evidence, 0).mean(axis=0)
    assert (mean <= 1 + 1e-12).all()
    assert mean[-1] > 0.5


def test_launches_at_zero_count_against_a_shift():
    """As many launches of no difference as of a difference are no evidence."""
    with_zeros = sign_mixture(np.array([1.0] * 12 + [0.0] * 12), 0.05)
    assert with_zeros.p == 1
    assert with_zeros.low <= 0


@pytest.mark.parametrize("t_statistic", [0.0, 1.5, 4.0, 12.0])
@pytest.mark.parametrize("n", [3, 8, 20])
def test_t_evidence_is_the_integral_it_stands_for(n, t_statistic):
    """The closed form equals the density of Student's t under the prior over that under no change,
    integrated numerically with scipy's noncentral t."""
    noise = np.random.default_rng(n).standard_normal(n)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    p = t_mixture(noise + t_statistic / math.sqrt(n), 0.05).p

    def weight(shift: float) -> float:
        prior = sum(
            w * (shift / c) ** 2 * scipy.stats.norm.pdf(shift, scale=c)
            for w, c in ((2 / 3, 0.8), (1 / 3, 2.5))
        )
        return prior * scipy.stats.nct.pdf(t_statistic, n - 1, math.sqrt(n) * shift)

    edges = (-16.0, -4.0, -1.0, 0.0, 1.0, 4.0, 16.0)
    parts = [scipy.integrate.quad(weight, *edge)[0] for edge in itertools.pairwise(edges)]
    expected = sum(parts) / scipy.stats.t.pdf(t_statistic, n - 1)
    assert p == pytest.approx(min(1.0, 1 / expected), rel=1e-4)


def test_normal_mixture_of_a_worked_example():
    """mean +- s sqrt(2 (n + 1) / n^2 log(sqrt(n + 1) / alpha)), by hand for 9 launches."""
    x = np.array([-1.0, 1.0, -1.0, 1.0, 0.0, 2.0, 4.0, 2.0, 1.0])
    shift = normal_mixture(x, 0.05)
    half = x.std(ddof=1) * math.sqrt(2 * 10 / 81 * math.log(math.sqrt(10) / 0.05))
    assert (shift.low, shift.value, shift.high) == pytest.approx((1 - half, 1.0, 1 + half))


def test_correlated_launches_are_fewer():
    """A known correlation widens the interval to what whitening leaves of the evidence."""
    x = autocorrelated(np.random.default_rng(3), (1, 40))[0] + 1
    plain, allowing = t_mixture(x, 0.05), t_mixture(x, 0.05, 0.5)
    assert allowing.high - allowing.low > 1.4 * (plain.high - plain.low)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_expected_half_width(correlation):
    """What is planned for is what comes out on launches with that spread and correlation."""
    rng = np.random.default_rng(4)
    x = autocorrelated(rng, (1, 200))[0] if correlation else rng.standard_normal(200)
    shift = t_mixture(x, 0.05, correlation)
    planned = expected_half_width(200, 0.05, correlation)
    assert (shift.high - shift.low) / 2 == pytest.approx(planned, rel=0.15)
    assert math.isinf(expected_half_width(5, 0.05 / 64))
