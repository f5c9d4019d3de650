"""How many launches a plan of a bisection expects."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashbench.bisect.simulated_search import simulated


@given(st.integers(1, 64))
@settings(max_examples=6)
def test_a_clear_slowdown_takes_as_many_launches_as_halvings(suspects: int) -> None:
    """And those that show both sides of the answer twice; the ends are measured before."""
    launches, commits = simulated(suspects, 0.07, 0.002, 0.98, 5)
    halvings = math.ceil(math.log2(suspects + 1))
    assert launches == sorted(launches)
    assert launches[0] <= launches[-1] <= halvings + 3
    assert commits[-1] <= min(suspects - 1, halvings + 1)


@pytest.mark.parametrize("suspects", [2, 7, 40])
def test_noise_takes_more_launches(suspects: int) -> None:
    """On the same commits, or on more of them."""
    quiet, noisy = (simulated(suspects, 0.07, spread, 0.98, 5)[0] for spread in (0.005, 0.05))
    assert sum(noisy) > sum(quiet)
