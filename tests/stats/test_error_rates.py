"""A short version of experiments/: the error rates that docs/statistics.md shows still hold."""

import coverage
import false_alarms
import modes
import power
import pytest
import simulated_noise as noises

FAMILIES = 60
# With a true rate of 5 %, more than 8 of 60 families would be flagged once in 400 such tests.
MOST = 8


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize(
    "noise",
    [noises.normal, noises.heavy_tailed, noises.skewed, noises.quantised, noises.bimodal],
    ids=lambda noise: noise.__name__,
)
def test_false_alarms_are_rare_over_a_family(noise, files):
    """64 unchanged cases seldom get a FASTER or SLOWER, whatever the noise."""
    assert false_alarms.count(noise, files, 20, 0.05, FAMILIES) <= MOST


@pytest.mark.parametrize("files", [1, 2])
def test_a_two_percent_slowdown_is_found(files):
    """20 launches a side find 2 % at 1 % between launches among 64 cases, and never miscall it."""
    found, miscalled, _, _ = power.outcomes(noises.normal, files, 20, 0.02, FAMILIES)
    assert found >= 0.85 * FAMILIES
    assert miscalled == 0


@pytest.mark.parametrize("files", [1, 2])
def test_simultaneous_intervals_hold(files):
    """All 64 intervals hold the truth together in about 95 % of families, or more."""
    assert coverage.simultaneous(noises.normal, files, 20, FAMILIES) >= FAMILIES - MOST


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_percentile_intervals_hold(q, share):
    """Few miss the true percentile, also when half the variance is between launches; those of the
    median are nearly always bounded."""
    bounded, held = coverage.percentile(q, 20, 50, share, 500)
    assert bounded - held <= 0.09 * 500
    assert bounded >= 490 or q > 0.5


def test_modes_are_seen_where_they_are():
    """One mode is seldom taken for two, two seldom for one."""
    assert modes.seen(noises.normal, 20, 1000) <= 3
    assert modes.seen(noises.bimodal, 20, 1000) >= 980
