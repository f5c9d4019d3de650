"""Figure: a drawing as data, which svg.py and paper.py turn into a picture.

A figure is a set of small panels with a common legend; its table has every number in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from flashbench.render.log_axis import LogAxis, linear_ticks

NOT_FOLDED = 18  # panels; of a figure with more a page shows AT_ONCE
AT_ONCE = 12
_Numbers = Sequence[float]
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """scale "rows": a line for each of `rows`, at 0, 1, 2 ..., the first on top. marked: numbers to
    label; none: round ones."""

    label: str
    scale: Literal["log", "linear", "rows"]
    ends: Ends
    rows: tuple[str, ...] = ()
    marked: tuple[float, ...] = ()

    @property
    def named(self) -> str:
        """The label, and whether the scale is logarithmic."""
        return ", ".join(filter(None, (self.label, "log" * (self.scale == "log"))))

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers, as many as fit a small panel."""
        if self.scale == "rows":
            return [(float(place), name) for place, name in enumerate(self.rows)]
        if self.marked:
            return [(number, f"{number:.6g}") for number in self.marked]
        found = LogAxis(self.ends).ticks() if self.scale == "log" else linear_ticks(*self.ends)
        while len(found) > 6:
            found = found[::2] if 1.0 not in found[1::2] else found[1::2]
        return [(number, number_text(number)) for number in found]


@dataclass(frozen=True, slots=True)
class Dots:
    """Marks of a series. low, high: the interval of each along `along`, an unbounded end is None;
    titles: tooltips; filled: else open marks; small: for many marks."""

    series: int
    x: _Numbers
    y: _Numbers
    titles: Sequence[str] = ()
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    along: Literal["x", "y"] = "x"
    filled: bool = True
    small: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line. series None: not a series, but for example a roof."""

    series: int | None
    x: _Numbers
    y: _Numbers
    dashed: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Area:
    """An area between two heights."""

    series: int
    x: _Numbers
    low: _Numbers
    high: _Numbers


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A line from the bottom to the top of the panel at this number."""

    at: float


Mark = Dots | Line | Area | ReferenceLine


@dataclass(frozen=True, slots=True)
class Panel:
    """summary: its content in words, for screen readers. row: height of one of `rows`, in pixels.
    group: of the panels that a page folds together."""

    title: str
    x: Axis
    y: Axis
    marks: list[Mark]
    summary: str
    row: int = 22
    group: str = ""


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

    @property
    def drawn(self) -> list[Panel]:
        """The panels of a picture, which has no fold."""
        return folded(self.panels)[0]


def folded(panels: Sequence[Panel]) -> tuple[list[Panel], list[tuple[str, list[Panel]]]]:
    """The panels that are shown at once, some of every group, and the others by group."""
    if len(panels) <= NOT_FOLDED:
        return [*panels], []
    groups: dict[str, list[Panel]] = {}
    for panel in panels:
        groups.setdefault(panel.group, []).append(panel)
    most = max(1, AT_ONCE // len(groups))
    shown: list[Panel] = []
    others = []
    for name, members in groups.items():
        step = max(1.0, len(members) / most)
        first = {int(number * step) for number in range(min(most, len(members)))}
        shown += [panel for place, panel in enumerate(members) if place in first]
        rest = [panel for place, panel in enumerate(members) if place not in first]
        others += [(name, rest)] if rest else []
    return shown, others


def log_ends(numbers: Sequence[float], room: float = 1.08) -> Ends:
    """The ends of a logarithmic axis with room for all numbers."""
    low, high = min(numbers), max(numbers)
    if high / low < 1.02:
        low, high = low / 1.02, high * 1.02
    return low / room, high * room


def linear_ends(numbers: Sequence[float]) -> Ends:
    """The ends of a linear axis with room for all numbers."""
    low, high = min(numbers), max(numbers)
    room = 0.06 * (high - low) or max(abs(high) * 0.05, 1.0)
    return low - room, high + room


def number_text(number: float) -> str:
    """A short number without an exponent: 16384 as 16k."""
    if abs(number) >= 1e6:
        return f"{number / 1e6:.4g}M"
    return f"{number / 1e3:.4g}k" if abs(number) >= 1e4 else f"{round(number, 10):.6g}"
