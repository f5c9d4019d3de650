"""The detail view: percentiles of every candidate's times, including SDPA's, and their spread."""

from collections.abc import Sequence

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.launches import LaunchData
from flashbench.report import Report
from flashbench.stats.bootstrap import bootstrap_median_ratio, bootstrap_quantile
from flashbench.stats.quantile import Quantile, launch_quantile, samples_needed
from flashbench.stats.spread import spread
from flashbench.table import (
    ALONE,
    NONE,
    Cell,
    Column,
    Document,
    Note,
    ShownIn,
    digits,
    interval_columns,
    memory_cell,
    name_column,
    percent_cell,
    rate_cell,
    ratio_text,
    text_cell,
    time_cell,
)
from flashbench.views import frame

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
NOT_ESTIMABLE = "not estimable"
_BINS, _BLOCKS = 32, " ▁▂▃▄▅▆▇█"
# With fewer launches the bootstrap covers the truth far below 95 % (docs/lab/statistics.md).
MIN_BOOTSTRAP = 6


def document(report: Report, *, plot: bool = False) -> Document:
    """One row per case and candidate, one run file after the other. plot: with a histogram."""
    rows = []
    for name, data in frame.sides(report):
        for case in range(len(data.run.cases)):
            ends = _ends(data, case) if plot else (0.0, 0.0)
            for candidate in range(len(data.run.candidates)):
                row = _row(data, candidate, case)
                if plot:
                    row["distribution"] = _distribution(data, candidate, case, ends)
                if data is not report.data[0]:
                    row |= _over(report.data[0], data, candidate, case)
                rows.append({"file": text_cell(name), **row} if name else row)
    needed = ", ".join(f"{samples_needed(q)} for {n}" for n, q in QUANTILES.items() if q >= 0.9)
    several = len(report.data) > 1
    header = [
        *frame.identity(report),
        "percentiles over the samples of all launches, with 95 % intervals that include the "
        f"variation between launches; samples needed: {needed}, with fewer {NOT_ESTIMABLE}; an "
        "interval needs as many launches",
        "launches = median of their medians, with a 95 % percentile-bootstrap interval over "
        f"launches{'; x A = that of B / that of A' if several else ''}",
        "spread = (p75 - p25) / p50; medians sd = standard deviation of the launches' medians; "
        "between, within = deviation between launches, and of samples within them; rho = "
        "correlation of a sample with the one before; memory = peak beyond the inputs",
    ]
    columns = _columns(several)
    if plot:
        header.append(
            "distribution = of the samples of all launches; one logarithmic scale for all "
            "candidates of a case, what lies beyond it is at its ends"
        )
        place = next(i for i, column in enumerate(columns) if column.key == "launches")
        columns.insert(place, Column("distribution", "distribution", numeric=False))
    return Document(
        "detail",
        header,
        columns,
        rows,
        frame.summary(report),
        [frame.spent(report).line] if frame.spent(report) else [],
        [Note(caveat.code, caveat.message) for caveat in report.caveats]
        + [
            note
            for name, data in frame.sides(report)
            for note in frame.failures(name, data, range(len(data.run.candidates)))
        ],
    )


def _columns(several_files: bool) -> list[Column]:
    columns = [name_column("file", "file")] if several_files else []
    columns += [
        name_column("case", "case"),
        name_column("candidate", "candidate"),
        Column("status", "status", "data", numeric=False),
        Column("launches", "launches", "wide"),
        Column("samples", "samples", "wide"),
    ]
    columns += percentile_columns()
    columns += interval_columns("launches", "launches us [95 %]", unit="_us")
    if several_files:
        columns += interval_columns("over_a", "x A [95 %]")
    return [
        *columns,
        Column("min_us", "min us"),
        Column("max_us", "max us"),
        Column("spread_percent", "spread %"),
        Column("launch_sd_percent", "medians sd %"),
        Column("between_sd_percent", "between %"),
        Column("within_sd_percent", "within %"),
        Column("sample_correlation", "rho"),
        Column("tflops", "TFLOP/s"),
        Column("memory_mb", "memory MB"),
        *frame.cost_columns(),
        Column("reason", "", "data", numeric=False),
    ]


def percentile_columns(shown: ShownIn = "text") -> list[Column]:
    """Columns of percentiles of one candidate's samples, with their intervals."""
    each = [interval_columns(name, f"{name} us {ALONE}", shown, unit="_us") for name in QUANTILES]
    return [column for columns in each for column in columns]


def percentile_cells(launches: Sequence[FloatArray]) -> dict[str, Cell]:
    """launches: samples in microseconds, at least one launch."""
    cells = [_quantile_cells(name, launch_quantile(launches, q)) for name, q in QUANTILES.items()]
    return {key: cell for some in cells for key, cell in some.items()}


def _row(data: LaunchData, candidate: int, case: int) -> dict[str, Cell]:
    failure = data.failure(candidate, case)
    row = {
        "case": text_cell(data.run.cases[case].id),
        "candidate": text_cell(data.run.candidates[candidate].name),
        "status": text_cell(failure.status if failure else "ok"),
        "reason": text_cell(failure.reason if failure else ""),
        "memory_mb": memory_cell(data.peak_memory(candidate, case)),
        **frame.cost_cells(data, candidate, case),
    }
    launches = [seconds * 1e6 for seconds in data.samples(candidate, case)]
    medians = data.launch_medians(candidate, case)
    if not launches:
        status = failure.status if failure else "not measured"
        return row | {"p50_us": Cell(None, status.replace("_", " "))}
    samples = np.concatenate(launches)
    row["launches"] = Cell(len(medians), str(len(medians)))
    row["samples"] = Cell(len(samples), str(len(samples)))
    row |= percentile_cells(launches)
    low, middle, high = np.quantile(samples, (0.25, 0.5, 0.75)).tolist()
    row |= _launch_cells(np.exp(medians) * 1e6)
    between = float(np.std(medians, ddof=1)) if len(medians) > 1 else None
    parts = spread([np.log(launch) for launch in launches])
    return row | {
        "min_us": time_cell(float(samples.min())),
        "max_us": time_cell(float(samples.max())),
        "spread_percent": percent_cell((high - low) / middle),
        "launch_sd_percent": percent_cell(between),
        "between_sd_percent": percent_cell(parts.between),
        "within_sd_percent": percent_cell(parts.within),
        "sample_correlation": _correlation_cell(parts.correlation),
        "tflops": rate_cell(data.run.cases[case], middle),
    }


def _ends(data: LaunchData, case: int) -> tuple[float, float]:
    """Log seconds between which nearly all samples of all candidates lie."""
    found = [one for c in range(len(data.run.candidates)) for one in data.samples(c, case)]
    if not found:
        return 0.0, 0.0
    low, high = np.quantile(np.log(np.concatenate(found)), (0.005, 0.98))
    return float(low), float(max(high, low + 0.02))


def _distribution(data: LaunchData, candidate: int, case: int, ends: tuple[float, float]) -> Cell:
    """A histogram of blocks, the highest bin as a full one; a bin with any sample is not empty."""
    found = data.samples(candidate, case)
    if not found:
        return NONE
    logs = np.clip(np.log(np.concatenate(found)), *ends)
    counts, _ = np.histogram(logs, bins=_BINS, range=ends)
    steps = np.ceil(counts / counts.max() * (len(_BLOCKS) - 1)).astype(int)
    return text_cell("".join(_BLOCKS[step] for step in steps))


def _launch_cells(medians_us: FloatArray) -> dict[str, Cell]:
    """The median over launches, which are independent; samples are not."""
    if len(medians_us) < MIN_BOOTSTRAP:
        value = float(np.median(medians_us))
        return {"launches_us": Cell(value, f"{digits(value)} [?, ?]")}
    return _quantile_cells("launches", bootstrap_quantile(medians_us, 0.5))


def _over(a: LaunchData, b: LaunchData, candidate: int, case: int) -> dict[str, Cell]:
    """B's median over launches divided by A's, if both have the case and candidate."""
    case_a = a.case_index.get(b.run.cases[case].id)
    candidate_a = a.candidate_index.get(b.run.candidates[candidate].name)
    if case_a is None or candidate_a is None:
        return {}
    old = np.exp(a.launch_medians(candidate_a, case_a))
    new = np.exp(b.launch_medians(candidate, case))
    if min(len(old), len(new)) < MIN_BOOTSTRAP:
        return {}
    return _ratio_cells("over_a", bootstrap_median_ratio(old, new))


def bootstrap_cells(sides: Sequence[FloatArray]) -> dict[str, Cell]:
    """The median over launches of the speed-up. sides: log speed-ups, as in `Pairing.sides`."""
    if min(map(len, sides), default=0) < MIN_BOOTSTRAP:
        return {}
    first, last = np.exp(sides[0]), np.exp(sides[-1])
    paired = len(sides) == 1
    found = bootstrap_quantile(first, 0.5) if paired else bootstrap_median_ratio(first, last)
    return _ratio_cells("bootstrap", found)


def _ratio_cells(name: str, found: Quantile) -> dict[str, Cell]:
    ends = ", ".join(ratio_text(end) for end in (found.low, found.high))
    return {
        name: Cell(found.value, f"{ratio_text(found.value)} [{ends}]"),
        f"{name}_low": Cell(found.low),
        f"{name}_high": Cell(found.high),
    }


def _correlation_cell(correlation: float | None) -> Cell:
    return NONE if correlation is None else Cell(correlation, f"{correlation:.2f}")


def quantile_cell(found: Quantile | None) -> Cell:
    """A quantile, with its interval in brackets."""
    if found is None:
        return Cell(None, NOT_ESTIMABLE)
    ends = f"{digits(found.low)}, {digits(found.high)}" if found.bounded else "?, ?"
    return Cell(found.value, f"{digits(found.value)} [{ends}]")


def _quantile_cells(name: str, found: Quantile | None) -> dict[str, Cell]:
    cells = {f"{name}_us": quantile_cell(found)}
    if found is not None and found.bounded:
        cells |= {f"{name}_low_us": Cell(found.low), f"{name}_high_us": Cell(found.high)}
    return cells
