"""The latest verdicts of each machine and device, from the run files beside asv's results."""

from pathlib import Path

from flashbench.case import Case
from flashbench.errors import InvalidInputError
from flashbench.history import record
from flashbench.history.model import History
from flashbench.launches import DEFAULT_METRIC
from flashbench.report import Report, report_one
from flashbench.run_reader import load
from flashbench.site.content import Latest, Spot
from flashbench.table import finite_exp
from flashbench.verdict import Outcome
from flashbench.views import speedup


def latest_tables(history: History, results: Path) -> tuple[tuple[Latest, ...], list[str]]:
    """The newest commit's table of each machine and device that has a run file, and a line for
    each file that cannot be read."""
    index = {commit.id: place for place, commit in enumerate(history.commits)}
    found, notes = [], []
    for machine in history.machines:
        folder = record.path_of(results, machine.name, "", "").parent
        for device in DEFAULT_METRIC:
            files = [
                (index[commit], file)
                for file in folder.glob(f"*.{device}.json")
                if (commit := file.name.partition("-")[0]) in index
            ]
            for place, file in sorted(files, reverse=True):
                try:
                    found.append(latest_table(file, machine.name, place, device))
                    break
                except InvalidInputError as error:
                    notes.append(str(error))
    return tuple(found), notes


def latest_table(file: Path, machine: str, commit: int, device: str) -> Latest:
    """The table of one run file. Raises InvalidInputError."""
    run = load(file)
    report = report_one(run)
    named = run.environment.gpu if device == "cuda" else run.environment.cpu
    return Latest(
        machine=machine,
        device=device,
        processor=named or device,
        commit=commit,
        table=speedup.document(report),
        spots=_spots(report),
    )


def _spots(report: Report) -> tuple[Spot, ...]:
    (data,) = report.data
    made = []
    for comparison, verdict in zip(report.comparisons, report.verdicts, strict=True):
        case = comparison.case
        assert isinstance(case, Case)
        median = data.median_us(
            data.candidate_index[comparison.candidate], data.case_index[case.id]
        )
        value = finite_exp(comparison.shift.value) if comparison.shift else None
        if median is None or value is None or verdict.outcome is Outcome.WRONG:
            continue
        assert comparison.shift is not None
        ends = finite_exp(comparison.shift.low), finite_exp(comparison.shift.high)
        made.append(
            Spot(
                case=case.id,
                candidate=comparison.candidate,
                dtype=case.dtype,
                verdict=verdict.outcome.value,
                seconds=median / 1e6,
                flops=case.flops,
                bytes=case.bytes,
                speedup=(value, *ends),
            )
        )
    return tuple(made)
