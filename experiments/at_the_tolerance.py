"""How often a table has a SLOWER or SLOWER? if every case is slower by at most the tolerance.

python experiments/at_the_tolerance.py [families] [seed]    (64 cases, 1 % noise in each build)

"fixed": one look after 20 launches; "looked at": the same, and two builds looked at after each of
40 launches.
"""

import math
import sys

import numpy as np
from families import ALPHA, TOLERANCE, judge_family, rate, trials_argument
from simulated_noise import FloatArray, Noise, heavy_tailed, normal

from flashbench.stats.sequential import anytime_shifts
from flashbench.verdict import Outcome

CASES, FIXED, LOOKS = 64, 20, 40
EFFECTS = (0.0, 0.003, 0.005, 0.008, 0.01)
SLOWER = (Outcome.SLOWER, Outcome.PERHAPS_SLOWER)


def speedups(rng: np.random.Generator, noise: Noise, effect: float, launches: int) -> FloatArray:
    """(cases, launches) of builds that are slower by `effect`, each with 1 % of noise."""
    old, new = 0.01 * noise(rng, (2, CASES, launches))
    difference: FloatArray = old - new - math.log1p(effect)
    return difference


def fixed(rng: np.random.Generator, noise: Noise, effect: float) -> set[Outcome]:
    return {v.outcome for v in judge_family([speedups(rng, noise, effect, FIXED)])}


def looked_at(rng: np.random.Generator, noise: Noise, effect: float) -> set[Outcome]:
    """At any look; families whose intervals stay far away are not judged in full."""
    launches = speedups(rng, noise, effect, LOOKS)
    found: set[Outcome] = set()
    for n in range(5, LOOKS + 1):
        rough = anytime_shifts(launches[:, :n], 4 * ALPHA / CASES)
        if any(shift.high < 0 for shift in rough):
            verdicts = judge_family([launches[:, :n]], anytime=True)
            found |= {verdict.outcome for verdict in verdicts}
    return found


def main() -> None:
    families = trials_argument(200)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print(f"{families} families of {CASES} cases, tolerance {TOLERANCE:.0%}, seed {seed}")
    print("| noise | every case slower by | rule | SLOWER in | SLOWER? in |\n|---|---|---|---|---|")
    for noise in (normal, heavy_tailed):
        for effect in EFFECTS:
            for rule in (fixed, looked_at):
                rng = np.random.default_rng(seed)
                found = [rule(rng, noise, effect) for _ in range(families)]
                shares = [rate(sum(word in one for one in found), families) for word in SLOWER]
                name = rule.__name__.replace("_", " ")
                print(f"| {noise.__name__} | {effect:.1%} | {name} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
