"""Bars of intervals: on one scale, within their width, wherever the numbers are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbench.render.bars import Interval, bars
from flashbench.render.terminal import UNICODE

RATIOS = st.floats(1e-6, 1e6)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    low, value, high = sorted(draw(st.lists(RATIOS, min_size=3, max_size=3)))
    open_low, open_high = draw(st.booleans()), draw(st.booleans())
    return Interval(value, None if open_low else low, None if open_high else high)


@given(st.lists(st.none() | intervals(), max_size=60), st.integers(12, 60))
def test_every_interval_has_its_bar(found: list[Interval | None], width: int) -> None:
    """One bar per row, no wider than requested; none without an interval."""
    scale, drawn = bars(found, width, UNICODE)
    assert len(drawn) == len(found)
    assert max(map(len, [scale, *drawn])) <= width
    assert [bool(text) for text in drawn] == [one is not None for one in found]
    if any(found):
        assert "1" in scale.split()


@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=40))
def test_larger_ratios_lie_further_right(values: list[float]) -> None:
    """Points follow the order of their ratios, and lie on their side of 1."""
    _, drawn = bars([Interval(value, value, value) for value in values], 40, UNICODE)
    one = bars([Interval(1.0, 1.0, 1.0), *map(Interval, values)], 40, UNICODE)
    assert one[0]
    places = {value: text.find("●") for value, text in zip(values, drawn, strict=True)}
    inside = sorted(value for value, place in places.items() if place >= 0)
    assert [places[value] for value in inside] == sorted(places[value] for value in inside)
    for value, text in zip(values, drawn, strict=True):
        if "│" in text and "●" in text:
            assert (text.index("●") > text.index("│")) == (value > 1)


def test_what_lies_outside_is_marked() -> None:
    """An interval that the scale cuts, or that has no end, ends in an arrow."""
    found = [Interval(1.0 + i / 100, 1.0, 1.02) for i in range(100)]
    _, drawn = bars([*found, Interval(50.0, 40.0, 60.0), Interval(1.0)], 30, UNICODE)
    assert drawn[-2].endswith("►")
    assert drawn[-1].startswith("◄")
    assert drawn[-1].endswith("►")


@given(st.lists(intervals(), min_size=1, max_size=40), st.integers(16, 60))
def test_both_ends_are_shown(found: list[Interval], width: int) -> None:
    """Each end by its mark or an arrow; 1 lies on just those bars whose interval holds it."""
    _, drawn = bars([*found, Interval(1.0, 1.0, 1.0)], width, UNICODE)
    one_at = drawn[-1].index("●")
    for one, text in zip(found, drawn, strict=False):
        bar = re.search("[├◄─].*[┤►─]", text)
        assert bar is not None
        assert len(bar[0]) > 2
        assert set(bar[0][1:-1]) <= set("─●")
        assert bar[0][0] == "◄" or one.low
        assert bar[0][-1] == "►" or one.high
        holds = (one.low or 0) <= 1 <= (one.high or 2)
        assert (bar.start() <= one_at < bar.end()) == holds


@pytest.mark.parametrize("width", [16, 24, 60])
def test_narrow_intervals_keep_their_ends(width: int) -> None:
    """Three marks also where all of them round to one character."""
    found = [Interval(at, at * 0.9999, at * 1.0001) for at in (0.2, 0.97, 1.0, 1.01, 5.0)]
    assert [text.strip(" │") for text in bars(found, width, UNICODE)[1]] == ["├●┤"] * 5
