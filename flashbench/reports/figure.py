"""Figure: what is drawn, as data. A drawer (svg.py, paper.py) turns it into a picture.

A figure is a set of small panels with a legend in common; its table has every number in it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from flashbench.log_axis import LogAxis

Numbers = Sequence[float]
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """scale "rows": a line for each of `rows`, at 0, 1, 2 ..., the first on top; "order": places
    without a number. marked: the numbers to write; none: round ones."""

    label: str
    scale: Literal["log", "linear", "rows", "order"]
    ends: Ends
    rows: tuple[str, ...] = ()
    marked: tuple[float, ...] = ()

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers, as many as a small panel has room for."""
        if self.scale == "rows":
            return [(float(place), name) for place, name in enumerate(self.rows)]
        if self.scale == "order":
            return []
        if self.marked:
            return [(number, f"{number:.6g}") for number in self.marked]
        if self.scale == "log":
            texts = [str(tick["text"]) for tick in LogAxis(self.ends).ticks()]
            numbers = [float(text) for text in texts]
            inside = [n for n in numbers if self.ends[0] <= n <= self.ends[1]]
            while len(inside) > 6:
                inside = inside[::2] if 1.0 not in inside[1::2] else inside[1::2]
            return [(number, number_text(number)) for number in inside]
        return _linear_ticks(*self.ends)


@dataclass(frozen=True, slots=True)
class Dots:
    """Marks of a series; low, high: the interval of each along `along`, None where it has no such
    end; titles: of each, for a pointer; filled: else open marks; small: of many."""

    series: int
    x: Numbers
    y: Numbers
    titles: Sequence[str] = ()
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    along: Literal["x", "y"] = "x"
    filled: bool = True
    small: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """series None: a line that is no series, such as a roof."""

    series: int | None
    x: Numbers
    y: Numbers
    dashed: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Area:
    """Between two heights."""

    series: int
    x: Numbers
    low: Numbers
    high: Numbers


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the panel where an axis has this number."""

    along: Literal["x", "y"]
    at: float


Mark = Dots | Line | Area | Rule


@dataclass(frozen=True, slots=True)
class Panel:
    """summary: what it shows, in words, for those who do not see it. row: height of one of `rows`,
    in pixels."""

    title: str
    x: Axis
    y: Axis
    marks: list[Mark]
    summary: str
    row: int = 22


@dataclass(frozen=True, slots=True)
class Data:
    """The numbers of a figure, for a CSV file."""

    columns: list[str]
    rows: list[list[str | float | int | None]]


@dataclass(frozen=True, slots=True)
class Figure:
    """name: of its files; caption: how to read it; series: names of the legend."""

    name: str
    title: str
    caption: str
    panels: list[Panel]
    series: tuple[str, ...]
    data: Data
    notes: list[str] = field(default_factory=list)


def log_ends(numbers: Sequence[float], room: float = 1.08) -> Ends:
    """Of an axis on which all of them have room."""
    low, high = min(numbers), max(numbers)
    if high / low < 1.02:
        low, high = low / 1.02, high * 1.02
    return low / room, high * room


def linear_ends(numbers: Sequence[float]) -> Ends:
    """The same for an axis that is not logarithmic."""
    low, high = min(numbers), max(numbers)
    room = 0.06 * (high - low) or max(abs(high) * 0.05, 1.0)
    return low - room, high + room


def number_text(number: float) -> str:
    """Short, without an exponent for what a figure shows: 16384 as 16k."""
    if abs(number) >= 1e6:
        return f"{number / 1e6:.4g}M"
    return f"{number / 1e3:.4g}k" if abs(number) >= 1e4 else f"{number:.6g}"


def _linear_ticks(low: float, high: float) -> list[tuple[float, str]]:
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    while (high - low) / step > 5:
        step *= 2 if str(step).strip("0.")[0] in "15" else 2.5
    first = math.ceil(low / step)
    found = [n * step for n in range(first, math.floor(high / step) + 1)]
    return [(number, number_text(round(number, 10))) for number in found]
