"""Intervals of ratios as bars of characters on one logarithmic scale, around 1.0."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flashbench.render.log_axis import LogAxis
from flashbench.render.terminal import Glyphs

LEAST, BEST, MOST = 24, 40, 60  # characters

_BAR = 3  # characters of the shortest bar
_OUTLIERS = 0.02  # this share of the ratios may lie outside, where an arrow marks them


@dataclass(frozen=True, slots=True)
class Interval:
    """A positive, finite ratio and its interval; an unbounded end is None."""

    value: float
    low: float | None = None
    high: float | None = None


def bars(intervals: Sequence[Interval | None], width: int, glyphs: Glyphs) -> tuple[str, list[str]]:
    """The scale, then one bar per interval, at most `width` characters each; "" for None."""
    known = [one for one in intervals if one]
    if not known:
        return "", [""] * len(intervals)
    axis = _axis(_range(known), width)
    found = [_bar(one, axis, width, glyphs) if one else "" for one in intervals]
    return _scale(axis, width), found


def _range(known: Sequence[Interval]) -> list[float]:
    """The ratios without outliers, and the ends of intervals that are not far from them."""
    values = sorted(one.value for one in known)
    cut = int(_OUTLIERS * len(values))
    low, high = values[cut], values[-1 - cut]
    ends = [end for one in known for end in (one.low, one.high) if end]
    return [0.98, 1 / 0.98, low, high, *(end for end in ends if low / 1.3 <= end <= high * 1.3)]


def _axis(numbers: Sequence[float], width: int) -> LogAxis:
    """The scale of these numbers: 1 in the middle of a character, with room for a bar on either
    side."""
    low, high = math.log(min(numbers)), math.log(max(numbers))
    share = _BAR / (width - 2 - _BAR)
    ends = [math.exp(min(low, -share * high)), math.exp(max(high, -share * low))]
    one_at = LogAxis(ends, 0.5, width - 1.5)(1.0)
    shift = round(one_at) - one_at
    return LogAxis(ends, 0.5 + shift, width - 1.5 + shift)


def _bar(one: Interval, axis: LogAxis, width: int, glyphs: Glyphs) -> str:
    """Both ends beside the point, if only by rounding; 1 lies inside or at an end of just those
    intervals that hold it. What lies outside the scale has no mark but an arrow."""
    one_at, last = round(axis(1.0)), width - 1
    low = round(axis(one.low)) if one.low else -1
    high = round(axis(one.high)) if one.high else width
    middle = round(axis(one.value))
    above, below = (one.low or 0.0) > 1, (one.high or math.inf) < 1
    first, final = (one_at + 1 if above else 0), (one_at - 1 if below else last)
    point = min(max(middle, first + 1), final - 1)
    start, end = min(max(low, first), point - 1), max(min(high, final), point + 1)
    if not above and not below:
        start, end = min(start, one_at), max(end, one_at)
    cells = [" "] * width
    cells[one_at] = glyphs["one"]
    cells[start : end + 1] = glyphs["line"] * (end + 1 - start)
    if 0 <= middle <= last:
        cells[point] = glyphs["point"]
    if low <= last:
        cells[start] = glyphs["low" if low >= 0 else "left"]
    if high >= 0:
        cells[end] = glyphs["high" if high <= last else "right"]
    return "".join(cells).rstrip()


def _scale(axis: LogAxis, width: int) -> str:
    """Numbers centred on their positions: 1 first, then others that fit."""
    cells = [" "] * width
    for number in [1.0, *sorted(axis.ticks(), key=lambda tick: abs(math.log(tick)))]:
        text, place = f"{number:.6g}", round(axis(number))
        start = min(max(place - (len(text) - 1) // 2, 0), width - len(text))
        around = cells[max(start - 2, 0) : start + len(text) + 2]
        if not "".join(around).strip():
            cells[start : start + len(text)] = text
    return "".join(cells).rstrip()
