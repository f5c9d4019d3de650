"""Coverage: how often does each interval contain the true value?

python experiments/coverage.py [trials]       (seeds 3 to 8; nominal 95 %)
"""

from collections.abc import Callable

import numpy as np
import simulated_noise as noises
from asymptotic import normal_mixture
from families import rate, trials_argument

from flashbench.arrays import BoolArray, FloatArray
from flashbench.stats.bootstrap import bootstrap_median_ratio, bootstrap_quantile
from flashbench.stats.sequential import IntervalTerms, exceeds
from flashbench.stats.shift import Shift, paired_shift, unpaired_shift

FAMILY = 64


def _ours(rows: FloatArray, alpha: float) -> BoolArray:
    return exceeds(rows, 0.0, IntervalTerms(alpha)) | exceeds(-rows, 0.0, IntervalTerms(alpha))


def _mixture(rows: FloatArray, alpha: float) -> BoolArray:
    return np.array([not _holds(normal_mixture(row, alpha)) for row in rows])


# Whether the interval of each of (trials, launches), at a level, misses 0.
Misses = Callable[[FloatArray, float], BoolArray]
METHODS: dict[str, Misses] = {"anytime_shift": _ours, "normal_mixture": _mixture}


def simultaneous(noise: noises.Noise, files: int, launches: int, trials: int) -> int:
    """Families in which all 64 intervals contain the true shift 0."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(trials):
        ours, theirs = noise(rng, (FAMILY, launches)), noise(rng, (FAMILY, launches))
        held += all(
            _holds(
                paired_shift(y - x, 0.05 / FAMILY)
                if files == 1
                else unpaired_shift(x, y, 0.05 / FAMILY)
            )
            for x, y in zip(ours, theirs, strict=True)
        )
    return held


def single(noise: noises.Noise, files: int, launches: int, trials: int) -> int:
    """Lone intervals that contain 0 (the geometric mean has a lone one)."""
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(trials):
        x, y = noise(rng, (2, launches))
        held += _holds(paired_shift(y - x, 0.05) if files == 1 else unpaired_shift(x, y, 0.05))
    return held


def anytime(misses: Misses, noise: noises.Noise, trials: int, alpha: float = 0.05) -> int:
    """Trials in which the intervals after 2, 3 ... 40 launches all contain 0. Noise from one
    distribution in both builds enters the log-ratio with either sign."""
    builds = noise(np.random.default_rng(6), (trials, 2, 40))
    ratios = builds[:, 1] - builds[:, 0]
    held = np.ones(trials, dtype=bool)
    for n in range(2, 41):
        still = np.flatnonzero(held)
        held[still] = ~misses(ratios[still, :n], alpha)
    return int(held.sum())


def bootstrap(noise: noises.Noise, launches: int, trials: int) -> tuple[int, int]:
    """Bootstrap intervals that contain the true median, and the true ratio 1 of two medians, with
    5 % noise in the times."""
    rng = np.random.default_rng(7)
    truth = float(np.median(noise(np.random.default_rng(8), (1_000_001,))))
    median = ratio = 0
    for _ in range(trials):
        old, new = np.exp(0.05 * noise(rng, (2, launches)))
        found = bootstrap_quantile(old, 0.5)
        # Both ends of a tick round alike.
        median += found.low <= np.exp(0.05 * truth) * (1 + 1e-12) and found.high >= np.exp(
            0.05 * truth
        ) * (1 - 1e-12)
        found = bootstrap_median_ratio(old, new)
        ratio += found.low <= 1 + 1e-9 and found.high >= 1 - 1e-9
    return median, ratio


def _holds(shift: Shift) -> bool:
    return shift.low <= 0 <= shift.high


def main() -> None:
    trials = trials_argument(2000)
    print("| interval of the shift | noise | launches | all of 64 hold | a lone one holds |")
    print("|---|---|---|---|---|")
    for noise in (noises.normal, noises.heavy_tailed, noises.skewed, noises.quantised):
        for files in (1, 2):
            for launches in (12, 20):
                family = rate(simultaneous(noise, files, launches, trials // 4), trials // 4)
                alone = rate(single(noise, files, launches, trials), trials)
                kind = "paired" if files == 1 else "unpaired"
                print(
                    f"| {kind} | {noise.__name__} | {launches} | {family} | {alone} |", flush=True
                )
    print("\n| noise | " + " | ".join(f"`{name}`" for name in METHODS) + " |")
    print("|---" * (len(METHODS) + 1) + "|")
    for noise in (
        noises.normal,
        noises.heavy_tailed,
        noises.cauchy,
        noises.skewed,
        noises.quantised,
        noises.bimodal,
        noises.rarely_bimodal,
    ):
        cells = [rate(anytime(misses, noise, trials), trials) for misses in METHODS.values()]
        print(f"| {noise.__name__} | {' | '.join(cells)} |", flush=True)
    print("\n| noise | launches | median | ratio of two medians |\n|---|---|---|---|")
    for noise in (noises.normal, noises.heavy_tailed, noises.skewed, noises.quantised):
        for launches in (6, 10, 20, 40):
            cells = [rate(held, trials) for held in bootstrap(noise, launches, trials)]
            print(f"| {noise.__name__} | {launches} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
