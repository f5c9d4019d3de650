"""How often has a family of unchanged cases of two files a false alarm where B's noise is larger?

python experiments/unlike_spreads.py [families] [seed]

64 cases; B's spread is 1, 3 or 10 times A's, with the same centre. "power": families whose first
case, off by two standard deviations with equal spreads, is seen.
"""

import sys
from math import isfinite

import numpy as np
from families import ALPHA, rate, trials_argument
from simulated_noise import FloatArray, Noise, heavy_tailed, normal

from flashbench.case import Case, Shape
from flashbench.comparison import decide_family
from flashbench.pairing import Pairing

CASES = 64
CASE = Case(Shape(1, 1, 1, 1, 1, 64), "fp32", False, "cpu")


def spiky(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """A tenth of launches is 10 to 30 standard deviations off, either way."""
    size = rng.uniform(10, 30, shape) * rng.choice([-1, 1], shape)
    return rng.standard_normal(shape) + np.where(rng.random(shape) < 0.1, size, 0)


def seen(old: FloatArray, new: FloatArray) -> list[bool]:
    """Of each case, whether its interval excludes no change. old, new: (cases, launches)."""
    family = [
        Pairing(CASE, "ours", "sdpa", "wall", sides=sides) for sides in zip(old, new, strict=True)
    ]
    shifts = [one.shift for one in decide_family(family, ALPHA, 0.01, 1)]
    return [
        s is not None and isfinite(s.low) and isfinite(s.high) and (s.low > 0 or s.high < 0)
        for s in shifts
    ]


def families(
    noise: Noise, launches: int, ratio: float, change: float, count: int, seed: int
) -> int:
    """Families where any case is seen; with a change, where the first one is."""
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(count):
        old = 0.01 * noise(rng, (CASES, launches))
        new = 0.01 * ratio * noise(rng, (CASES, launches))
        new[0] += 0.01 * change
        cases = seen(old, new)
        found += cases[0] if change else any(cases)
    return found


def main() -> None:
    count = trials_argument(400)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print(
        "| noise | launches | same spread | 3 times | 10 times | power |\n|---|---|---|---|---|---|"
    )
    for noise in (normal, heavy_tailed, spiky):
        for launches in (8, 12, 20):
            made = [families(noise, launches, ratio, 0, count, seed) for ratio in (1, 3, 10)]
            made.append(families(noise, launches, 1, 2, count, seed))
            cells = " | ".join(rate(one, count) for one in made)
            print(f"| {noise.__name__} | {launches} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
