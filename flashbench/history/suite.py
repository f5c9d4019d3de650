"""Called by the asv suites in benchmarks/: measure a commit once, then serve the numbers.

`measure` runs in asv's `setup_cache`, once per commit: SDPA and the commit's kernel interleaved, by
the worker processes and clocks of `flashbench run`. Its run files, one per device, are stored
beside the commit's record. The numbers are served from the current directory, which `setup_cache`
and the benchmarks share.
"""

import os
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flashbench import runfile
from flashbench.arrays import FloatArray
from flashbench.case import Case, DtypeName
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.history import commit_record
from flashbench.launches import LaunchData, launch_data
from flashbench.operations.attention.operation import Causal, grid, masks
from flashbench.operations.attention.shapes import Shape
from flashbench.runfile import RunFile

if TYPE_CHECKING:
    from flashbench.revisions import Built


@dataclass(frozen=True)
class Grid:
    """The cases of the history on one device."""

    shapes: list[Shape]
    dtypes: list[DtypeName]
    causal: list[Causal]


KERNEL, SDPA = "flashbench", "sdpa"  # the names of `flashbench run`, to share its series

HEADLINE = Shape(1, 8, 8, 512, 512, 64)
# A few quick cases, so a commit takes half a minute; `flashbench run` measures whole grids.
HISTORY_GRID: dict[str, Grid] = {
    "cpu": Grid([Shape(1, 1, 1, 128, 128, 64), HEADLINE], ["fp32", "bf16"], [False]),
    "cuda": Grid(
        [HEADLINE, Shape(2, 16, 16, 2048, 2048, 128)],
        ["fp16", "bf16"],
        [False, True],
    ),
}
LAUNCHES = 3  # default of `launches`
SAMPLES = 16

TrackedSamples = dict[str, list[float] | int]  # asv stores these as they are and takes their median


def cases(device: str) -> list[Case]:
    """The history's cases on a device, the same on every machine."""
    chosen = HISTORY_GRID[device]
    return grid(chosen.shapes, chosen.dtypes, chosen.causal, device)


def launches() -> int:
    """Launches per commit: $FLASHBENCH_HISTORY_LAUNCHES (more decide more), or LAUNCHES."""
    chosen = os.environ.get("FLASHBENCH_HISTORY_LAUNCHES", str(LAUNCHES))
    if not chosen.isdecimal() or int(chosen) < 1:
        raise InvalidInputError(
            f"FLASHBENCH_HISTORY_LAUNCHES is {chosen!r}; give a number of launches, 1 or more"
        )
    return int(chosen)


def measure(device: str) -> None:
    """Measure SDPA and this asv environment's commit; does nothing without such a device.

    Raises NotMeasuredError if the commit's package does not load.
    """
    import torch  # imported here, because processes that only serve numbers need none of it

    from flashbench.history.commit import installed
    from flashbench.measuring.plan import Plan
    from flashbench.measuring.progress import Progress
    from flashbench.revisions.built import setup_of_builds
    from flashbench.run_plan import measure as measure_plan

    if device == "cuda" and not torch.cuda.is_available():
        return
    chosen, built = HISTORY_GRID[device], installed()
    plan = Plan(
        shapes=[shape.sizes for shape in chosen.shapes],
        dtypes=chosen.dtypes,
        options=masks(chosen.causal),
        device=device,
        launches=launches(),
        samples=SAMPLES,
        **setup_of_builds({KERNEL: built}),
    )
    end = measure_plan(plan, _run_file(device), Progress())
    if end.interrupted or end.run is None:
        raise NotMeasuredError("interrupted")
    _keep(end.run, built, device)


def _run_file(device: str) -> Path:
    return Path(f"{device}.json")


def _keep(measured: RunFile, built: "Built", device: str) -> None:
    """Store the run file beside the commit's record, and wrong results in the record."""
    place = Path(os.environ[commit_record.VARIABLE])
    runfile.save(measured, commit_record.run_path(place, device))
    files = [
        file for known in HISTORY_GRID if (file := commit_record.run_path(place, known)).exists()
    ]
    wrong = [
        commit_record.wrong_results(runfile.read(file)).get(built.revision.commit) for file in files
    ]
    kept = commit_record.of_built(built, os.environ["ASV_ENV_NAME"], next(filter(None, wrong), ""))
    commit_record.write(place, kept)


def seconds(case: str, candidate: str) -> TrackedSamples | float:
    """Each launch's median in seconds per call; NaN (asv: skipped) without the device.

    Raises NotMeasuredError with the reason if a launch failed on this case.
    """
    data = _data(case)
    if data is None:
        return nan
    place, index = _found(data, case, candidate)
    return _samples(np.exp(data.log_median[index, place]))


def ratio(case: str, candidate: str) -> TrackedSamples | float:
    """The candidate's time over SDPA's in each launch (`LaunchData.speedups`); otherwise like
    `seconds`."""
    data = _data(case)
    if data is None:
        return nan
    place, index = _found(data, case, candidate)
    _, base = _found(data, case, SDPA)
    ratios = _samples(np.exp(-data.speedups(index, base)[place]))
    if not ratios["samples"]:
        raise NotMeasuredError(f"{case}: {candidate} and SDPA have no launch in common")
    return ratios


def _data(case: str) -> LaunchData | None:
    """The measurements of the case's device in its default metric; None without the device."""
    device = case.rpartition("-")[2]
    path = _run_file(device)
    return launch_data(runfile.read(path)) if path.exists() else None


def _found(data: LaunchData, case: str, candidate: str) -> tuple[int, int]:
    """The indices of a case and of a candidate with times on it."""
    place, index = data.case_index.get(case), data.candidate_index.get(candidate)
    if place is None or index is None:
        raise NotMeasuredError(f"{case}, {candidate}: not in the run file")
    if failed := data.failure(index, place):
        raise NotMeasuredError(f"{case}, {candidate}: {failed.status}: {failed.reason}")
    if not len(data.launch_medians(index, place)):
        raise NotMeasuredError(f"{case}, {candidate}: no launch reached it")
    return place, index


def _samples(launches: FloatArray) -> TrackedSamples:
    """The samples for asv. launches: (launches,), NaN without a number."""
    # Six digits, because asv prints all digits of a unit that it does not know.
    values = [float(f"{value:.6g}") for value in launches[~np.isnan(launches)]]
    return {"samples": values, "number": 1}
