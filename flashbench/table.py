"""Table: a report laid out in columns, still as numbers; renderers only print it."""

import math
from bisect import bisect
from dataclasses import dataclass, field
from typing import Literal

from flashbench.case import Case
from flashbench.outcome import Outcome
from flashbench.stats.shift import Shift

# "key": also in text on the narrowest terminal; "text": in text where there is room, as in a file;
# "wide": in text on a terminal with room to spare, and in Markdown; "data": in CSV and JSON alone.
ShownIn = Literal["key", "text", "wide", "data"]
Value = str | float | int | bool | None

# Verdicts that need attention, most urgent first; the first three fail a gate.
NEED_ATTENTION = (
    Outcome.WRONG.value,
    Outcome.SLOWER.value,
    "FAILED",  # a level of the gate
    Outcome.NOT_MEASURED.value,
    Outcome.PERHAPS_SLOWER.value,
    Outcome.UNDECIDED.value,
)
INTERVALS = "intervals: "  # begins the line of a header that says what the corrected ones cover
ALONE = "[95 %]"  # ends the titles of columns whose intervals each hold alone
FAILED = frozenset(NEED_ATTENTION[:3])
# The formats of `digits`: of numbers below the first bound, below the second...
DIGIT_BOUNDS = (1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e12)
DIGIT_FORMATS = ("%.3e", "%.7f", "%.6f", "%.5f", "%.4f", "%.3f", "%.2f", "%.1f", "%.0f", "%.3e")


@dataclass(frozen=True, slots=True)
class Column:
    """key: its name in CSV and JSON (with the unit); title: its heading; identifies: whether it
    identifies rows, so every part of a split table repeats it; together: shared by columns that a
    terminal shows together or not at all."""

    key: str
    title: str
    shown: ShownIn = "text"
    numeric: bool = True
    identifies: bool = False
    together: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value for machines (None: missing) and its text for readers."""

    value: Value
    text: str = ""


Row = dict[str, Cell]  # by the column's key


@dataclass(frozen=True, slots=True)
class Note:
    """A caveat or a reason, as data beside the numbers; code: for programs."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring rows with a heading, for readers."""

    heading: str
    rows: int


@dataclass(frozen=True, slots=True)
class Document:
    """A table with what is printed before (header) and after it (notes, footer).

    verdict: the gate's answer in one sentence; empty if nothing is judged (`show`). groups: of all
    rows, in their order; none if the rows are not grouped.
    """

    view: str
    header: list[str]
    columns: list[Column]
    rows: list[Row]
    summary: dict[str, Value | dict[str, Value]]
    footer: list[str]
    notes: list[Note] = field(default_factory=list)
    verdict: str = ""
    groups: list[Group] = field(default_factory=list)


NONE = Cell(None, "-")


def name_column(key: str, title: str, shown: ShownIn = "text") -> Column:
    """A text column that identifies rows."""
    return Column(key, title, shown, numeric=False, identifies=True)


def interval_columns(key: str, title: str, shown: ShownIn = "text", unit: str = "") -> list[Column]:
    """Columns of a number, with its interval in the text and the bounds as data. unit: suffix of
    the keys."""
    ends = [Column(f"{key}_{end}{unit}", "", "data") for end in ("low", "high")]
    return [Column(f"{key}{unit}", title, shown), *ends]


def cut_cell(text: str, width: int) -> Cell:
    """A text cut to `width` characters."""
    return Cell(text, text if len(text) <= width else f"{text[: width - 3]}...")


def text_cell(text: str) -> Cell:
    """Unescaped text; renderers escape it."""
    return Cell(text, text)


def count_cell(count: int) -> Cell:
    """A whole number."""
    return Cell(count, str(count))


def time_cell(microseconds: float | None) -> Cell:
    """A time in microseconds."""
    return NONE if microseconds is None else Cell(microseconds, digits(microseconds))


def percent_cell(fraction: float | None) -> Cell:
    """A fraction, shown in percent."""
    return NONE if fraction is None else Cell(100 * fraction, f"{100 * fraction:.2f}")


def memory_cell(size: int | None) -> Cell:
    """Bytes, shown in megabytes (10**6)."""
    return NONE if size is None else Cell(size / 1e6, f"{size / 1e6:.1f}")


def rate_cell(case: Case, microseconds: float | None) -> Cell:
    """TFLOP/s: operations of the definition over the time."""
    if microseconds is None or not case.flops:
        return NONE
    rate = case.flops / microseconds / 1e6
    return Cell(rate, digits(rate))


def speedup_cell(shift: Shift | None, *, interval: bool = True) -> Cell:
    """A log speed-up as a ratio, with its interval in brackets."""
    if shift is None:
        return NONE
    ratio = math.exp(max(-700.0, min(shift.value, 700.0)))
    if not interval:
        return Cell(ratio, ratio_text(ratio))
    if not shift.bounded:
        return Cell(ratio, f"{ratio_text(ratio)} [?, ?]")
    ends = ", ".join(ratio_text(math.exp(end)) for end in (shift.low, shift.high))
    return Cell(ratio, f"{ratio_text(ratio)} [{ends}]")


def p_cell(p: float | None, *, least: bool = False) -> Cell:
    """A p-value; least marks the smallest that this many launches can give."""
    return NONE if p is None else Cell(p, f"{p:.2g}{' (least)' * least}")


def bounds_cells(key: str, shift: Shift | None) -> dict[str, Cell]:
    """The interval's bounds as ratios, for machines; None if unbounded."""
    low, high = (shift.low, shift.high) if shift else (math.inf, math.inf)
    return {f"{key}_low": Cell(finite_exp(low)), f"{key}_high": Cell(finite_exp(high))}


def significant(value: Value) -> Value:
    """A float to ten significant digits: further ones differ between processors."""
    return float(f"{value:.10g}") if isinstance(value, float) else value


def finite_exp(log_ratio: float) -> float | None:
    """exp, or None if the result is not finite and positive."""
    return math.exp(log_ratio) if abs(log_ratio) < 700 else None


def ratio_text(ratio: float) -> str:
    """Three decimals, for a ratio near 1."""
    return f"{ratio:.3f}" if 0.01 < ratio < 100 else f"{ratio:.3g}"


def digits(number: float) -> str:
    """Four significant digits; no exponent for times from a nanosecond to an hour."""
    return DIGIT_FORMATS[bisect(DIGIT_BOUNDS, abs(number))] % number


def percentage(fraction: float) -> str:
    """0.01 as `1 %`."""
    return f"{100 * fraction:.6g} %"
