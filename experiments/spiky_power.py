"""How soon is a change found on a busy CPU, compared with the t-mixture alone?

python experiments/spiky_power.py [trials] [seed]

Draws launches from the four quietest cases of results/machines/cpu-aa.json, a build against itself
on a shared machine. Their numbers are those of block means, which have spikes: their standard
deviation is 5 to 8 %, their median absolute deviation 1.1 to 1.4 %. A family is those four cases,
all changed alike. "seen": the interval excludes "no change". The whole rule also looks for modes
and correlated launches in the family.
"""

import math
import sys
from pathlib import Path

import numpy as np
from block_estimators import ESTIMATORS, log_ratios
from families import ALPHA, decided, rate, trials_argument

from flashbench import runfile
from flashbench.arrays import FloatArray
from flashbench.stats.evidence import log_t_mixture
from flashbench.stats.sequential import IntervalTerms, anytime_shifts

FILE = Path(__file__).parents[1] / "results" / "machines" / "cpu-aa.json"
CASES, LOOKS = 4, (20, 30, 40)
CHANGES = (0.0, 0.01, 0.02, 0.03, 0.05)


def launches_of_the_quietest() -> list[FloatArray]:
    """(launches,) each, about their median."""
    run = runfile.read(FILE)
    run.launches = [launch for launch in run.launches if launch.complete]
    sides = [np.array(row) for row in log_ratios(run, ESTIMATORS["mean of a block"]).values()]
    sides.sort(key=lambda side: float(np.median(np.abs(side - np.median(side)))))
    return [side - np.median(side) for side in sides[:CASES]]


def seen_by_t(rows: FloatArray, alpha: float) -> np.ndarray:
    n = rows.shape[1]
    t = np.abs(rows.mean(axis=1)) / np.maximum(rows.std(axis=1), 1e-300)
    return log_t_mixture(t, n, float(n)) >= -math.log(alpha)


def seen(rows: FloatArray, alpha: float) -> np.ndarray:
    return np.array(
        [shift.p <= alpha for shift in anytime_shifts(rows, IntervalTerms(alpha, CASES))]
    )


def seen_by_all(rows: FloatArray, alpha: float) -> np.ndarray:
    families = rows.reshape(CASES, -1, rows.shape[1]).swapaxes(0, 1)
    found = [[one.p_family for one in decided([family], anytime=True)] for family in families]
    return (np.array(found, dtype=float) <= CASES * alpha).T.ravel()


METHODS = {"ours": seen, "the whole rule": seen_by_all, "t-mixture alone": seen_by_t}


def main() -> None:
    trials = trials_argument(2000)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    sources = launches_of_the_quietest()
    print(f"{trials} trials, seed {seed}: seen at any look up to so many launches")
    print(f"| change | method | {' | '.join(f'by {n}' for n in LOOKS)} |\n|---|---|---|---|---|")
    for change in CHANGES:
        rng = np.random.default_rng(seed)
        drawn = [rng.choice(source, (trials // CASES, LOOKS[-1])) for source in sources]
        rows = np.concatenate(drawn) + math.log1p(change)
        for name, method in METHODS.items():
            ever = np.zeros(len(rows), dtype=bool)
            cells = []
            for n in range(4, LOOKS[-1] + 1):
                ever |= method(rows[:, :n], ALPHA / CASES)
                if n in LOOKS:
                    cells.append(rate(int(ever.sum()), len(rows)))
            print(f"| {change:.0%} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
