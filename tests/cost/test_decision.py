"""How many launches a plan expects, against launches that are simulated."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbench.cost.decision import SOUGHT, launches_until_decided
from flashbench.stats.sequential import IntervalTerms, anytime_shifts

ALONE = IntervalTerms(0.05)


def stops(change: float, spread: float, tolerance: float, draws: int) -> list[int]:
    """The launch at which each of so many comparisons is decided, or, of a change, is told from
    none."""
    rng, limit = np.random.default_rng(3), math.log1p(tolerance)
    rows = rng.normal(math.log1p(change + (change > 0) * tolerance), spread, (draws, 60))
    taken: list[int] = []
    for launches in range(2, 61):
        shifts = anytime_shifts(rows[:, :launches], ALONE)
        inside = np.array([-limit < one.low and one.high < limit for one in shifts])
        slower = [one.low > limit or (change > 0 and one.low > 0) for one in shifts]
        decided = inside | np.array(slower) | np.array([one.high < -limit for one in shifts])
        rows = rows[~decided]
        taken += [launches] * int(decided.sum())
        if not len(rows):
            break
    return taken + [60] * len(rows)


@pytest.mark.parametrize(
    ("change", "spread", "tolerance"),
    [(0, 0.004, 0.01), (0, 0.01, 0.01), (SOUGHT, 0.015, 0.02), (SOUGHT, 0.004, 0.02)],
)
def test_as_many_launches_as_the_rule_takes(change: float, spread: float, tolerance: float) -> None:
    """The likely number is within 25 % of the median, and nine of ten lie in the range."""
    taken = stops(change, spread, tolerance, 60)
    found = launches_until_decided(spread, tolerance, ALONE, 60, sought=change > 0)
    assert float(np.median(taken)) == pytest.approx(found.likely, rel=0.25)
    assert np.mean([found.low <= one <= found.high for one in taken]) >= 0.9


@given(
    spread=st.floats(0, 1),
    tolerance=st.floats(0, 0.5),
    terms=st.builds(IntervalTerms, st.floats(1e-6, 0.5), st.integers(1, 64)),
    most=st.integers(1, 300),
    sought=st.booleans(),
)
def test_a_range_is_in_order_and_within_the_plan(
    spread: float, tolerance: float, terms: IntervalTerms, most: int, sought: bool
) -> None:
    """Whatever the spread and the rule."""
    found = launches_until_decided(spread, tolerance, terms, most, sought=sought)
    assert 1 <= found.low <= found.likely <= found.high <= most
