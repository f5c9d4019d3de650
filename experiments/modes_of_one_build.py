"""Symmetric noise with light tails, on which the t-mixture alone does not hold its level: one
build has two modes from launch to launch, the other none, or the ratio is uniform or a sine.

python experiments/modes_of_one_build.py [families] [seed]

Families of 1 case; of 4 and 8 a half, of 18 and 64 a quarter as many. In some of 64 cases only the
first few have modes, and the others normal noise as wide as one mode. "any alarm": any
case is called different at any of 39 looks. "red": any is SLOWER at any, although every case is
slower by exactly the tolerance. "20 at once": any is called different by one look at 20 launches.
"two files of 20": the same against a file whose noise is normal and as wide as one mode.
"""

import math
import sys

import numpy as np
from anytime_false_alarms import LIMITS, LOOKS, ever_alarmed, modes
from at_the_tolerance import ever_slower
from families import TOLERANCE, alarms, outcomes, rate, trials_argument
from simulated_noise import Noise

from flashbench.arrays import FloatArray

AT_ONCE = 20
# Share of the families, by cases.
_SHARES = {1: 1, 4: 2, 8: 2, 18: 4, 64: 4}
FEW = (1, 2, 4, 8)  # cases with modes, of 64
WIDTH = 0.2  # of a mode, in distances of the modes from their middle


def in_some(count: int) -> Noise:
    """Modes in so many cases of a family."""

    def noise(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        drawn = WIDTH * rng.standard_normal(shape)
        drawn[:, :count] += rng.choice([-1.0, 1.0], (shape[0], count, shape[-1]))
        return drawn

    return noise


def counts(noise: Noise, scale: float, cases: int, families: int, seed: int) -> tuple[int, ...]:
    """Families of each column. scale: of the noise, in log ratios."""
    rng = np.random.default_rng(seed)
    ratios = scale * noise(rng, (families, cases, LOOKS[-1]))
    quiet = scale * WIDTH * rng.standard_normal((families, cases, AT_ONCE))
    files = ratios[..., :AT_ONCE]
    return (
        int(ever_alarmed(ratios).sum()),
        int(ever_slower(ratios - math.log1p(TOLERANCE)).sum()),
        sum(alarms(outcomes([one])) > 0 for one in files),
        sum(alarms(outcomes([a, b])) > 0 for a, b in zip(quiet, files, strict=True)),
    )


def row(name: str, noise: Noise, scale: float, cases: int, families: int, seed: int) -> str:
    cells = (rate(n, families) for n in counts(noise, scale, cases, families, seed))
    return f"| {name} | {cases} | {families} | {' | '.join(cells)} |"


def main() -> None:
    most = trials_argument(1500)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 18
    ways = "any alarm | red | 20 at once | two files of 20"
    print(f"| noise of the ratio | cases | families | {ways} |")
    print("|---|---|---|---|---|---|---|")
    for cases, share in _SHARES.items():
        for distance in (0.01, 0.03, 0.05):
            name = f"modes at ±{distance:.0%}, {WIDTH * distance:.1%} wide"
            print(row(name, modes(WIDTH), distance, cases, most // share, seed), flush=True)
        for width in (0.12, 0.3):
            name = f"modes at ±3%, {width * 0.03:.2%} wide"
            print(row(name, modes(width), 0.03, cases, most // share, seed), flush=True)
        for count in FEW if cases == max(_SHARES) else ():
            name = f"modes at ±3%, {WIDTH * 0.03:.1%} wide, in {count} of the cases"
            print(row(name, in_some(count), 0.03, cases, most // share, seed), flush=True)
        for name in ("uniform", "sine of a random angle"):
            print(row(name, LIMITS[name], 0.05, cases, most // share, seed), flush=True)


if __name__ == "__main__":
    main()
