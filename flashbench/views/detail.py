"""The view of times: percentiles of every candidate, SDPA's too, with what describes them."""

import numpy as np

from flashbench.launches import LaunchData
from flashbench.report import Report
from flashbench.stats.quantile import Quantile, launch_quantile, samples_needed
from flashbench.table import (
    Cell,
    Column,
    Document,
    Note,
    digits,
    memory_cell,
    percent_cell,
    rate_cell,
    text_cell,
    time_cell,
)
from flashbench.views import frame

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
NOT_ESTIMABLE = "not estimable"


def document(report: Report) -> Document:
    """One row a case and candidate, of one run file after the other."""
    rows = []
    for name, data in frame.sides(report):
        for case in range(len(data.run.cases)):
            for candidate in range(len(data.run.candidates)):
                row = _row(data, candidate, case)
                rows.append({"file": text_cell(name), **row} if name else row)
    needed = " and ".join(f"{samples_needed(q)} for {n}" for n, q in QUANTILES.items() if q > 0.9)
    header = [
        *frame.identity(report),
        "percentiles of the samples of all launches, with 95 % intervals that allow for what "
        f"launches differ by; samples needed: {needed}, with fewer {NOT_ESTIMABLE}",
        "spread = (p75 - p25) / p50; between launches = standard deviation of the launches' "
        "medians; memory = peak beyond the inputs",
    ]
    return Document(
        "detail",
        header,
        _columns(len(report.data) > 1),
        rows,
        frame.summary(report),
        frame.footer(report)[-1:] if frame.device_seconds(report) else [],
        [Note(caveat.code, caveat.message) for caveat in report.caveats],
    )


def _columns(several_files: bool) -> list[Column]:
    columns = [Column("file", "file", numeric=False)] if several_files else []
    columns += [
        Column("case", "case", numeric=False),
        Column("candidate", "candidate", numeric=False),
        Column("status", "status", "data", numeric=False),
        Column("launches", "launches", "wide"),
        Column("samples", "samples", "wide"),
    ]
    for name in QUANTILES:
        columns += [
            Column(f"{name}_us", f"{name} us [95 %]"),
            Column(f"{name}_low_us", "", "data"),
            Column(f"{name}_high_us", "", "data"),
        ]
    return [
        *columns,
        Column("min_us", "min us"),
        Column("max_us", "max us"),
        Column("spread_percent", "spread %"),
        Column("launch_sd_percent", "between launches %"),
        Column("tflops", "TFLOP/s"),
        Column("memory_mb", "memory MB"),
        Column("reason", "", "data", numeric=False),
    ]


def _row(data: LaunchData, candidate: int, case: int) -> dict[str, Cell]:
    failures = data.failures(candidate, case)
    row = {
        "case": text_cell(data.run.cases[case].id),
        "candidate": text_cell(data.run.candidates[candidate].name),
        "status": text_cell(failures.status if failures else "ok"),
        "reason": text_cell(failures.reason if failures else ""),
        "memory_mb": memory_cell(data.peak_memory(candidate, case)),
    }
    launches = [seconds * 1e6 for seconds in data.samples(candidate, case)]
    medians = data.launch_medians(candidate, case)
    if not launches:
        status = failures.status if failures else "not measured"
        return row | {"p50_us": Cell(None, status.replace("_", " "))}
    samples = np.concatenate(launches)
    row["launches"] = Cell(len(medians), str(len(medians)))
    row["samples"] = Cell(len(samples), str(len(samples)))
    for name, q in QUANTILES.items():
        row |= _quantile_cells(name, launch_quantile(launches, q))
    low, middle, high = np.quantile(samples, (0.25, 0.5, 0.75)).tolist()
    between = float(np.std(medians, ddof=1)) if len(medians) > 1 else None
    return row | {
        "min_us": time_cell(float(samples.min())),
        "max_us": time_cell(float(samples.max())),
        "spread_percent": percent_cell((high - low) / middle),
        "launch_sd_percent": percent_cell(between),
        "tflops": rate_cell(data.run.cases[case], middle),
    }


def _quantile_cells(name: str, found: Quantile | None) -> dict[str, Cell]:
    if found is None:
        return {f"{name}_us": Cell(None, NOT_ESTIMABLE)}
    if not found.bounded:
        return {f"{name}_us": Cell(found.value, f"{digits(found.value)} [?, ?]")}
    text = f"{digits(found.value)} [{digits(found.low)}, {digits(found.high)}]"
    return {
        f"{name}_us": Cell(found.value, text),
        f"{name}_low_us": Cell(found.low),
        f"{name}_high_us": Cell(found.high),
    }
