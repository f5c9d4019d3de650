"""Figures of speed-ups: a row for each shape."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from flashbench import operations
from flashbench.baseline_names import is_default, title
from flashbench.case import Case
from flashbench.comparison import Comparison
from flashbench.figures.figure import Axis, Data, Dots, Ends, Figure, Panel, ReferenceLine, log_ends
from flashbench.report import Report
from flashbench.stats.shift import Shift
from flashbench.table import finite_exp, ratio_text
from flashbench.verdict import Verdict

_ROWS = 36  # of a panel: what a printed page has room for
_READ = (
    "Above 1 is faster. A line is the interval of all comparisons together; where it leaves the "
    "panel it goes on. A mark without one had too few launches for an interval."
)


class Judged(NamedTuple):
    """A compared case with its estimate."""

    case: Case
    comparison: Comparison
    verdict: Verdict
    shift: Shift

    @property
    def ratio(self) -> float:
        return math.exp(self.shift.value)

    @property
    def ends(self) -> tuple[float | None, float | None]:
        return finite_exp(self.shift.low), finite_exp(self.shift.high)

    @property
    def words(self) -> str:
        low, high = (ratio_text(end) if end else "?" for end in self.ends)
        text = f"{self.case.id}: {ratio_text(self.ratio)} [{low}, {high}]"
        return f"{text} {self.verdict.outcome}"


def judged(report: Report) -> list[Judged]:
    """The compared cases, by work: shapes in the order of their operations."""
    found = [
        Judged(comparison.case, comparison, verdict, comparison.shift)
        for comparison, verdict in report.judged
        if comparison.shift is not None
        and isinstance(comparison.case, Case)
        and abs(comparison.shift.value) < 700
    ]
    return sorted(found, key=lambda one: (one.case.flops, operations.of(one.case).order(one.case)))


def shape_name(case: Case) -> str:
    """A row's name: the part of the shape that its panel does not name."""
    return operations.of(case).shape_in_panel(case)


def against(report: Report) -> str:
    """What the speed-ups are over."""
    names = {comparison.pairing.against for comparison in report.comparisons}
    name = names.pop() if len(names) == 1 else "the best baseline"
    return title(name) if is_default(name) else name


def by_shape(found: Sequence[Judged], over: str) -> Figure:
    """A row for each shape and a mark for each dtype, or for each candidate if there is one dtype;
    in panels of a device, mask and head dim."""
    dtypes = tuple(sorted({one.case.dtype for one in found}, key=_dtype_rank))
    names = tuple(dict.fromkeys(one.comparison.candidate for one in found))
    together = len(names) > 1 and len(dtypes) == 1
    groups: dict[tuple[str | int, ...], list[Judged]] = {}
    for one in found:
        number = 0 if together else names.index(one.comparison.candidate)
        part, _ = operations.of(one.case).shape_panel(one.case)
        groups.setdefault((number, one.case.device, *part), []).append(one)
    ends = ends_of(found) if found else (0.9, 1.1)
    panels = []
    for _, members in sorted(groups.items()):
        case, candidate = members[0].case, members[0].comparison.candidate
        heading = [case.device, *dtypes * (len(dtypes) == 1), *titles_of(case)]
        if together:
            marked = [(one.comparison.candidate, one) for one in members]
            panels += row_panels(heading, marked, names, ends)
        else:
            heading += [candidate] * (len(names) > 1)
            marked = [(one.case.dtype, one) for one in members]
            panels += row_panels(heading, marked, dtypes, ends, mean_text(members))
    return Figure(
        "speedups",
        f"Speed-up over {over}",
        f"{operations.of_file([one.case for one in found]).shape_caption} {_READ}",
        panels,
        names if together else dtypes,
        _data(found),
    )


def titles_of(case: Case) -> list[str]:
    """What stands above the rows of a case's panel."""
    _, named = operations.of(case).shape_panel(case)
    return [str(part) for part in named if part]


def row_panels(
    heading: Sequence[str],
    members: Sequence[tuple[str, Judged]],
    series: tuple[str, ...],
    ends: Ends,
    mean: str = "",
    row_of: Callable[[Case], str] = shape_name,
) -> list[Panel]:
    """Panels of about equal height with a row for each shape and a mark for each of its series.
    mean: of all, in words."""
    rows = list(dict.fromkeys(row_of(one.case) for _, one in members))
    most = math.ceil(len(rows) / math.ceil(len(rows) / _ROWS))
    of_all = f" of all {len(rows)} rows" * (most < len(rows))
    named = mean + of_all if mean else "speed-up"
    panels = []
    for start in range(0, len(rows), most):
        shown = rows[start : start + most]
        part = [f"rows {start + 1} to {start + len(shown)}"] * (most < len(rows))
        inside = [(name, row, one) for name, one in members if (row := row_of(one.case)) in shown]
        panels.append(
            _row_panel([*heading, *part], shown, inside, series, Axis(named, "log", ends))
        )
    return panels


def _row_panel(
    heading: Sequence[str],
    rows: list[str],
    members: Sequence[tuple[str, str, Judged]],
    series: tuple[str, ...],
    x: Axis,
) -> Panel:
    marks: list[ReferenceLine | Dots] = [ReferenceLine(1.0)]
    there = sorted({series.index(name) for name, *_ in members})
    for place, number in enumerate(there):
        here = [(rows.index(row), one) for of, row, one in members if of == series[number]]
        offset = (place - (len(there) - 1) / 2) * 0.8 / len(there)
        marks.append(_points([one for _, one in here], [at + offset for at, _ in here], number))
    y = Axis("", "rows", (-0.6, len(rows) - 0.4), tuple(rows))
    summary = _summary([one for *_, one in members])
    title, group = ", ".join(heading), ", ".join(heading[:2])
    return Panel(title, x, y, [*marks], summary, row=max(18, 9 * len(there)), group=group)


def _points(members: Sequence[Judged], places: Sequence[float], series: int) -> Dots:
    ends = [one.ends for one in members]
    return Dots(
        series,
        [one.ratio for one in members],
        places,
        [one.words for one in members],
        [low for low, _ in ends],
        [high for _, high in ends],
    )


def ends_of(found: Sequence[Judged]) -> Ends:
    """All ratios, and intervals as far as they do not squeeze the rest."""
    ratios = [one.ratio for one in found]
    low, high = min([*ratios, 0.98]), max([*ratios, 1.02])
    bounds = [end for one in found for end in one.ends if end]
    return log_ends([low, high, *(end for end in bounds if low / 1.25 < end < high * 1.25)])


def _summary(members: Sequence[Judged]) -> str:
    ratios = [one.ratio for one in members]
    counts: dict[str, int] = {}
    for one in members:
        counts[one.verdict.outcome] = counts.get(one.verdict.outcome, 0) + 1
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    return (
        f"{len(members)} case{'s' * (len(members) != 1)}: {mean_text(members)}, "
        f"{ratio_text(min(ratios))} to {ratio_text(max(ratios))}; {said}"
    )


def mean_text(members: Sequence[Judged]) -> str:
    """The geometric mean of their speed-ups, in words."""
    mean = math.exp(math.fsum(one.shift.value for one in members) / len(members))
    return f"speed-up, {ratio_text(mean)} in the mean"


def _data(found: Sequence[Judged]) -> Data:
    rows = [table_row(one) for one in found]
    return Data([*rows[0]] if rows else [], [[*row.values()] for row in rows])


def table_row(one: Judged) -> dict[str, str | float | int | None]:
    """The numbers of a case, by column."""
    pairing, case, (low, high) = one.comparison.pairing, one.case, one.ends
    return {
        "case": case.id,
        "candidate": pairing.candidate,
        "against": pairing.against,
        "metric": pairing.metric,
        "shape": shape_name(case),
        "dtype": case.dtype,
        **case.options,
        "device": case.device,
        "speedup": one.ratio,
        "speedup_low": low,
        "speedup_high": high,
        "verdict": one.verdict.outcome,
    }


def _dtype_rank(dtype: str) -> int:
    return ("fp32", "fp16", "bf16").index(dtype) if dtype in ("fp32", "fp16", "bf16") else 9
