"""Symmetric noise that the rule for looking after every launch does not hold its level under: one
build has two modes from launch to launch, the other none, or the ratio has light tails.

python experiments/modes_of_one_build.py [families] [seed]

Families of 1 case; of 4 and 8 a half, of 18 a quarter and of 64 a tenth as many. "any alarm": any
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

AT_ONCE = 20
# Share of the families, by cases.
_SHARES = {1: 1, 4: 2, 8: 2, 18: 4, 64: 10}
WIDTH = 0.2  # of a mode, in distances of the modes from their middle


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
        for name in ("uniform", "sine of a random angle"):
            print(row(name, LIMITS[name], 0.05, cases, most // share, seed), flush=True)


if __name__ == "__main__":
    main()
