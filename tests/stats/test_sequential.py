"""Anytime-valid intervals: what holds of them whatever the launches are."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from asymptotic import normal_mixture
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from simulated_noise import autocorrelated

from flashbench.stats import sequential
from flashbench.stats.evidence import log_equal, log_symmetric, log_t_mixture
from flashbench.stats.sequential import (
    IntervalTerms,
    anytime_shifts,
    exceeds,
    expected_half_width,
    launches_needed_anytime,
    launches_needed_tight,
    spread,
)


def terms(alpha, correlation=0.0):
    """Those of a case at this level, one of 64 at 0.05 / 64."""
    return IntervalTerms(alpha, max(1, round(0.05 / alpha)), correlation)


def anytime_shift(x, alpha, correlation=0.0):
    return sequential.anytime_shift(x, terms(alpha, correlation))


_FLOATS = st.floats(-1, 1, allow_subnormal=False).map(lambda x: round(x, 4))
_LAUNCHES = st.integers(1, 30).flatmap(lambda n: arrays(float, n, elements=_FLOATS))
_ALPHAS = st.sampled_from([0.3, 0.05, 0.05 / 64])
_METHODS = pytest.mark.parametrize(
    "method", [anytime_shift, normal_mixture], ids=lambda m: m.__name__
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


def _rows_of(shape: tuple[int, int]) -> st.SearchStrategy[np.ndarray]:
    """Rows of different launches, or of the same one again and again."""
    count, launches = shape
    different = arrays(float, launches, elements=_FLOATS, unique=True)
    row = different | _FLOATS.map(lambda x: np.full(launches, x))
    return st.lists(row, min_size=count, max_size=count).map(np.array)


_ROWS = st.tuples(st.integers(1, 6), st.integers(1, 30)).flatmap(_rows_of)


@given(rows=_ROWS, offset=_DISTANCES, scale=_DISTANCES, alpha=_ALPHAS, shift=_DISTANCES)
def test_rows_exceed_a_shift_as_each_alone(rows, offset, scale, alpha, shift):
    """Row by row the answer of `anytime_shift`, launches close together and wide apart. Between
    ticks of a clock the evidence may turn more often than the interval is searched for."""
    rows = offset + scale * rows
    assume(all(len(np.unique(row)) in (1, len(row)) for row in rows))
    expected = [anytime_shift(row, alpha).low for row in rows]
    assume(all(abs(low - shift) > _EDGE for low in expected))  # on the edge, rounding decides
    assert exceeds(rows, shift, terms(alpha)).tolist() == [low > shift for low in expected]


@pytest.mark.parametrize("digits", [2, 3, 12])
def test_noisy_rows_exceed_a_shift_as_each_alone(digits):
    """The same near where verdicts turn: normal noise, also rounded to ticks, from far to near."""
    rng = np.random.default_rng(11)
    answers = set()
    for n, alpha, distance in itertools.product((6, 9, 12, 13, 25), (0.05, 0.05 / 64), (1, 3, 12)):
        signs = rng.choice([-1.0, 1.0], (40, 1))
        rows = signs * np.round(0.1 * (distance + rng.standard_normal((40, n))), digits)
        found, shifts = exceeds(rows, 0.01, terms(alpha)), anytime_shifts(rows, terms(alpha))
        assert shifts[::8] == [anytime_shift(row, alpha) for row in rows[::8]]
        assert found.tolist() == [shift.low > 0.01 for shift in shifts]
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


@given(x=_LAUNCHES, alpha=_ALPHAS)
def test_what_is_tight_waits_for_the_symmetric_evidence(x, alpha):
    """Launches next to each other and far from no change count for no more than their signs."""
    assert anytime_shift(100 + x, alpha).p >= 0.5 ** len(x)


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 64, 0.05 / 512])
def test_equal_launches_wait_for_the_symmetric_evidence(alpha):
    """Launches without spread, or two values of a clock, are no evidence until their signs are:
    zero variance of few launches says nothing about the next."""
    enough = launches_needed_tight(alpha)
    assert enough > terms(alpha).least
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
    n = terms(alpha).least
    for centre, width in ((0.0, 1.0), (1.0, 0.2), (0.0, 1e-3), (-5.0, 2.0)):
        launches = centre + width * np.linspace(-1, 1, n)
        assert anytime_shift(launches, alpha).bounded
        assert not anytime_shift(launches[:-1], alpha).bounded


def test_launches_needed():
    """7 launches in a family and 6 alone, as the documentation says; more for more confidence."""
    assert [launches_needed_anytime(0.05 / cases, cases) for cases in (2, 8, 64)] == [7, 7, 7]
    assert launches_needed_anytime(0.05) == 6
    assert launches_needed_anytime(0.01) == 8
    assert launches_needed_anytime(0.01 / 64, 64) == 9


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 64])
def test_modes_of_any_case_leave_the_symmetric_evidence_alone(alpha):
    """Launches that are clear evidence to the t-mixture wait, and are never more than their
    signs."""
    doubted = replace(terms(alpha), modes=True)
    assert doubted.least == launches_needed_tight(alpha)
    rng = np.random.default_rng(12)
    for n in (6, 9, 13, 20):
        x = 0.3 + 0.05 * rng.standard_normal(n)
        shift = sequential.anytime_shift(x, doubted)
        assert shift.bounded == (n >= doubted.least)
        if shift.bounded:
            assert -math.log(shift.p) <= log_symmetric(x) + 1e-12
            assert shift.low <= anytime_shift(x, alpha).low
            for off in (-0.01, 0.01):
                assert exceeds(x[None], shift.low + off, doubted).all() == (off < 0)


@given(
    distances=st.integers(1, 11).flatmap(
        lambda n: arrays(float, n, elements=st.floats(0, 1, allow_subnormal=False))
    )
)
def test_symmetric_evidence_has_mean_one_by_enumeration(distances):
    """Whatever the distances, over all signs, each as likely: it is a martingale, exactly."""
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(distances))))
    assert np.exp(log_symmetric(signs * distances)).mean() == pytest.approx(1.0)


def test_symmetric_evidence_rarely_gets_far():
    """Over all 2^14 sequences of signs it ever reaches 1 / alpha in at most alpha of them."""
    n, alpha = 14, 0.05
    distances = np.random.default_rng(5).standard_cauchy(n)
    rows = distances * np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
    looks = np.stack([log_symmetric(rows[:, :look]) for look in range(1, n + 1)])
    reached = (looks.max(axis=0) >= -math.log(alpha)).mean()
    assert 0 < reached <= alpha


def test_a_spike_counts_neither_way():
    """One launch far off does not undo what twenty show, nor is it evidence itself."""
    rng = np.random.default_rng(6)
    x = 0.02 + 0.01 * rng.standard_normal(20)
    spiked = np.append(x, -5.0)
    assert log_symmetric(spiked) == pytest.approx(log_symmetric(x), abs=1e-12)
    assert anytime_shift(spiked, 0.05 / 64).low > 0


def test_launches_at_zero_count_neither_way():
    assert log_symmetric(np.zeros(30)) == pytest.approx(0.0)
    half = np.array([1.0] * 12 + [0.0] * 12)
    assert log_symmetric(half) <= log_equal(12) + 1e-12


@pytest.mark.parametrize("t_statistic", [0.0, 1.5, 4.0, 12.0])
@pytest.mark.parametrize("n", [3, 8, 20])
def test_t_evidence_is_the_integral_it_stands_for(n, t_statistic):
    """The closed form equals the density of Student's t under the prior over that under no change,
    integrated numerically with scipy's noncentral t."""
    evidence = math.exp(float(log_t_mixture(np.array(t_statistic / math.sqrt(n - 1)), n, n)))

    def weight(shift: float) -> float:
        prior = sum(
            w * (shift / c) ** 2 * scipy.stats.norm.pdf(shift, scale=c)
            for w, c in ((2 / 3, 0.8), (1 / 3, 2.5))
        )
        return prior * scipy.stats.nct.pdf(t_statistic, n - 1, math.sqrt(n) * shift)

    edges = (-16.0, -4.0, -1.0, 0.0, 1.0, 4.0, 16.0)
    parts = [scipy.integrate.quad(weight, *edge)[0] for edge in itertools.pairwise(edges)]
    expected = sum(parts) / scipy.stats.t.pdf(t_statistic, n - 1)
    assert evidence == pytest.approx(expected, rel=1e-4)


def test_normal_mixture_of_a_worked_example():
    """mean +- s sqrt(2 (n + 1) / n^2 log(sqrt(n + 1) / alpha)), by hand for 9 launches."""
    x = np.array([-1.0, 1.0, -1.0, 1.0, 0.0, 2.0, 4.0, 2.0, 1.0])
    shift = normal_mixture(x, 0.05)
    half = x.std(ddof=1) * math.sqrt(2 * 10 / 81 * math.log(math.sqrt(10) / 0.05))
    assert (shift.low, shift.value, shift.high) == pytest.approx((1 - half, 1.0, 1 + half))


def test_correlated_launches_are_fewer():
    """A known correlation widens the interval to what whitening leaves of the evidence."""
    x = autocorrelated(np.random.default_rng(3), (1, 40))[0] + 1
    plain, allowing = anytime_shift(x, 0.05), anytime_shift(x, 0.05, 0.5)
    assert allowing.high - allowing.low > 1.4 * (plain.high - plain.low)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_expected_half_width(correlation):
    """What is planned for is what comes out on launches with that spread and correlation."""
    rng = np.random.default_rng(4)
    x = autocorrelated(rng, (1, 200))[0] if correlation else rng.standard_normal(200)
    shift = anytime_shift(x, 0.05, correlation)
    planned = expected_half_width(200, terms(0.05, correlation))
    assert (shift.high - shift.low) / 2 == pytest.approx(planned, rel=0.15)
    assert math.isinf(expected_half_width(6, terms(0.05 / 64)))


def test_spread_of_spiky_launches_is_that_of_the_others():
    """What is planned by is not the spikes, which the evidence passes over."""
    x = 0.01 * np.random.default_rng(8).standard_normal(100)
    spiked = np.append(x, np.full(10, 0.5))
    assert spread(spiked) == pytest.approx(spread(x), rel=0.2)
    assert spread(np.array([1.0, 1.0, 1.0, 2.0])) == pytest.approx(0.5)
