"""What a launch's number should take of a block's samples: their mean, median or minimum.

    python experiments/block_estimators.py [FILE ...]

For files of two builds, by default those of results/machines. A launch's log(A / B) is the median
over A/B/B/A blocks of the difference between both builds' mean log times in the block, as
`launches.speedups` has it, or between their medians, or minima. Prints medians over the cases: the
standard deviation and 1.4826 median absolute deviations of a launch, and the median change.
"""

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashbench import runfile
from flashbench.metric import DEFAULT_METRIC
from flashbench.runfile import Launch, RunFile, Timing

Block = Callable[[NDArray[np.float64]], np.float64]
ESTIMATORS: dict[str, Block] = {"mean": np.mean, "median": np.median, "min": np.min}


def log_ratios(run: RunFile, estimator: Block) -> dict[str, list[float]]:
    """By case, a launch's log(A / B)."""
    assert run.pair is not None
    found = defaultdict(list)
    for launch in run.launches:
        for case in run.cases:
            metric = run.pair.metric or DEFAULT_METRIC[case.device]
            sides = [
                _blocks(launch, case.id, name, metric) for name in (run.pair.old, run.pair.new)
            ]
            if common := set(sides[0]) & set(sides[1]):
                old, new = ([estimator(side[block]) for block in common] for side in sides)
                found[case.id].append(float(np.median(np.subtract(old, new))))
    return found


def _blocks(
    launch: Launch, case: str, candidate: str, metric: str
) -> dict[int, NDArray[np.float64]]:
    """The log times of each block."""
    results = (
        r for r in launch.results if (r.case, r.candidate, r.status) == (case, candidate, "ok")
    )
    timing = next((t for r in results for t in r.timings if t.metric == metric), None)
    timing = timing or Timing(metric=metric, calls=1, seconds=[], block=[])
    logs, block = np.log(timing.seconds), np.array(timing.block)
    return {number: logs[block == number] for number in set(timing.block)}


def main() -> None:
    stored = Path(__file__).parents[1] / "results" / "machines"
    print(
        "| file | cases | of a block | sd % | 1.4826 MAD % | change % |\n|---|---|---|---|---|---|"
    )
    for path in map(Path, sys.argv[1:] or sorted(stored.glob("*.json"))):
        run = runfile.load(path)
        for name, estimator in ESTIMATORS.items():
            cases = [np.array(row) for row in log_ratios(run, estimator).values() if len(row) > 2]
            middles = [np.median(row) for row in cases]
            deviations = [np.std(row, ddof=1) for row in cases]
            usual = [1.4826 * np.median(np.abs(row - np.median(row))) for row in cases]
            shown = (f"{100 * float(np.median(each)):.2f}" for each in (deviations, usual, middles))
            print(f"| {path.stem} | {len(cases)} | {name} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
