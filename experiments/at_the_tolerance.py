"""How often is a table red if every case is slower by at most the tolerance?

python experiments/at_the_tolerance.py [families] [seed] [noise...]    (1 % in each build)

Two builds looked at after each of 40 launches: families of 1, 4 and 64 cases in which any is ever
SLOWER, which fails a gate; and, without a change, in which any is ever called different at all.
Families of 64 are a tenth as many.
"""

import math
import sys

import numpy as np
from anytime_false_alarms import ever_alarmed
from families import ALPHA, TOLERANCE, outcomes, rate, trials_argument
from simulated_noise import Noise, autoregressive, normal

from flashbench.arrays import FloatArray
from flashbench.outcome import Outcome
from flashbench.stats.sequential import IntervalTerms, exceeds

LOOKS = 40
EFFECTS = (0.0, 0.003, 0.005, 0.008, 0.01)
_NEAR = 4  # a look is judged in full where a case's evidence is within this factor of enough


def scaled(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Heavy tails whose scale differs from launch to launch, for all cases alike."""
    scale = rng.lognormal(-0.5, 1.0, (*shape[:-2], 1, shape[-1]))
    return scale * rng.standard_t(3, shape) / math.sqrt(3)


def rare_long_mode(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Three launches in a hundred begin a mode four deviations off, which lasts eight launches."""
    noise = rng.standard_normal(shape)
    slow = np.zeros(shape[:-1], dtype=bool)
    for launch in range(shape[-1]):
        chance = rng.random(slow.shape)
        slow = np.where(slow, chance < 1 - 1 / 8, chance < 0.03)
        noise[..., launch] += 4 * slow
    return noise


def wandering(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Correlated launches (rho = 0.3) on a machine that drifts by 1 % per launch, to which one
    build is a tenth more sensitive than the other."""
    noise = autoregressive(0.3)(rng, shape)
    drift = rng.standard_normal((*shape[1:-2], 1, shape[-1])).cumsum(axis=-1)
    noise[0] += 0.1 * drift
    return noise


NOISES: tuple[Noise, ...] = (normal, autoregressive(0.5), scaled, rare_long_mode, wandering)


def ever_slower(speedups: FloatArray) -> np.ndarray:
    """speedups: (families, cases, launches). Whether any case of a family is SLOWER at any look."""
    families, cases, launches = speedups.shape
    found = np.zeros(families, dtype=bool)
    for n in range(2, launches + 1):
        quiet = np.flatnonzero(~found)
        seen = -speedups[quiet, :, :n].reshape(-1, n)
        near = IntervalTerms(_NEAR * ALPHA / cases, cases)
        close = exceeds(seen, math.log1p(TOLERANCE), near).reshape(-1, cases)
        for family in quiet[close.any(axis=1)]:
            found[family] = Outcome.SLOWER in outcomes([speedups[family, :, :n]], anytime=True)
    return found


def main() -> None:
    most = trials_argument(1000)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print(f"{most} families, a tenth as many of 64 cases; tolerance {TOLERANCE:.0%}, seed {seed}")
    shown = " | ".join(f"SLOWER at {effect:.1%}" for effect in EFFECTS)
    print(f"| noise | cases | {shown} | different at 0.0% |\n{'|---' * (len(EFFECTS) + 3)}|")
    for noise in (one for one in NOISES if one.__name__ in (sys.argv[3:] or one.__name__)):
        for cases in (1, 4, 64):
            families = most // 10 if cases == 64 else most
            builds = 0.01 * noise(np.random.default_rng(seed), (2, families, cases, LOOKS))
            change = builds[0] - builds[1]
            counts = [ever_slower(change - math.log1p(effect)).sum() for effect in EFFECTS]
            counts.append(ever_alarmed(change).sum())
            cells = " | ".join(rate(int(count), families) for count in counts)
            print(f"| {noise.__name__} | {cases} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
