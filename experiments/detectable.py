"""How often the detectable change that one run prints is found by another.

python experiments/detectable.py [families]

Families without a change print theirs for each of their first four cases; as many new runs, where
those cases are slower by just that, are judged. Printed is the share that is SLOWER, 80 % by the
promise, and the median detectable change. Two builds with noise of 1 % each.
"""

import sys

import numpy as np
from families import TOLERANCE, decided, rate
from simulated_noise import Noise, heavy_tailed, normal, skewed

from flashbench.arrays import FloatArray
from flashbench.outcome import Outcome
from flashbench.verdict import judge

NOISES = (normal, heavy_tailed, skewed)
# Files, launches, cases, and whether the rule is that for a look after every launch.
PLANS = (
    (1, 8, 1, True),
    (1, 12, 64, False),
    (1, 20, 4, False),
    (1, 20, 64, False),
    (1, 20, 64, True),
    (1, 40, 64, False),
    (2, 12, 64, False),
    (2, 20, 4, False),
    (2, 20, 64, False),
)
SEED = 16


def found(
    noise: Noise, plan: tuple[int, int, int, bool], families: int, rng: np.random.Generator
) -> tuple[int, list[float]]:
    """How many planted changes are SLOWER, and each change as a part of the time."""
    files, launches, cases, anytime = plan

    def sides() -> list[FloatArray]:
        both = [0.01 * noise(rng, (cases, launches)) for _ in range(2)]
        return both if files == 2 else [both[1] - both[0]]

    slower, changes = 0, []
    for _ in range(families):
        before = [judge(one, TOLERANCE) for one in decided(sides(), anytime=anytime)[:4]]
        planted, run = [one.detectable for one in before], sides()
        for case, change in enumerate(planted):
            run[-1][case] -= np.log1p(change or 0.0)
        after = [judge(one, TOLERANCE) for one in decided(run, anytime=anytime)[:4]]
        for change, verdict in zip(planted, after, strict=True):
            if change is not None:
                changes.append(change)
                slower += verdict.outcome is Outcome.SLOWER
    return slower, changes


def main(families: int) -> None:
    """Print a row for each noise and plan."""
    print(f"{families} families a row, seed {SEED}\n")
    print("| noise | files | launches | cases | looks | SLOWER | detectable % |")
    print("|---|---|---|---|---|---|---|")
    for noise in NOISES:
        for plan in PLANS:
            slower, changes = found(noise, plan, families, np.random.default_rng(SEED))
            files, launches, cases, anytime = plan
            looks = "after each launch" if anytime else "one"
            name = noise.__name__.replace("_", " ")
            print(
                f"| {name} | {files} | {launches} | {cases} | {looks} | "
                f"{rate(slower, len(changes))} | {100 * np.median(changes):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 150)
