"""What a launch's number should take of its samples.

    python experiments/block_estimators.py [FILE ...]

For files of two builds, by default those of results/machines. A launch's log(A / B) is the median
over A/B/B/A blocks of the difference between both builds' mean log times in the block, or between
their medians, or minima; or the median over all pairs of samples of one block, as
`launches.speedups` has it, or of the launch. Prints medians over the cases: the standard deviation
and 1.4826 median absolute deviations of a launch, the median change, and the launches after which
an unchanged case of two is SAME at 1 % in 80 % of comparisons (41: more than 40).
"""

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flashbench import runfile
from flashbench.aa import MOST_LAUNCHES, POWERS, unchanged
from flashbench.arrays import FloatArray
from flashbench.metric import DEFAULT_METRIC
from flashbench.runfile import Launch, RunFile, Timing
from flashbench.stats.sequential import exceeds

Blocks = list[FloatArray]  # of one side of a launch: the log times of each
ALPHA = 0.05 / 2
LIMIT = float(np.log1p(0.01))


def of_each(block: Callable[[FloatArray], np.float64]) -> Callable[[Blocks, Blocks], np.float64]:
    return lambda old, new: np.median([block(a) - block(b) for a, b in zip(old, new, strict=True)])


def pairs_of_blocks(old: Blocks, new: Blocks) -> np.float64:
    pairs = [np.subtract.outer(a, b).ravel() for a, b in zip(old, new, strict=True)]
    return np.median(np.concatenate(pairs))


def pairs_of_launch(old: Blocks, new: Blocks) -> np.float64:
    return pairs_of_blocks([np.concatenate(old)], [np.concatenate(new)])


ESTIMATORS: dict[str, Callable[[Blocks, Blocks], np.float64]] = {
    "mean of a block": of_each(np.mean),
    "median of a block": of_each(np.median),
    "minimum of a block": of_each(np.min),
    "pairs in a block": pairs_of_blocks,
    "all pairs": pairs_of_launch,
}


def log_ratios(
    run: RunFile, estimator: Callable[[Blocks, Blocks], np.float64]
) -> dict[str, list[float]]:
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
                old, new = ([side[block] for block in common] for side in sides)
                found[case.id].append(float(estimator(old, new)))
    return found


def until_same(ratios: FloatArray) -> int:
    """Launches after which 80 % of comparisons without a change are SAME."""
    draws = unchanged(ratios)
    for launches in range(2, MOST_LAUNCHES + 1):
        rows = draws[:, :launches]
        same = exceeds(rows, -LIMIT, ALPHA) & exceeds(-rows, -LIMIT, ALPHA)
        if same.mean() >= POWERS[0]:
            return launches
    return MOST_LAUNCHES + 1


def _blocks(launch: Launch, case: str, candidate: str, metric: str) -> dict[int, FloatArray]:
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
    print("| file | cases | a launch's number | sd % | 1.4826 MAD % | change % | SAME after |")
    print("|---|---|---|---|---|---|---|")
    for path in map(Path, sys.argv[1:] or sorted(stored.glob("*.json"))):
        run = runfile.read(path)
        for name, estimator in ESTIMATORS.items():
            cases = [np.array(row) for row in log_ratios(run, estimator).values() if len(row) > 2]
            middles = [np.median(row) for row in cases]
            deviations = [np.std(row, ddof=1) for row in cases]
            usual = [1.4826 * np.median(np.abs(row - np.median(row))) for row in cases]
            shown = (f"{100 * float(np.median(each)):.2f}" for each in (deviations, usual, middles))
            same = f"{np.median([until_same(row) for row in cases]):.0f}"
            print(f"| {path.stem} | {len(cases)} | {name} | {' | '.join(shown)} | {same} |")


if __name__ == "__main__":
    main()
