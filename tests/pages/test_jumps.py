"""Jumps: steps that have too few commits on one side to be judged as changes."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pages.sample import sparse

from flashbench.history.model import Points
from flashbench.site.jumps import below_best, jumps, newly_slower

(GRAPH,) = sparse().graphs
(CHANGE,) = GRAPH.changes


def times(levels: list[float]) -> Points:
    """Times at every second commit, with intervals of 1 %."""
    value = np.array(levels)
    unknown = np.full(len(levels), np.nan)
    ends = value * 0.995, value * 1.005
    launches = np.full(len(levels), 10)
    return Points(2 * np.arange(len(levels)), value, *ends, *ends, launches, unknown, unknown)


@given(st.integers(1, 19))
def test_a_step_near_an_end_is_a_jump(place: int) -> None:
    """Within three points of either end, where no level can be told; recent at the newer."""
    found = jumps(times([1.0] * place + [2.0] * (20 - place)), ())
    assert bool(found) == (place < 4 or place > 16)
    for one in found:
        assert (one.commit, one.speedup, one.recent) == (2 * place, 0.5, place > 16)


def test_a_step_near_a_change_is_a_jump() -> None:
    """Beside it, not at it; without intervals, or within the tolerance, nothing is one."""
    change = replace(CHANGE, commit=20)
    levels = times([1.0] * 10 + [0.5] * 2 + [0.4] * 8)
    assert [one.commit for one in jumps(levels, (change,))] == [24]
    assert jumps(levels, ()) == ()
    unknown = np.full(20, np.nan)
    assert jumps(replace(levels, low=unknown, high=unknown), (change,)) == ()
    close = times([1.0, 1.009] + [1.009] * 10)
    narrow = replace(close, low=close.value, high=close.value)
    assert jumps(narrow, ()) == ()


def test_what_recovered_is_not_newly_slower() -> None:
    """The newest commit counts, as a multiple of what was before all recent jumps."""
    levels = times([1.0] * 17 + [1.2, 1.2, 1.5])
    slower = newly_slower(levels, jumps(levels, ()))
    assert slower is not None
    np.testing.assert_allclose((slower.commit, slower.speedup), (34, 1 / 1.5))
    for back in ([1.2, 1.2, 1.0], [0.9, 0.9, 0.9], [1.0, 1.0, 1.0]):
        levels = times([1.0] * 17 + back)
        assert newly_slower(levels, jumps(levels, ())) is None


@given(
    st.lists(st.floats(1.0, 1.02), min_size=4, max_size=9),
    st.lists(st.floats(1.12, 1.2), min_size=4, max_size=9),
    st.lists(st.floats(1.05, 1.5), max_size=5),
)
def test_a_series_that_fell_from_its_best(
    best: list[float], last: list[float], before: list[float]
) -> None:
    """At the first slow commit, by the levels' medians, however it began."""
    fell = below_best(times([*before, *best, *last]))
    assert fell is not None
    assert fell.commit == 2 * (len(before) + len(best))
    assert 1 / 1.2 <= fell.speedup <= 1.02 / 1.12
    assert below_best(times([*before, *last, *best])) is None


def test_a_fall_needs_two_levels_that_do_not_meet() -> None:
    """A fall of 5 % over a level's commits; one newest commit as fast as the best is none."""
    assert below_best(times([1.0] * 4 + [1.2] * 3)) is None
    assert below_best(times([1.0] * 4 + [1.04] * 4)) is None
    assert below_best(times([1.0] * 4 + [1.2, 1.2, 1.0, 1.2])) is None
    assert below_best(times([1.0] * 4 + [1.2, 1.2, 1.2, 1.05])) is None  # which may be its end
