"""The latest verdicts of each machine and device, from its run file, else from asv's results."""

from collections.abc import Sequence
from pathlib import Path

from flashbench.errors import InvalidInputError
from flashbench.figures import roofline, speedups
from flashbench.figures.percentiles import percentiles
from flashbench.history import commit_record
from flashbench.history.model import History
from flashbench.machine import identify
from flashbench.metric import DEFAULT_METRIC
from flashbench.report import report_one
from flashbench.run_reader import read_for_analysis
from flashbench.runfile import Ceilings
from flashbench.site.content import Latest
from flashbench.site.samples import from_results, measured_roofs, newest
from flashbench.views import speedup


def latest_tables(history: History, results: Path) -> tuple[tuple[Latest, ...], list[str]]:
    """The newest commit's table for each machine and device measured beside SDPA, and a line for
    each unreadable file."""
    found: list[Latest] = []
    notes: list[str] = []
    for machine in history.machines:
        for device in DEFAULT_METRIC:
            place = newest(history, machine.name, device)
            run_file, commit = _run_file(history, machine.name, device, results)
            try:
                kept = measured_roofs(results, machine.name)
                if run_file is not None and (place is None or commit >= place.commit):
                    found.append(latest_table(run_file, machine.name, commit, device, kept))
                elif place is not None:
                    judged = from_results(history, machine, device, place, results, kept)
                    found += [judged] if judged else []
            except InvalidInputError as error:
                notes.append(str(error))
    return tuple(found), notes


def latest_table(
    file: Path, machine: str, commit: int, device: str, kept: Sequence[Ceilings] = ()
) -> Latest:
    """The table of one run file. kept: peak rates of the machine that the file may lack. Raises
    InvalidInputError."""
    run = read_for_analysis(file)
    report = report_one(run)
    (data,) = report.data
    figures = [speedups.by_shape(speedups.judged(report), speedups.against(report))]
    processor, threads = identify(run.environment, device)
    roofs = [*run.ceilings, *kept, *roofline.data_sheet(device, processor)]
    if any(one.key == (device, processor, threads) for one in roofs):
        figures.append(roofline.of_run(data, roofs))
    named = run.environment.gpu if device == "cuda" else run.environment.cpu
    table = speedup.document(report)
    return Latest(
        machine, device, named or device, commit, table, tuple(figures), percentiles(report)
    )


def _run_file(
    history: History, machine: str, device: str, results: Path
) -> tuple[Path | None, int]:
    """The newest commit's run file, and the commit; (None, -1) if there is none."""
    index = {commit.id: place for place, commit in enumerate(history.commits)}
    folder = commit_record.path_of(results, machine, "", "").parent
    files = [
        (index[commit], file)
        for file in folder.glob(f"*.{device}.json")
        if (commit := file.name.partition("-")[0]) in index
    ]
    return max(files)[::-1] if files else (None, -1)
