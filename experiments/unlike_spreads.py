"""Two files whose spreads differ: how often is an unchanged family flagged, and what is seen?

python experiments/unlike_spreads.py [families] [limits]       (seed 13; 64 cases, nominal 5 %)

Both sides have the same centre of symmetry; B's spread is 1, 3 or 10 times A's. limits: noise of
5 % in A with light tails or two modes, for which the level is not held, by intervals and by words.
"""

import sys
from collections.abc import Callable

import numpy as np
from anytime_false_alarms import LIMITS, modes
from families import alarms, outcomes, rate, trials_argument
from simulated_noise import Noise, heavy_tailed, normal

from flashbench.arrays import FloatArray
from flashbench.stats.shift import Shift, unpaired_shift
from flashbench.stats.unlike import unlike_shift

Method = Callable[[FloatArray, FloatArray, float], Shift]
CASES = 64
LEVEL = 0.05 / CASES
SIZES = ((7, 7), (8, 8), (12, 12), (20, 20), (7, 20), (20, 7), (30, 10), (40, 8))


UNLIKE = (((12, 12), 1.6), ((40, 20), 2.0), ((60, 12), 3.0), ((40, 8), 4.0))
BEYOND: dict[str, Noise] = {
    "uniform": LIMITS["uniform"],
    "modes at ±5 %, 0.5 % wide": modes(0.1),
    "modes at ±5 %, 2 % wide": modes(0.4),
}


def spiky(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """A tenth of the launches is 10 to 30 standard deviations late."""
    late = rng.uniform(10, 30, shape)
    return np.where(rng.random(shape) < 0.1, late, rng.standard_normal(shape))


def flagged(
    noise: Noise,
    sizes: tuple[int, int],
    spread: float,
    families: int,
    method: Method = unlike_shift,
) -> int:
    """Families in which any interval excludes "no change"."""
    rng = np.random.default_rng(13)
    count = 0
    for _ in range(families):
        old, new = noise(rng, (CASES, sizes[0])), spread * noise(rng, (CASES, sizes[1]))
        count += any(seen(a, b, method) for a, b in zip(old, new, strict=True))
    return count


def called(noise: Noise, sizes: tuple[int, int], spread: float, families: int) -> int:
    """Families in which any case is called different; A's noise is 5 %."""
    rng = np.random.default_rng(13)
    count = 0
    for _ in range(families):
        sides = [
            0.05 * noise(rng, (CASES, sizes[0])),
            0.05 * spread * noise(rng, (CASES, sizes[1])),
        ]
        count += alarms(outcomes(sides)) > 0
    return count


def limits(families: int) -> None:
    print("| noise | launches of A, B | B's spread | an interval excludes 0 | called different |")
    print("|---|---|---|---|---|")
    for name, noise in BEYOND.items():
        for sizes, spread in UNLIKE:
            counts = [f(noise, sizes, spread, families) for f in (flagged, called)]
            cells = " | ".join(rate(count, families) for count in counts)
            print(f"| {name} | {sizes[0]}, {sizes[1]} | {spread:g} times | {cells} |", flush=True)


def power(noise: Noise, launches: int, change: float, deviation: float, trials: int) -> int:
    """Changes that are seen where spreads are alike; change and deviation in percent."""
    rng = np.random.default_rng(14)
    old, new = deviation * noise(rng, (2, trials, launches))
    return sum(seen(a, b + change) for a, b in zip(old, new, strict=True))


def seen(old: FloatArray, new: FloatArray, method: Method = unlike_shift) -> bool:
    shift = method(old, new, LEVEL)
    return shift.low > 0 or shift.high < 0


def main() -> None:
    families = trials_argument(400)
    if sys.argv[2:] == ["limits"]:
        limits(families)
        return
    print("| noise | launches of A, B | same spread | 3 times | 10 times | by ranks alone |")
    print("|---|---|---|---|---|---|")
    for noise in (normal, heavy_tailed, spiky):
        for sizes in SIZES:
            cells = [rate(flagged(noise, sizes, r, families), families) for r in (1, 3, 10)]
            ranks = flagged(noise, sizes, 10, families, unpaired_shift)
            cells.append(rate(ranks, families))
            print(
                f"| {noise.__name__} | {sizes[0]}, {sizes[1]} | {' | '.join(cells)} |", flush=True
            )
    trials = 5 * families
    print("\n| noise | launches | 2 % | 5 % | twice the time |\n|---|---|---|---|---|")
    for noise in (normal, spiky):
        for launches in (7, 10, 12, 20):
            sizes_seen = [power(noise, launches, c, 1.0, trials) for c in (2.0, 5.0, 69.3)]
            cells = [rate(count, trials) for count in sizes_seen]
            print(f"| {noise.__name__} | {launches} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
