"""Store a run file's measurements in asv's results: results/MACHINE/COMMIT-run-pyX.Y.json.

A sample is a launch's median, so asv's own statistics are over launches. A file is read, merged
with the new results and replaced atomically, under a lock between flashbench processes; an invalid
file is refused and left alone. Nothing a run file names is imported or executed.
"""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np

from flashbench import locks
from flashbench import machine as machine_profile
from flashbench.arrays import FloatArray
from flashbench.damaged_files import UNREADABLE
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.files import replace_file
from flashbench.history import asv_row, machines, names
from flashbench.history.asv_result import BUILD
from flashbench.history.asv_row import FAILED_CELL, SKIPPED_CELL, WRONG_CELL, AsvCell, Combination
from flashbench.history.commit_record import machine_path
from flashbench.history.owners import owners
from flashbench.launches import LaunchData, baseline_index, launch_data
from flashbench.metric import METRICS
from flashbench.other_tools import asv_folder, untrusted_json
from flashbench.other_tools.asv_file import ASV_VERSION, Decoder, damaged
from flashbench.revisions import git
from flashbench.revisions.commits import seconds_of
from flashbench.runfile import Candidate, RunFile

Tables = dict[str, dict[Combination, AsvCell]]  # by benchmark


def keep(
    run: RunFile,
    name: str,
    results: Path,
    repository: Path,
    *,
    machine: str | None = None,
    commit: str | None = None,
) -> list[Path]:
    """Add a run file's numbers to the results folder; returns the asv result files with them.

    name: of the run file in messages. machine: in asv's results; None: as `choose` finds it.
    commit: the measured revision, if the file does not name it. Earlier numbers of the commit stay
    where this file has none, unless its result is wrong. The machine's peak rates that the file
    knows are kept too, for rooflines. Raises InvalidInputError if a candidate
    belongs to no commit or the name to another machine, NotMeasuredError if there is nothing to
    keep, and OSError.
    """
    if run.pair is not None:
        raise InvalidInputError(
            f"{name}: two builds that were measured until decided, which favours large changes; "
            "record a file of `flashbench run`"
        )
    owned = owners(run.candidates, name, repository, commit)
    place = results / machines.choose(machine, run.environment.hostname, name).name
    written = []
    data = _data(run)
    found = {revision: _tables(run, data, mine) for revision, mine in owned.items()}
    if not any(found.values()):
        raise NotMeasuredError(f"{name}: nothing was measured, so there is nothing to keep")
    with locks.exclusive(results / ".flashbench.lock"):
        described = machines.describe(place, run.environment, name)
        for one in run.ceilings:
            machine_profile.keep(one, machine_path(results, place.name))
        for revision, new in found.items():
            durations = _durations(run, owned[revision], len(owned))
            written.append(_add(place, described, run, revision, repository, new, durations))
        _describe_benchmarks(results, [new for new in found.values() if new])
    return written


def _data(run: RunFile) -> dict[str, LaunchData]:
    """The launches, by measured metric."""
    measured = {
        timing.metric for launch in run.launches for r in launch.results for timing in r.timings
    }
    return {metric: launch_data(run, metric) for metric in METRICS if metric in measured}


def _tables(run: RunFile, data: dict[str, LaunchData], mine: list[Candidate]) -> Tables:
    """The cells of these candidates and SDPA, by benchmark."""
    kept: Tables = {}
    chosen = [
        index
        for index, candidate in enumerate(run.candidates)
        if candidate in mine
        or (candidate.baseline and candidate.beside in ("", *(one.name for one in mine)))
    ]
    for metric, collected in data.items():
        for place, case in enumerate(run.cases):
            seconds = names.Name(case.device, metric, names.SECONDS)
            if str(seconds) not in names.OURS:
                continue  # no device of ours
            for index in chosen:
                _add_cells(kept, seconds, collected, index, place)
    return {benchmark: cells for benchmark, cells in kept.items() if _worth_keeping(cells)}


def _add_cells(kept: Tables, seconds: names.Name, data: LaunchData, index: int, place: int) -> None:
    candidate, case = data.run.candidates[index], data.run.cases[place]
    key = repr(case.id), repr(names.series_of(candidate))
    times = np.exp(data.launch_medians(index, place))
    failure = data.failure(index, place)
    without = SKIPPED_CELL
    if failure is not None and failure.status != "unsupported":
        without = WRONG_CELL if failure.status == "wrong" else FAILED_CELL
    cell = without
    if len(times):
        cell = asv_row.measured(times) | asv_row.percentiles(data.samples(index, place))
    kept.setdefault(str(seconds), {})[key] = cell
    base = baseline_index(data.run, candidate.name)
    if base is None or candidate.baseline:
        return
    ratios = np.exp(-_present(data.speedups(index, base)[place]))
    ratio = str(seconds._replace(quantity=names.RATIO))
    kept.setdefault(ratio, {})[key] = asv_row.measured(ratios) if len(ratios) else without


def _present(values: FloatArray) -> FloatArray:
    return values[~np.isnan(values)]


def _worth_keeping(cells: dict[Combination, AsvCell]) -> bool:
    """Whether any cell has a number, or a wrong result, which removes earlier numbers."""
    return any("samples" in cell or cell is WRONG_CELL for cell in cells.values())


def _add(
    place: Path,
    machine: dict[str, Any],
    run: RunFile,
    commit: str,
    repository: Path,
    new: Tables,
    durations: dict[str, float],
) -> Path:
    """Merge the tables and durations into the commit's file."""
    python = ".".join(run.environment.python.split(".")[:2])
    environment = names.run_environment(run.environment.python)
    path = place / f"{commit[:8]}-{environment}.json"
    content: dict[str, Any] = {
        "commit_hash": commit,
        "env_name": names.asv_environment(run.environment.python),
        "date": _date(repository, commit),
        "params": machine | {"python": python},
        "python": python,
        "requirements": {},
        "env_vars": {},
        "result_columns": list(asv_row.WRITTEN_COLUMNS),
        "results": {},
        "durations": {},
        "version": ASV_VERSION,
    }
    results: Tables = {}
    if path.exists():
        results, content["durations"] = _kept_before(path, commit)
    content["durations"] |= durations
    started = _started(run)
    for benchmark, cells in new.items():
        before = results.get(benchmark, {})
        # A new number or "wrong" replaces an old number; a crashed launch does not.
        results[benchmark] = before | {
            key: cell
            for key, cell in cells.items()
            if key not in before or cell is WRONG_CELL or "samples" in cell
        }
    content["results"] = {
        benchmark: asv_row.row_of(cells, names.VERSION, started, 0.0)
        for benchmark, cells in results.items()
    }
    replace_file(path, _json(content))
    return path


def _durations(run: RunFile, mine: list[Candidate], commits: int) -> dict[str, float]:
    """The seconds spent on these candidates, and on builds, with their share of what all `commits`
    needed: asv keeps durations in <brackets>, here one of each run, so that runs add up."""
    own = {candidate.name for candidate in mine}
    alone = {one.name: one.name in own for one in run.candidates if not one.baseline} | {
        one.name: one.beside in own for one in run.candidates if one.baseline and one.beside
    }
    results = [result for launch in run.launches for result in launch.results]
    shared = run.device_seconds - sum(r.device_seconds for r in results if r.candidate in alone)
    seconds = sum(r.device_seconds for r in results if alone.get(r.candidate))
    started = _started(run)
    found = {
        f"<run {started}>": seconds + shared / commits,
        f"{BUILD} {started}>": run.costs.build_seconds / commits,
    }
    return {name: round(value, 3) for name, value in found.items() if value > 0}


def _kept_before(path: Path, commit: str) -> tuple[Tables, dict[str, float]]:
    """The file's cells and durations."""
    try:
        file = Decoder().decode(untrusted_json.content(path), path)
        if (file.commit, file.version) != (commit, ASV_VERSION):
            raise InvalidInputError(f"{path}: not the result file of {commit[:12]}")
        cells = {
            row.benchmark: asv_row.cells_of(row)
            for row in file.rows
            if row.version == names.VERSION
        }
        return cells, {name: one for name, one in file.durations.items() if name.startswith("<")}
    except (InvalidInputError, *UNREADABLE) as error:
        problem = error if isinstance(error, InvalidInputError) else damaged(path, error)
        raise InvalidInputError(f"{problem}; move it away and record its run files again") from None


def _describe_benchmarks(results: Path, new: list[Tables]) -> None:
    """Describe the benchmarks for `asv publish` and `asv compare`, beside the project's own."""
    path = results / "benchmarks.json"
    known: dict[str, Any] = {"version": ASV_VERSION}
    if path.exists():
        known = asv_folder.benchmarks_object(path)
    before = json.dumps(known, sort_keys=True)
    for tables_ in new:
        for benchmark, cells in tables_.items():
            described = known.get(benchmark)
            params = described.get("params") if isinstance(described, dict) else None
            made = asv_row.axes(cells)
            if isinstance(params, list) and len(params) == len(made):
                made = [
                    list(dict.fromkeys([*old, *added]))
                    for old, added in zip(params, made, strict=True)
                ]
            known[benchmark] = {
                "code": "",
                "type": "track",
                "name": benchmark,
                "param_names": list(names.PARAMETERS),
                "unit": names.OURS[benchmark].unit,
                "version": names.VERSION,
                **(described if isinstance(described, dict) else {}),
                "params": made,
            }
    if json.dumps(known, sort_keys=True) != before:
        replace_file(path, _json(known))


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"  # with NaN and Infinity, as asv writes them


def _date(repository: Path, commit: str) -> int:
    """asv's date of a result: the author's time in milliseconds, 0 without one."""
    shown = git.ask(repository, "log", "-1", "--no-show-signature", "--format=%at", commit, "--")
    return seconds_of(shown.decode().strip()) * 1000


def _started(run: RunFile) -> int:
    """The first launch's start in milliseconds since 1970; 0 if unknown."""
    for text in (run.launches[0].started if run.launches else "", run.created):
        try:
            return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            continue
    return 0
