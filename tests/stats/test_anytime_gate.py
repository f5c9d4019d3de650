"""Families judged with the anytime-valid rule: verdicts, and that they stay."""

import math

import numpy as np
import pytest
from families import ALPHA, CASE, TOLERANCE
from simulated_noise import autocorrelated

from flashbench.comparison import decide_family, geometric_mean
from flashbench.outcome import Outcome
from flashbench.pairing import Pairing
from flashbench.verdict import judge


def _family(rows):
    numbers = [np.arange(len(row)) for row in rows]
    return [
        Pairing(CASE, "new", "old", "wall", sides=(row,), numbers=(n,))
        for row, n in zip(rows, numbers, strict=True)
    ]


def _decide(rows):
    return decide_family(_family(rows), ALPHA, TOLERANCE, 1, anytime=True)


def test_a_clear_slowdown_is_found_early():
    """10 % slower at 1.4 % of noise is SLOWER after 8 of the launches that the fixed plan takes."""
    rng = np.random.default_rng(1)
    rows = list(0.014 * rng.standard_normal((64, 8)))
    rows[3] -= math.log(1.1)
    outcomes = [judge(c, TOLERANCE).outcome for c in _decide(rows)]
    assert outcomes.pop(3) is Outcome.SLOWER
    assert set(outcomes) == {Outcome.UNDECIDED}


@pytest.mark.parametrize("noise", [autocorrelated, lambda rng, shape: rng.standard_normal(shape)])
def test_the_file_says_what_was_said_at_the_stop(noise):
    """A case that left at launch 9 has the interval it had then, though others were measured on."""
    rng = np.random.default_rng(2)
    rows = 0.01 * noise(rng, (12, 30))
    stopped = _decide([row[:9] for row in rows])
    whole = _decide([row[:9] if i == 5 else row for i, row in enumerate(rows)])
    assert whole[5].shift == stopped[5].shift
    assert whole[5].estimate.terms.correlation == stopped[5].estimate.terms.correlation


def test_too_few_launches_say_how_many_would_do():
    """6 launches of 64 cases are too few; 7 suffice."""
    rng = np.random.default_rng(3)
    verdict = judge(_decide(0.01 * rng.standard_normal((64, 6)))[0], TOLERANCE)
    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.launches == 7
    assert "6 launches are too few" in verdict.reason


def test_launches_too_much_alike_wait():
    """8 launches that are all 5 % off, with no spread, are UNDECIDED until there are 13 of them."""
    rows = [np.full(8, -0.05), *0.01 * np.random.default_rng(4).standard_normal((63, 8))]
    verdict = judge(_decide(rows)[0], TOLERANCE)
    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.launches == 13
    assert "one mode" in verdict.reason
    rows = [np.full(13, -0.05), *rows[1:]]
    assert judge(_decide(rows)[0], TOLERANCE).outcome is Outcome.SLOWER


def test_modes_of_other_cases_make_a_clear_change_wait():
    """9 launches that are all about 5 % off may lie in one mode if others show two: UNDECIDED until
    there are 11. Without them 9 are enough."""
    rng = np.random.default_rng(9)
    rows = 0.01 * rng.standard_normal((16, 11))
    rows[0] -= math.log(1.06)
    assert judge(_decide(rows[:, :9])[0], TOLERANCE).outcome is Outcome.SLOWER
    rows[1:3] += 0.1 * (np.arange(11) % 2)
    verdict = judge(_decide(rows[:, :9])[0], TOLERANCE)
    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.launches == 11
    assert "some cases seem to have two modes" in verdict.reason
    assert "two modes across launches" in judge(_decide(rows[:, :9])[1], TOLERANCE).reason
    assert judge(_decide(rows)[0], TOLERANCE).outcome is Outcome.SLOWER


def test_what_most_cases_share_is_no_change_of_one():
    """A case 1.3 % off where all are 0.9 % off is not yet called different, and the reason says so;
    it is where the others are not off, and if all are off by more than the tolerance."""
    rows = 0.004 * np.random.default_rng(10).standard_normal((16, 12))
    rows[0] -= rows[0].mean() + 0.013

    def verdict(off):
        return judge(_decide(np.vstack((rows[:1], rows[1:] - off)))[0], TOLERANCE)

    assert verdict(0.0).outcome is Outcome.PERHAPS_SLOWER
    assert verdict(0.009).outcome is Outcome.UNDECIDED
    assert "of most cases" in verdict(0.009).reason
    assert verdict(0.02).outcome is Outcome.PERHAPS_SLOWER


def test_the_plan_it_gives_is_about_right():
    """The advised number of launches decides most cases; half of it decides few."""
    rng = np.random.default_rng(5)
    rows = 0.008 * rng.standard_normal((40, 200))
    asked = [judge(c, TOLERANCE).launches for c in _decide(rows[:, :12])]
    planned = round(float(np.median([n for n in asked if n])))
    assert 15 < planned < 60
    decided = [judge(c, TOLERANCE).outcome for c in _decide(rows[:, :planned])]
    assert decided.count(Outcome.SAME) > 20
    early = [judge(c, TOLERANCE).outcome for c in _decide(rows[:, : planned // 2])]
    assert early.count(Outcome.SAME) < 20


def test_two_modes_are_undecided():
    """Launches in two modes 4 % apart are never SLOWER, and the reason says so."""
    rng = np.random.default_rng(6)
    modes = np.where(np.arange(20) % 2, -0.04, 0.0) + 0.0005 * rng.standard_normal(20)
    verdict = judge(_decide([modes])[0], TOLERANCE)
    assert verdict.outcome is Outcome.UNDECIDED
    assert "two modes" in verdict.reason


def test_launches_that_hardly_differ_from_their_neighbours_do_not_tell_their_spread():
    """On the fixed path a random walk leaves no interval from 12 launches, and says why."""
    walk = np.cumsum(np.random.default_rng(7).standard_normal((64, 12)), axis=1)
    family = _family(0.01 * walk)
    found = decide_family(family, ALPHA, TOLERANCE, 1)[0]
    assert found.shift is not None
    assert not found.shift.bounded
    assert "autocorrelation" in judge(found, TOLERANCE).reason


def test_the_geometric_mean_is_anytime_valid_too():
    """It is wider than that of as many launches planned ahead."""
    rows = 0.01 * np.random.default_rng(8).standard_normal((6, 10))
    fixed = geometric_mean(decide_family(_family(rows), ALPHA, TOLERANCE, 1), ALPHA)
    anytime = geometric_mean(_decide(rows), ALPHA)
    assert fixed is not None
    assert anytime is not None
    assert anytime.high - anytime.low > fixed.high - fixed.low
