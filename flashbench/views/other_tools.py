"""The views of other tools' files: verdicts on benchmarks, and the benchmarks of one file."""

import numpy as np

from flashbench.comparison import Comparison
from flashbench.cost.spent import Spent
from flashbench.metric import label_of
from flashbench.other_tools.benchmarks import SECONDS, BenchmarkSet, BenchmarkTimes
from flashbench.other_tools.compare import Match, controls
from flashbench.other_tools.judge import OtherToolsReport
from flashbench.stats.quantile import launch_quantile
from flashbench.table import (
    NONE,
    Cell,
    Column,
    Document,
    Note,
    ShownIn,
    bounds_cells,
    digits,
    interval_columns,
    name_column,
    speedup_cell,
    text_cell,
)
from flashbench.verdict import Verdict
from flashbench.views import frame
from flashbench.views.detail import QUANTILES, quantile_cell


def document(judged: OtherToolsReport) -> Document:
    """One row per benchmark: both numbers, their ratio and its verdict."""
    report, sets = judged.report, judged.sets
    rows = [
        _row(judged, match, comparison, verdict)
        for match, (comparison, verdict) in zip(judged.matches, report.judged, strict=True)
    ]
    summary = frame.summary(report)
    for name in Spent().summary():  # these files have none
        del summary[name]
    return Document(
        "other-tools",
        _header(judged),
        _columns(judged, single=len(sets) == 1),
        rows,
        summary,
        frame.footer(report),
        frame.notes(report),
        frame.verdict(report),
    )


def series_document(one: BenchmarkSet) -> Document:
    """One row per benchmark: median, percentiles if available, and what it lacks for a verdict."""
    columns = [
        name_column("case", "series"),
        Column("unit", "unit", numeric=False),
        Column("launches", "launches"),
        Column("samples", "samples"),
        Column("median", "median"),
        *(
            Column(name, f"{name} [95 %]", "text" if name == "p90" else "wide")
            for name in QUANTILES
            if name != "p50"
        ),
        Column("status", "status", "data", numeric=False),
        Column("reason", "", "data", numeric=False),
    ]
    lacks: dict[str, list[str]] = {}
    for series in one.benchmarks:
        for text in (series.failure.reason,) if series.failure else series.lacks:
            lacks.setdefault(text, []).append(series.name)
    notes = [
        Note("lacks", f"{names[0]}{frame.more(names)}: {text}") for text, names in lacks.items()
    ]
    return Document(
        "series",
        [_identity(one), "median over launches of the launch's median; a launch is a process"],
        columns,
        [_series_row(series) for series in one.benchmarks],
        {"series": len(one.benchmarks), "launches": one.launches},
        [],
        notes,
    )


def _identity(one: BenchmarkSet) -> str:
    machine = " ".join(filter(None, [one.machine, f"({one.cpu})" if one.cpu else ""]))
    parts = [
        one.tool,
        f"{one.files} files" if one.files > 1 else "",
        f"commit {one.commit[:12]}{' with uncommitted changes' * one.dirty}" if one.commit else "",
        machine,
        one.gpu,
        *sorted({label_of(s.metric) for s in one.benchmarks if s.metric}),
    ]
    return ", ".join(filter(None, parts))


def _header(judged: OtherToolsReport) -> list[str]:
    report, sets, control = judged.report, judged.sets, _control(judged)
    if len(sets) == 1:
        lines = [_identity(sets[0])]
        meaning = f"speed-up = {control.lower()} time / candidate time"
    else:
        lines = [f"{name}: {_identity(one)}" for name, one in zip("AB", sets, strict=True)]
        meaning = "speed-up = A / B"
        if any(match.controlled for match in judged.matches):
            meaning = f"machine = {control} in A / in B, speed-up = candidate in A / in B / machine"
    return [
        *lines,
        f"{meaning}: above 1 is better; numbers are medians over launches",
        frame.levels(report),
    ]


def _control(judged: OtherToolsReport) -> str:
    """What tables call the control, if all cases are of one operation."""
    found = {match.control for match in judged.matches}
    return found.pop() if len(found) == 1 else "baseline"


def _columns(judged: OtherToolsReport, *, single: bool) -> list[Column]:
    comparisons = judged.report.comparisons
    several = len({(match.b or match.a).candidate for match in judged.matches}) > 1
    metrics = len({comparison.pairing.metric for comparison in comparisons}) > 1
    other = {match.a.unit for match in judged.matches} != {SECONDS}
    machine: ShownIn = "text" if any(c.pairing.machine for c in comparisons) else "data"
    wide: ShownIn = "data" if machine == "data" else "wide"
    control = _control(judged)
    return [
        name_column("case", "benchmark"),
        name_column("candidate", "candidate", "text" if several else "data"),
        name_column("metric", "metric", "text" if metrics else "data"),
        Column("a", f"{control} us" if single else _title("A", other), together="times"),
        Column("b", "ours us" if single else _title("B", other), together="times"),
        Column("unit", "unit", "text" if other else "data", numeric=False),
        Column("sdpa_a", f"{control} in A us", wide, together="control"),
        Column("sdpa_b", f"{control} in B us", wide, together="control"),
        *interval_columns("machine", "machine", machine),
        *interval_columns("speedup", "speed-up", "key"),
        Column("p", "p (all cases)", "wide"),
        Column("p_least", "", "data", numeric=False),
        Column("detectable_percent", "detectable %", "wide"),
        Column("verdict", "verdict", "key", numeric=False),
        Column("against", "", "data", numeric=False),
        Column("launches", "", "data"),
        Column("launches_needed", "", "data"),
        Column("reason", "", "data", numeric=False),
    ]


def _title(side: str, other: bool) -> str:
    return side if other else f"{side} us"


def _row(
    judged: OtherToolsReport, match: Match, comparison: Comparison, verdict: Verdict
) -> dict[str, Cell]:
    both = controls(*judged.sets, match) if len(judged.sets) == 2 else None
    sdpa = [_middle(series) for series in both] if both else [NONE, NONE]
    machine = comparison.pairing.machine
    return {
        **frame.verdict_cells(comparison, verdict),
        "case": text_cell(comparison.case.id),
        "candidate": text_cell(name) if (name := (match.b or match.a).candidate) else NONE,
        "a": _middle(match.a),
        "b": _middle(match.b),
        "unit": text_cell(_unit(match.a)),
        "sdpa_a": sdpa[0],
        "sdpa_b": sdpa[1],
        "machine": speedup_cell(machine, interval=False),
        **bounds_cells("machine", machine),
    }


def _unit(series: BenchmarkTimes) -> str:
    return "us" if series.unit == SECONDS else series.unit


def _scale(series: BenchmarkTimes) -> float:
    return 1e6 if series.unit == SECONDS else 1.0


def _middle(series: BenchmarkTimes | None) -> Cell:
    """The median over launches, in `_unit`."""
    if series is None or not len(series.times):
        return NONE
    value = float(np.median(series.times.values)) * _scale(series)
    return Cell(value, digits(value))


def _series_row(series: BenchmarkTimes) -> dict[str, Cell]:
    launches = [samples * _scale(series) for samples in series.samples]
    count = sum(map(len, launches))
    row = {
        "case": text_cell(series.name),
        "unit": text_cell(_unit(series)),
        "launches": Cell(len(series.times), str(len(series.times))),
        "samples": Cell(count, str(count)),
        "median": _middle(series),
        "status": text_cell(series.failure.status if series.failure else "ok"),
        "reason": text_cell(series.failure.reason if series.failure else ""),
    }
    for name, q in QUANTILES.items():
        if launches and name != "p50":
            row[name] = quantile_cell(launch_quantile(launches, q))
    return row
