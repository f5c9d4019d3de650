"""Intervals of ratios as bars of characters on one logarithmic scale, around 1.0."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flashbench.log_axis import LogAxis
from flashbench.render.terminal import Glyphs

LEAST, BEST, MOST = 24, 40, 60  # characters

_OUTLIERS = 0.02  # this share of the ratios may lie outside, where an arrow marks them


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio and its interval; an unbounded end is None."""

    value: float
    low: float | None = None
    high: float | None = None


def bars(intervals: Sequence[Interval | None], width: int, glyphs: Glyphs) -> tuple[str, list[str]]:
    """The scale, then one bar per interval, at most `width` characters each; "" for None."""
    known = [one for one in intervals if one is not None and 0 < one.value < math.inf]
    if not known:
        return "", [""] * len(intervals)
    axis = LogAxis(_range(known), 0, width - 1)
    found = [_bar(one, axis, width, glyphs) if one in known else "" for one in intervals]
    return _scale(axis, width), found


def _range(known: Sequence[Interval]) -> list[float]:
    """The range of the ratios without outliers, plus as much again of their intervals."""
    values = sorted(one.value for one in known)
    cut = int(_OUTLIERS * len(values))
    low, high = values[cut], values[-1 - cut]
    most = 1.5 * max(high, 1.0) / min(low, 1.0)
    ends = [end for one in known for end in (one.low, one.high) if end]
    inside = [end for end in ends if min(low, 1.0) / most <= end <= max(high, 1.0) * most]
    return [0.95, 1 / 0.95, low, high, *(end for end in inside if low / 1.3 <= end <= high * 1.3)]


def _bar(one: Interval, axis: LogAxis, width: int, glyphs: Glyphs) -> str:
    place = round(axis(1.0))
    cells = [" "] * width
    cells[place] = glyphs["one"]
    low = -1 if not one.low else round(axis(one.low))
    high = width if not one.high else round(axis(one.high))
    for at in range(max(low, 0), min(high, width - 1) + 1):
        cells[at] = glyphs["line"]
    if low >= 0:
        cells[min(low, width - 1)] = glyphs["low"]
    if high < width:
        cells[max(high, 0)] = glyphs["high"]
    middle = round(axis(one.value))
    cells[min(max(middle, 0), width - 1)] = glyphs["point"]
    if low < 0:
        cells[0] = glyphs["left"]
    if high >= width:
        cells[-1] = glyphs["right"]
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
