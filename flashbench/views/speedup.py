"""The view of verdicts: a row per case and candidate, or of baselines alone per case."""

import math
from collections.abc import Sequence

from flashbench import operations
from flashbench.arrays import FloatArray
from flashbench.baseline_names import title
from flashbench.comparison import Comparison
from flashbench.launches import LaunchData, baseline_index, baselines_of
from flashbench.outcome import Outcome
from flashbench.pairing import best_baseline
from flashbench.report import Report
from flashbench.runfile import RunFile
from flashbench.table import (
    ALONE,
    Cell,
    Column,
    Document,
    Note,
    ShownIn,
    bounds_cells,
    interval_columns,
    memory_cell,
    name_column,
    rate_cell,
    ratio_text,
    speedup_cell,
    text_cell,
    time_cell,
)
from flashbench.verdict import Verdict
from flashbench.views import detail, frame

_CASE = name_column("case", "case")
_CANDIDATE = name_column("candidate", "candidate", "data")
_REASON = Column("reason", "", "data", numeric=False)


def document(report: Report, *, gate: bool = False, times: bool = False) -> Document:
    """Speed-ups with verdicts: one file against its baseline, or B against A.

    gate: add the gate's answer in one sentence. times: add each candidate's percentiles and the
    bootstrap interval of its speed-up, for programs and for readers who ask for the column.
    """
    rows: list[dict[str, Cell]] = []
    if not report.comparisons:
        data = report.data[0]
        rows = [_baseline_cells(data, index) for index in range(len(data.run.cases))]
        columns = _baseline_columns(_title(data.run), _others(data))
    elif report.data[0].run.pair is not None:
        columns = _pair_columns(_title(report.data[0].run))
        beside = _beside(report.data[0])
        rows = [_pair_row(report, beside, *judged) for judged in report.judged]
    elif len(report.data) == 1:
        columns = _one_file_columns(_title(report.data[0].run), _others(report.data[0]))
        best = report.best or report.comparisons
        rows = [
            _one_file_row(report.data[0], ours, against_best, verdict)
            for (ours, verdict), against_best in zip(report.judged, best, strict=True)
        ]
    else:
        columns = _two_file_columns(_title(report.data[0].run))
        rows = [_two_file_row(report, *judged) for judged in report.judged]
    if times and report.comparisons:
        columns[-1:-1] = _times_columns()
        rows = [row | _times(report, one) for row, one in zip(rows, report.judged, strict=True)]
    if report.comparisons:
        several = len({comparison.candidate for comparison in report.comparisons}) > 1
        columns.insert(1, name_column("candidate", "candidate", "text" if several else "data"))
    return Document(
        "speedup",
        _header(report),
        columns,
        rows,
        frame.summary(report),
        frame.footer(report),
        frame.notes(report) + ([] if report.comparisons else _baseline_notes(report.data[0])),
        frame.verdict(report) if gate else "",
    )


def empty_pair() -> Document:
    """The table of two builds before anything is measured."""
    columns = [*_pair_columns(), *_times_columns(), _CANDIDATE]
    return Document("speedup", [], columns, [], {}, [])


def empty_run(baselines: Sequence[str], *, judged: bool) -> Document:
    """The table of a run file before anything is measured. baselines: the default first; judged:
    whether there are other candidates."""
    control, others = title(baselines[0]), baselines[1:]
    columns = _one_file_columns(control, others) if judged else _baseline_columns(control, others)
    columns += [*_times_columns(), _CANDIDATE] * judged
    return Document("speedup", [], columns, [], {}, [])


def _header(report: Report) -> list[str]:
    lines = frame.identity(report)
    control = _title(report.data[0].run)
    if not report.comparisons:
        return [
            *lines,
            f"no candidate besides {control}: its own times alone, medians over launches",
        ]
    run = report.data[0].run
    pair = run.pair
    if pair is not None:
        where = "paired processes" if run.settings.processes == "paired" else "the same launches"
        meaning = f"speed-up = {pair.old} time / {pair.new} time, measured in {where}"
    elif len(report.data) == 1:
        against = {comparison.pairing.against for comparison in report.comparisons}
        name = against.pop() if len(against) == 1 else f"best {control}"
        meaning = f"speed-up = {name} time / candidate time"
    else:
        meaning = f"machine = {control} in A / in B, speed-up = candidate in A / in B / machine"
    return [
        *lines,
        f"{meaning}: above 1 is faster; times are medians over launches",
        frame.levels(report, when=", whenever one looks" if pair is not None else ""),
    ]


def _title(run: RunFile) -> str:
    """How columns call the default baseline; in lower case, the beginning of their keys."""
    return title(operations.of_file(run.cases).baseline)


def _one_file_columns(control: str, others: Sequence[str]) -> list[Column]:
    return [
        _CASE,
        Column("candidate_us", "ours us", together="us"),
        Column("candidate_tflops", "TFLOP/s", "wide"),
        Column(f"{control.lower()}_us", f"{control} us", together="us"),
        *_backend_columns(others, "wide"),
        Column("best_us", "best us", "wide"),
        Column("best_backend", "best", "wide", numeric=False),
        *interval_columns("speedup", "speed-up", "key"),
        *interval_columns("speedup_best", "vs best"),
        *_verdict_columns(),
    ]


def _pair_columns(control: str = title(operations.ATTENTION.baseline)) -> list[Column]:
    return [
        _CASE,
        Column("a_us", "A us", together="us"),
        Column("b_us", "B us", together="us"),
        Column(f"{control.lower()}_us", f"{control} us"),
        *interval_columns("speedup", "speed-up", "key"),
        Column(f"speedup_{control.lower()}", f"B vs {control}", "wide"),
        *_verdict_columns(launches="text"),
    ]


def _two_file_columns(control: str) -> list[Column]:
    return [
        _CASE,
        Column("a_us", "A us", together="us"),
        Column("b_us", "B us", together="us"),
        Column(f"{control.lower()}_a_us", f"{control} in A us", "wide", together="control us"),
        Column(f"{control.lower()}_b_us", f"{control} in B us", "wide", together="control us"),
        *interval_columns("machine", "machine"),
        *interval_columns("speedup", "speed-up", "key"),
        *_verdict_columns(),
    ]


def _verdict_columns(launches: ShownIn = "data") -> list[Column]:
    return [
        Column("p", "p (all cases)", "wide"),
        Column("p_least", "", "data", numeric=False),
        Column("detectable_percent", "detectable %", "wide"),
        Column("memory_mb", "memory MB", "wide"),
        *([Column("launches", "launches")] if launches == "text" else []),
        Column("verdict", "verdict", "key", numeric=False),
        Column("against", "", "data", numeric=False),
        Column("metric", "", "data", numeric=False),
        *([Column("launches", "", "data")] if launches == "data" else []),
        Column("launches_needed", "", "data"),
        *frame.cost_columns(),
        _REASON,
    ]


def _times_columns() -> list[Column]:
    bootstrap = interval_columns("bootstrap", f"bootstrap {ALONE}", "data")
    return [*detail.percentile_columns("data"), *bootstrap]


def _times(report: Report, judged: tuple[Comparison, Verdict]) -> dict[str, Cell]:
    """With two files the percentiles are those of B."""
    comparison, data = judged[0], report.data[-1]
    if comparison.estimate is None:
        return {}
    candidate, case = (
        data.candidate_index[comparison.candidate],
        data.case_index[comparison.case.id],
    )
    launches = [seconds * 1e6 for seconds in data.samples(candidate, case)]
    return detail.percentile_cells(launches) | detail.bootstrap_cells(comparison.pairing.sides)


def _baseline_columns(control: str, others: Sequence[str]) -> list[Column]:
    return [
        _CASE,
        Column(f"{control.lower()}_us", f"{control} us", "key"),
        Column(f"{control.lower()}_tflops", "TFLOP/s", "key"),
        *_backend_columns(others, "text" if len(others) < 5 else "wide"),
        Column("best_backend", "best", numeric=False),
        _REASON,
    ]


def _backend_columns(others: Sequence[str], shown: ShownIn) -> list[Column]:
    return [Column(f"backend_us:{name}", f"{name.partition(':')[2]} us", shown) for name in others]


def _others(data: LaunchData) -> list[str]:
    """The baselines besides the default."""
    default = baseline_index(data.run)
    return [data.run.candidates[i].name for i in baselines_of(data.run) if i != default]


def _one_file_row(
    data: LaunchData, ours: Comparison, against_best: Comparison, verdict: Verdict
) -> dict[str, Cell]:
    case = data.case_index[ours.case.id]
    time = _candidate_time(data, ours.candidate, case, verdict)
    return {
        **_baseline_cells(data, case),
        **_verdict_cells(data, ours, verdict),
        "candidate_us": time_cell(time),
        "candidate_tflops": rate_cell(data.run.cases[case], time),
        "speedup_best": speedup_cell(against_best.shift, interval=False),
        **bounds_cells("speedup_best", against_best.shift),
    }


def _beside(data: LaunchData) -> FloatArray | None:
    """(cases,): the new build's speed-up over the default baseline; None if the file has none."""
    assert data.run.pair is not None
    new = data.run.pair.new
    default = baseline_index(data.run, new)
    return None if default is None else data.median_speedups(data.candidate_index[new], default)


def _pair_row(
    report: Report, beside: FloatArray | None, comparison: Comparison, verdict: Verdict
) -> dict[str, Cell]:
    (data,) = report.data
    control = _title(data.run).lower()
    case = data.case_index[comparison.case.id]
    row = {"case": text_cell(comparison.case.id), **_verdict_cells(data, comparison, verdict)}
    row["a_us"] = time_cell(data.median_us(data.candidate_index[comparison.pairing.against], case))
    row["b_us"] = time_cell(_candidate_time(data, comparison.candidate, case, verdict))
    row[f"{control}_us"] = time_cell(_default_time(data, case))
    if beside is not None and not math.isnan(beside[case]):
        row[f"speedup_{control}"] = Cell(beside[case].item(), ratio_text(beside[case]))
    return row


def _two_file_row(report: Report, comparison: Comparison, verdict: Verdict) -> dict[str, Cell]:
    a, b = report.data
    control = _title(a.run).lower()
    pairing = comparison.pairing
    row = {"case": text_cell(comparison.case.id), **_verdict_cells(b, comparison, verdict)}
    case_a, case_b = a.case_index[comparison.case.id], b.case_index.get(comparison.case.id)
    row["a_us"] = time_cell(a.median_us(a.candidate_index[pairing.against], case_a))
    row[f"{control}_a_us"] = time_cell(_default_time(a, case_a))
    row["machine"] = speedup_cell(pairing.machine, interval=False)
    row |= bounds_cells("machine", pairing.machine)
    if case_b is not None and comparison.candidate in b.candidate_index:
        row["b_us"] = time_cell(_candidate_time(b, comparison.candidate, case_b, verdict))
        row[f"{control}_b_us"] = time_cell(_default_time(b, case_b))
    return row


def _verdict_cells(data: LaunchData, comparison: Comparison, verdict: Verdict) -> dict[str, Cell]:
    case = data.case_index.get(comparison.case.id)
    candidate = data.candidate_index.get(comparison.candidate)
    memory = None
    if case is not None and candidate is not None:
        memory = data.peak_memory(candidate, case)
    return {
        **frame.verdict_cells(comparison, verdict),
        "candidate": text_cell(comparison.candidate),
        "memory_mb": memory_cell(memory),
        **frame.cost_cells(data, candidate, case),
    }


def _baseline_cells(data: LaunchData, case: int) -> dict[str, Cell]:
    default, control = baseline_index(data.run), _title(data.run).lower()
    best = best_baseline(data, case)
    cells = {"case": text_cell(data.run.cases[case].id)}
    for index in baselines_of(data.run):
        candidate = data.run.candidates[index]
        time = data.median_us(index, case)
        failure = data.failure(index, case)
        cell = time_cell(time)
        if time is None and failure:
            cell = Cell(None, failure.status.replace("_", " "))
        if index == default:
            cells[f"{control}_us"] = cell
            cells[f"{control}_tflops"] = rate_cell(data.run.cases[case], time)
            cells["reason"] = text_cell(failure.reason if failure else "")
        else:
            cells[f"backend_us:{candidate.name}"] = cell
    if best is not None:
        cells["best_us"] = time_cell(data.median_us(best, case))
        cells["best_backend"] = text_cell(data.run.candidates[best].name)
    return cells


def _baseline_notes(data: LaunchData) -> list[Note]:
    """Why a baseline's times are missing, in a table without other candidates."""
    baselines = [index for index, one in enumerate(data.run.candidates) if one.baseline]
    return frame.failures("", data, baselines)


def _candidate_time(data: LaunchData, candidate: str, case: int, verdict: Verdict) -> float | None:
    """The median time; empty for a wrong result, which has no speed."""
    if verdict.outcome is Outcome.WRONG:
        return None
    return data.median_us(data.candidate_index[candidate], case)


def _default_time(data: LaunchData, case: int) -> float | None:
    default = baseline_index(data.run)
    return None if default is None else data.median_us(default, case)
