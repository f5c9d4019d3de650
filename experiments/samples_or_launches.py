"""What a sample buys and what a launch buys (Kalibera & Jones 2013): the samples of a launch that
narrow an interval most in a given time.

    python experiments/samples_or_launches.py COMPARE.json ...

For files of two builds with at least four samples in each block. For each number of samples in a
block: the variance of a launch's log(A / B), robust (from the median absolute deviation), times the
seconds of a launch, both relative to those of all samples. The least is best. Seconds: the start's
share, checks and warm-up, turns at the clock and samples, as the file has them.
"""

import sys
from pathlib import Path

import numpy as np

from flashbench import runfile
from flashbench.arrays import FloatArray, IntArray
from flashbench.metric import DEFAULT_METRIC
from flashbench.runfile import Result, RunFile

TAKEN = (1, 2, 3, 4, 5)


def log_ratios(run: RunFile, case: str, taken: int) -> FloatArray:
    assert run.pair is not None
    found = []
    for launch in run.launches[1:]:
        sides = {r.candidate: r for r in launch.results if r.case == case and r.status == "ok"}
        if {run.pair.old, run.pair.new} <= set(sides):
            old, new = (blocks(sides[name], taken) for name in (run.pair.old, run.pair.new))
            pairs = [np.subtract.outer(old[b], new[b]).ravel() for b in old.keys() & new.keys()]
            found.append(np.median(np.concatenate(pairs)))
    return np.array(found)


def samples_of(result: Result) -> tuple[FloatArray, IntArray]:
    metric = DEFAULT_METRIC["cpu" if result.case.endswith("cpu") else "cuda"]
    timing = next(one for one in result.timings if one.metric == metric)
    return timing.calls * np.array(timing.seconds), np.array(timing.block)


def blocks(result: Result, taken: int) -> dict[int, FloatArray]:
    """The log times of so many samples of each block."""
    seconds, block = samples_of(result)
    return {number: np.log(seconds[block == number][:taken]) for number in set(block.tolist())}


def launch_seconds(run: RunFile, case: str, taken: int) -> float:
    """Median seconds of this case in a launch with this many samples in a block."""
    found = []
    for launch in run.launches[1:]:
        total = launch.case_seconds.get(case, 0.0) + launch.start_seconds / len(run.cases)
        for result in launch.results:
            if result.case == case and result.status == "ok":
                seconds, block = samples_of(result)
                left_out = [seconds[block == one][taken:].sum() for one in set(block.tolist())]
                total -= float(sum(left_out))
        found.append(total)
    return float(np.median(found))


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        run = runfile.read(path)
        print(f"{path.name}: {len(run.launches)} launches of {run.settings.samples} samples")
        print(f"{'samples in a block':32}" + "".join(f"{taken:14}" for taken in TAKEN))
        for case in run.cases:
            line = []
            for taken in TAKEN:
                logs = log_ratios(run, case.id, taken)
                spread = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
                line.append((spread, launch_seconds(run, case.id, taken)))
            whole = line[-1][0] ** 2 * line[-1][1]
            cells = (f"{100 * s:6.2f} % {s**2 * t / whole:5.2f}" for s, t in line)
            print(f"{case.id:32}" + "".join(cells))


if __name__ == "__main__":
    main()
