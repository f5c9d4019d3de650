"""Power: how often is a planted change found, and how often is "no change" called SAME?

python experiments/power.py [families]       (seed 2; one of 64 cases changed, tolerance 1 %)
"""

import math

import numpy as np
import simulated_noise as noises
from families import TOLERANCE, decided, rate, trials_argument

from flashbench.outcome import Outcome
from flashbench.verdict import judge


def outcomes(
    noise: noises.Noise,
    files: int,
    launches: int,
    change: float,
    families: int,
    deviation: float = 0.01,
    cases: int = 64,
) -> tuple[int, int, int, int]:
    """(SLOWER or SLOWER?, the opposite or SAME, unchanged called SAME, mean detectable in 1e-6).

    deviation: of each build's launches, independently in both of a pair. With two files, of each
    file's log speed-up (which includes SDPA's noise).
    """
    rng = np.random.default_rng(2)
    slower = -math.log1p(change)
    found = missed = same = 0
    detectable = 0.0
    for _ in range(families):
        sides = [deviation * noise(rng, (cases, launches)) for _ in range(2)]
        if files == 1:
            sides = [sides[1] - sides[0]]
        sides[-1][0] += slower
        slow, unchanged = (judge(one, TOLERANCE) for one in decided(sides)[:2])
        found += slow.outcome in (Outcome.SLOWER, Outcome.PERHAPS_SLOWER)
        missed += slow.outcome in (Outcome.SAME, Outcome.FASTER)
        same += unchanged.outcome is Outcome.SAME
        detectable += slow.detectable or math.nan
    return found, missed, same, round(1e6 * detectable / families)


def main() -> None:
    families = trials_argument(1000)
    print("| noise | sd | files | launches | slower by | found | called SAME or FASTER |", end="")
    print(" unchanged called SAME | detectable % |")
    print("|---|---|---|---|---|---|---|---|---|")
    for noise in (noises.normal, noises.heavy_tailed, noises.skewed, noises.quantised):
        for deviation, change in ((0.01, 0.02), (0.01, 0.03), (0.003, 0.02), (0.02, 0.05)):
            for files in (1, 2):
                for launches in (12, 20, 40):
                    f, m, s, d = outcomes(noise, files, launches, change, families, deviation)
                    cells = " | ".join(rate(x, families) for x in (f, m, s))
                    print(
                        f"| {noise.__name__} | {deviation} | {files} | {launches} | {change} "
                        f"| {cells} | {d / 1e4:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
