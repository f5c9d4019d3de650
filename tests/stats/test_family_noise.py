"""What all cases of a family say together: modes in any, a shift of most, what they have in
common."""

import itertools
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from flashbench.stats.modes import FEWEST_FOR_MODES, log_modes_in_any, log_two_modes
from flashbench.stats.shared import MIN_CASES, shared_shift


def test_evidence_of_two_modes_is_the_bayes_factor_that_it_stands_for():
    """With two launches in each it is that of a two-sample t statistic under the prior, over the
    8 ways to be split, by scipy's noncentral t."""
    row = np.array([0.0, 0.3, 2.0, 2.1])
    t = scipy.stats.ttest_ind(row[2:], row[:2]).statistic

    def weight(distance: float) -> float:
        prior = sum(
            0.5 * (distance / c) ** 2 * scipy.stats.norm.pdf(distance, scale=c) for c in (3, 6)
        )
        return prior * scipy.stats.nct.pdf(t, 2, distance)

    edges = (-50.0, -12.0, -3.0, 0.0, 3.0, 12.0, 50.0)
    parts = [scipy.integrate.quad(weight, a, b)[0] for a, b in itertools.pairwise(edges)]
    expected = sum(parts) / scipy.stats.t.pdf(t, 2) / 8
    assert math.exp(log_two_modes(row[None], 0.0)[0]) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("launches", [FEWEST_FOR_MODES, 7, 12])
def test_evidence_of_two_modes_does_not_grow_without_them(launches):
    """Its mean over normal launches is at most 1, so it is 10 in at most a tenth; it depends on
    neither location nor scale, grows with two modes, and does not count those nearer than the
    gap."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((40000, launches))
    logs = log_two_modes(rows, 0.0)
    assert np.minimum(np.exp(logs), 1000).mean() < 1
    assert (logs > math.log(10)).mean() < 0.02
    np.testing.assert_allclose(log_two_modes(3 - 0.01 * rows[:50], 0.0), logs[:50], atol=1e-6)
    modes = np.arange(launches) % 2 + 0.05 * rows[:50]
    assert (log_two_modes(modes, 0.0) > math.log(2)).all()
    assert np.isneginf(log_two_modes(modes, 2.0)).all()


def test_launches_without_spread_have_modes_only_if_they_differ():
    """Two ticks of a clock are modes, one is not."""
    alike, ticks = np.full((1, 8), 0.3), np.array([[0.3, 0.3, 0.3, 0.3, 0.5, 0.5, 0.5, 0.5]])
    assert log_two_modes(alike, 0.0)[0] < 0
    assert log_two_modes(ticks, 0.1)[0] > 5


def test_evidence_of_modes_in_any_case():
    """By hand for two cases: both have modes, or each has them with even odds."""
    first, second = 5.0, 0.2
    expected = (first * second + (1 + first) / 2 * (1 + second) / 2) / 2
    found = log_modes_in_any(np.log([first, second]))
    assert math.exp(found) == pytest.approx(expected)
    assert log_modes_in_any(np.log([first])) == pytest.approx(math.log(first))
    none = np.full(63, -np.inf)  # that cannot be modes
    assert log_modes_in_any(np.append(none, math.log(1e6))) > math.log(1000)


def test_a_shift_of_most_cases():
    """All cases shifted alike share it, whatever the direction; half or a quarter of them do not
    move it far; unchanged ones share next to nothing, few cases nothing."""
    rng = np.random.default_rng(2)
    noise, errors = rng.standard_normal(64), np.ones(64)
    assert shared_shift(10 + noise, errors) == pytest.approx(10, abs=0.5)
    assert shared_shift(-10 - noise, errors) == -shared_shift(10 + noise, errors)
    assert abs(shared_shift(noise + 10 * (np.arange(64) < 32), errors)) < 1
    assert abs(shared_shift(noise + 10 * (np.arange(64) < 16), errors)) < 0.5
    assert abs(shared_shift(noise, errors)) < 0.3
    few = MIN_CASES - 1
    assert shared_shift(10 + noise[:few], errors[:few]) == 0
