"""Changes that count: none without a change, however often one looks, and soon the real ones."""

import history_looks
import numpy as np
import pytest
from change_points import AR_02
from simulated_noise import heavy_tailed, normal, skewed

from flashbench.stats.lasting import FEWEST_POINTS, lasts, limit
from flashbench.stats.segments import segment

SERIES = 128


@pytest.mark.parametrize("noise", [normal, AR_02, heavy_tailed, skewed], ids=lambda n: n.__name__)
def test_no_change_counts_at_any_look(noise):
    """At most 2 % of null series that are looked at again and again ever show one that counts; at
    that rate, eight of 128 do so once in 200 such tests."""
    counted, _, _ = history_looks.ever(noise, SERIES, 1, 21, every=20)
    assert counted.sum() <= 7


def test_a_clear_step_is_provisional_and_then_counts():
    """A step of 2 % at 1 % noise is shown after 8 commits, and counts for most after 20."""
    soon = history_looks.step(SERIES, 200, 8, 2, 1)
    later = history_looks.step(SERIES, 200, 20, 2, 1)
    assert history_looks.found(soon, 192)[0] >= 0.92 * SERIES
    assert history_looks.found(later, 180)[1] >= 0.88 * SERIES


@pytest.mark.parametrize(("points", "after"), [(10, 5), (11, 5), (11, 6)])
def test_a_large_step_is_found_in_short_series(points, after):
    """7 standard deviations are found with 10 or 11 points."""
    shown, _ = history_looks.found(history_looks.step(400, points, after, 7, 1), points - after, 1)
    assert shown >= 0.95 * 400


def test_a_change_counts_from_eight_points_on_either_side():
    """However large it is, fewer are provisional."""
    values = 0.001 * np.random.default_rng(0).standard_normal(60)
    for after in range(5, 12):
        stepped = values.copy()
        stepped[60 - after :] += 1
        (step,) = segment(stepped).steps
        assert step.provisional == (after < FEWEST_POINTS)


@pytest.mark.parametrize("between", [0.05, 0.2, -0.05])
def test_a_short_level_does_not_hide_what_lasts(between):
    """Changes on either side of a level too short to confirm them count if the level lasts that
    follows, and not if it is the old one."""
    noise = 0.01 * np.random.default_rng(1).standard_normal(100)
    values = noise.copy()
    values[50:55] += between
    back = segment(values).steps
    assert len(back) == 2
    assert all(step.provisional for step in back)
    values[55:] += 0.1
    onward = segment(values).steps
    assert len(onward) == 2
    assert not any(step.provisional for step in onward)


def test_a_slow_wave_does_not_count():
    """Few series that go up and down by 0.7 deviations in 60 commits show a change that
    counts, looked at again and again."""
    counted, _, _ = history_looks.ever(history_looks.wave, SERIES, 1, 21, every=50)
    assert counted.sum() <= 0.05 * SERIES


def test_more_series_ask_for_more():
    """A change that counts among few series may be provisional among many, never the other way."""
    assert [round(limit(series, 2.0), 2) for series in (1, 64, 1000)] == [4.7, 5.51, 5.99]
    assert [round(limit(series, 4.0), 2) for series in (1, 64, 1000)] == [4.0, 4.93, 5.46]
    old, new = np.arange(20.0), np.arange(13.0, 29.0)
    counts = [lasts(old, new, 2.5, 0.0, 36, series) for series in (1, 10, 100, 10**4, 10**6)]
    assert counts == sorted(counts, reverse=True)
    assert not lasts(old, new, 1.4, 0.0, 36, 1)
