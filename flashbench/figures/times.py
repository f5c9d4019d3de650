"""Figures of times: how they are distributed, and how they grow with the length."""

import math
import re
from collections.abc import Sequence

import numpy as np

from flashbench import operations
from flashbench.case import Case
from flashbench.figures.figure import Area, Axis, Data, Dots, Figure, Line, Mark, Panel, log_ends
from flashbench.launches import LaunchData
from flashbench.report import Report
from flashbench.stats.bootstrap import bootstrap_quantile
from flashbench.table import NEED_ATTENTION, digits
from flashbench.views.detail import MIN_BOOTSTRAP

MOST_DRAWN = 24  # cases whose distributions are drawn
_BINS = 60
_SPAN = 8  # between rates on an axis that begins at 0
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def candidates(data: LaunchData) -> tuple[str, ...]:
    """Ours first, then the baselines, as the file orders them."""
    run = data.run
    return tuple(c.name for c in sorted(run.candidates, key=lambda one: one.baseline))


def distributions(report: Report, data: LaunchData) -> Figure:
    """A panel a case, a row a candidate: the histogram of all samples, below it each launch."""
    names = candidates(data)
    chosen = _chosen(report, data)
    panels = [panel for case in chosen if (panel := _distribution(data, case, names))]
    notes = []
    if len(chosen) < len(data.run.cases):
        notes.append(
            f"{len(chosen)} of {len(data.run.cases)} cases are drawn: those that need attention "
            "first, then some of every size. `--format` writes the numbers of all."
        )
    caption = (
        "Above: histogram of the samples of all launches. Below, in the order of time: one line a "
        "launch, from its first to its third quartile, with its median. Two heaps, or launches "
        "that lie apart, are two modes. What lies beyond the 0.5th or 99.5th percentile is at the "
        "edge."
    )
    return Figure(
        "distributions",
        "Distribution of the times",
        caption,
        panels,
        names,
        _quantile_data(data),
        notes,
    )


def _chosen(report: Report, data: LaunchData) -> list[int]:
    """Cases to draw, in the order of the file."""
    count = len(data.run.cases)
    if count <= MOST_DRAWN:
        return list(range(count))
    rank = {outcome: place for place, outcome in enumerate(NEED_ATTENTION)}
    urgent = sorted(
        (rank[verdict.outcome], data.case_index[comparison.case.id])
        for comparison, verdict in report.judged
        if verdict.outcome in rank and comparison.case.id in data.case_index
    )
    first = list(dict.fromkeys(case for _, case in urgent))[: MOST_DRAWN // 2]
    by_work = sorted(set(range(count)) - set(first), key=lambda i: data.run.cases[i].flops)
    step = len(by_work) / (MOST_DRAWN - len(first))
    return sorted([*first, *(by_work[int(i * step)] for i in range(MOST_DRAWN - len(first)))])


def _distribution(data: LaunchData, case: int, names: tuple[str, ...]) -> Panel | None:
    there = [n for n in names if data.samples(data.candidate_index[n], case)]
    if not there:
        return None
    samples = {n: [s * 1e6 for s in data.samples(data.candidate_index[n], case)] for n in there}
    together = np.concatenate([one for launches in samples.values() for one in launches])
    low, high = (float(q) for q in np.quantile(together, (0.005, 0.995)))
    low, high = log_ends([low, high], 1.02)
    marks: list[Mark] = []
    said = []
    for row, one in enumerate(there):
        series, launches = names.index(one), samples[one]
        pooled = np.clip(np.concatenate(launches), low, high)
        counts, edges = np.histogram(np.log(pooled), _BINS, (math.log(low), math.log(high)))
        middles = np.exp((edges[1:] + edges[:-1]) / 2)
        heights = row - 0.06 - 0.4 * counts / counts.max()
        marks.append(Area(series, middles.tolist(), [row - 0.06] * _BINS, heights.tolist()))
        quartiles = np.array([np.quantile(launch, (0.25, 0.5, 0.75)) for launch in launches])
        places = row + 0.02 + 0.42 * (np.arange(len(launches)) + 0.5) / len(launches)
        marks.append(
            Dots(
                series,
                quartiles[:, 1].tolist(),
                places.tolist(),
                low=quartiles[:, 0].tolist(),
                high=quartiles[:, 2].tolist(),
                small=True,
            )
        )
        said.append(f"{one}: median {digits(float(np.median(pooled)))} us")
    title = data.run.cases[case].id
    y = Axis("", "rows", (-0.55, len(there) - 0.45), tuple(there))
    return Panel(title, Axis("time, us", "log", (low, high)), y, marks, "; ".join(said), row=38)


def _quantile_data(data: LaunchData) -> Data:
    """Quantiles of all cases and candidates, and the median of every launch."""
    columns = ["case", "candidate", "launch", "samples"]
    columns += [f"p{100 * q:g}_us" for q in _QUANTILES]
    rows: list[list[str | float | int | None]] = []
    for place, case in enumerate(data.run.cases):
        for candidate in data.run.candidates:
            launches = data.samples(data.candidate_index[candidate.name], place)
            alike = len({len(launch) for launch in launches}) == 1  # one call for all takes a tenth
            found = (
                np.quantile(launches, _QUANTILES, axis=1).T
                if alike
                else [np.quantile(launch, _QUANTILES) for launch in launches]
            )
            for number, (launch, quantiles) in enumerate(zip(launches, found, strict=True)):
                micros = (quantiles * 1e6).tolist()
                rows.append([case.id, candidate.name, number, len(launch), *micros])
    return Data(columns, rows)


def scaling(data: LaunchData, what: str) -> Figure:
    """what: "rate" (TFLOP/s) or "time" by the length of the keys; a panel a family of cases."""
    names = candidates(data)
    operation = operations.of_file(data.run.cases)
    panels: list[Panel] = []
    rows: list[list[str | float | int | None]] = []
    for title, cases in families([*data.run.cases]):
        marks: list[Mark] = []
        values: list[float] = []
        for series, name in enumerate(names):
            points = _along(data, name, cases, what)
            if len(points) < 2:
                continue
            x, y = [p[0] for p in points], [p[1] for p in points]
            low, high = [p[2] for p in points], [p[3] for p in points]
            titles = [f"{p[4]}, {name}: {digits(p[1])} {_UNITS[what]}" for p in points]
            line = [Line(series, x, y)] * (len(points) > 2)  # two would be straight, whatever holds
            marks += [*line, Dots(series, x, y, titles, low, high, "y")]
            values += [*y, *(end for end in [*low, *high] if end)]
            rows += [[title, name, *p] for p in points]
        if marks:
            lengths = [operation.scale(case) for case in cases]
            x_axis = Axis(operation.scales_with, "log", log_ends(lengths), marked=tuple(lengths))
            y_axis = Axis(_UNITS[what], "log", log_ends(values))
            if what == "rate" and max(values) < _SPAN * min(values):  # lengths of bars, as it were
                y_axis = Axis(_UNITS[what], "linear", (0.0, 1.08 * max(values)))
            summary = _scaling_summary(marks, names)
            group = ", ".join([cases[0].dtype, *cases[0].options.values()]).replace("_", " ")
            panels.append(Panel(title, x_axis, y_axis, marks, summary, group=group))
    caption = (
        "Median over launches, with its 95 % interval where there are six or more. Where one "
        "length has several cases, the one with the most work is drawn; each mark names its case. "
        "Two lengths alone have no line: they show no scaling."
    )
    said = "Throughput" if what == "rate" else "Time"
    data_ = Data(["family", "candidate", operation.scales_with, what, "low", "high", "case"], rows)
    return Figure(f"scaling-{what}", f"{said} by sequence length", caption, panels, names, data_)


_UNITS = {"rate": "TFLOP/s", "time": "us"}


def families(cases: Sequence[Case]) -> list[tuple[str, list[Case]]]:
    """Cases that differ in length: first those that differ in nothing else; of the others, those
    that the operation calls alike. Two lengths at least."""
    found: list[tuple[str, list[Case]]] = []
    drawn: set[str] = set()
    for strict in (True, False):
        groups: dict[tuple[object, ...], list[Case]] = {}
        for case in cases:
            if case.id in drawn or not operations.of(case).scales_with:
                continue
            groups.setdefault(_family(case, strict=strict), []).append(case)
        for key, members in groups.items():
            longest: dict[int, Case] = {}
            for case in sorted(members, key=lambda one: one.flops):
                longest[operations.of(case).scale(case)] = case
            if len(longest) >= (4 if strict else 2):
                ordered = [longest[length] for length in sorted(longest)]
                found.append((", ".join(str(part) for part in key if part), ordered))
                drawn |= {case.id for case in members}
    return sorted(found, key=lambda one: [word.zfill(9) for word in re.split(r"(\d+)", one[0])])


def _family(case: Case, *, strict: bool) -> tuple[object, ...]:
    return case.dtype, *operations.of(case).family(case, strict=strict)


def _along(
    data: LaunchData, name: str, cases: Sequence[Case], what: str
) -> list[tuple[int, float, float | None, float | None, str]]:
    """Keys, value, interval and case, of each that was timed."""
    found: list[tuple[int, float, float | None, float | None, str]] = []
    for case in cases:
        medians = np.exp(data.launch_medians(data.candidate_index[name], data.case_index[case.id]))
        if not len(medians):
            continue
        ends: list[float | None] = [None, None]
        if len(medians) >= MIN_BOOTSTRAP:
            interval = bootstrap_quantile(medians, 0.5)
            ends = [interval.low, interval.high] if interval.bounded else ends
        seconds = [float(np.median(medians)), *ends]
        if what == "rate":
            value, high, low = (case.flops / s / 1e12 if s else None for s in seconds)
        else:
            value, low, high = (s * 1e6 if s else None for s in seconds)
        assert value is not None
        found.append((operations.of(case).scale(case), value, low or value, high or value, case.id))
    return found


def _scaling_summary(marks: Sequence[Mark], names: tuple[str, ...]) -> str:
    said = []
    for mark in marks:
        if isinstance(mark, Dots):
            first, last = (
                f"{digits(mark.y[0])} at {mark.x[0]}",
                f"{digits(mark.y[-1])} at {mark.x[-1]}",
            )
            said.append(f"{names[mark.series]}: {first} keys, {last}")
    return "; ".join(said)
