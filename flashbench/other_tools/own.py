"""Read one of our run files as a BenchmarkSet, to compare it with another tool's file."""

from pathlib import Path

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.errors import InvalidInputError
from flashbench.launches import Failure, LaunchData, baseline_index, launch_data
from flashbench.other_tools.benchmarks import SECONDS, BenchmarkSet, BenchmarkTimes, Launches
from flashbench.run_reader import read_for_analysis


def read(path: Path, metric: str | None) -> BenchmarkSet:
    """One benchmark per case and candidate, with the speed-ups over SDPA of the A/B/B/A blocks."""
    run = read_for_analysis(path)
    if run.pair is not None:
        raise InvalidInputError(
            f"{path}: holds two builds that were measured together until they were decided; "
            "compare it alone"
        )
    data = launch_data(run, metric)
    builds = [candidate.build for candidate in run.candidates if not candidate.baseline]
    commits = {build.commit for build in builds} - {""}
    return BenchmarkSet(
        str(path),
        "flashbench",
        tuple(
            benchmark
            for index in range(len(run.candidates))
            for benchmark in _of_candidate(data, index)
        ),
        launches=len(run.launches),
        machine=run.environment.hostname,
        cpu=run.environment.cpu,
        gpu=run.environment.gpu,
        torch=run.environment.torch,
        commit=commits.pop() if len(commits) == 1 else "",
        dirty=any(build.dirty for build in builds),
    )


def _of_candidate(data: LaunchData, index: int) -> list[BenchmarkTimes]:
    candidate = data.run.candidates[index]
    base = baseline_index(data.run, candidate.name)
    ratios = None
    if base is not None and not candidate.baseline:
        ratios = data.speedups(index, base)
    made = []
    for place, case in enumerate(data.run.cases):
        failed = data.failure(index, place)
        times = _present(data.log_median[index, place])
        missing = failed or Failure("missing", f"no {data.metrics[place]} times")
        made.append(
            BenchmarkTimes(
                f"{case.id} {candidate.name}",
                SECONDS,
                Launches(times.numbers, np.exp(times.values)),
                tuple(data.samples(index, place)),
                case=case.id,
                candidate=candidate.name,
                metric=data.metrics[place],
                speedups=Launches() if ratios is None else _present(ratios[place]),
                failure=None if len(times) else missing,
                partial=failed if len(times) else None,
            )
        )
    return made


def _present(values: FloatArray) -> Launches:
    numbers = np.flatnonzero(~np.isnan(values))
    return Launches(numbers, values[numbers])
