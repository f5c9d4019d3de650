"""How often does the history show a false change, and how soon does it find a true one?

python experiments/change_points.py [series]       (seed 8)

Points have a standard deviation of 1 %. The machine's drift (a random walk of 2 % per commit)
affects kernel and SDPA alike and cancels in their ratio, which is what is judged.
"""

from collections import Counter

import numpy as np
from families import rate, trials_argument
from simulated_noise import Noise, autoregressive, heavy_tailed, normal, quantised

from flashbench.arrays import FloatArray
from flashbench.stats.segments import NULL_LENGTH, Segmentation, calibrate, segment_all

DEVIATION = 0.01
STEP = 0.02
CLOSE = 6  # commits


def outliers(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """2 % of the points are off by 5 to 15 standard deviations, either way."""
    size = rng.uniform(5, 15, shape) * rng.choice([-1, 1], shape)
    return np.where(rng.random(shape) < 0.02, size, rng.standard_normal(shape))


def drift(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Kernel over SDPA while a random walk moves both, by twice the noise per commit."""
    walk = np.cumsum(2 * rng.standard_normal(shape), axis=1)
    kernel = walk + rng.standard_normal(shape) / np.sqrt(2)
    sdpa = walk + rng.standard_normal(shape) / np.sqrt(2)
    return kernel - sdpa


AR_02, AR_04 = autoregressive(0.2), autoregressive(0.4)
NOISES: tuple[Noise, ...] = (normal, AR_02, AR_04, outliers, heavy_tailed, quantised, drift)


def false_changes(noise: Noise, series: int, points: int = NULL_LENGTH) -> int:
    """Number of null series with any change, each segmented alone."""
    values = DEVIATION * noise(np.random.default_rng(8), (series, points))
    return sum(bool(one.steps) for one in segment_all(list(values)))


def calibrated_false_changes(noise: Noise, series: int) -> tuple[int, float]:
    """The same for the series of one project, whose noise sets the penalty; and the factor."""
    values = DEVIATION * noise(np.random.default_rng(8), (series, NULL_LENGTH))
    factor = calibrate([one.residuals for one in segment_all(list(values[:500]))])
    return sum(bool(one.steps) for one in segment_all(list(values), factor=factor)), factor


def factors(noise: Noise, projects: int) -> Counter[float]:
    """How many projects of 500 null series have which factor."""
    found: Counter[float] = Counter()
    for seed in range(projects):
        values = DEVIATION * noise(np.random.default_rng(seed), (500, NULL_LENGTH))
        residuals = [one.residuals for one in segment_all(list(values))]
        found[round(calibrate(residuals, seed), 2)] += 1
    return found


def steps(noise: Noise, series: int, after: int, step: float = STEP) -> list[Segmentation]:
    """Series of 200 points of which the last `after` are slower."""
    values = DEVIATION * noise(np.random.default_rng(80 + after), (series, NULL_LENGTH))
    values[:, NULL_LENGTH - after :] += step
    return segment_all(list(values))


def found(segmented: list[Segmentation], after: int, within: int = CLOSE) -> int:
    """Series with a change at most `within` commits from the true one."""
    true = NULL_LENGTH - after
    return sum(any(abs(step.at - true) <= within for step in one.steps) for one in segmented)


def nearest(segmented: list[Segmentation], after: int) -> list[tuple[bool, bool, int]]:
    """For each series with a find: whether the range contains the true place, whether the interval
    contains the true size, and the length of the range in commits."""
    true = NULL_LENGTH - after
    made = []
    for one in segmented:
        near = [step for step in one.steps if abs(step.at - true) <= CLOSE]
        if near:
            step = min(near, key=lambda step: abs(step.at - true))
            place = step.first <= true <= step.last
            size = step.shift.low <= STEP <= step.shift.high
            made.append((place, size, step.last - step.first + 1))
    return made


def main() -> None:
    series = trials_argument(10000)
    print("| noise | a series alone | calibrated | factor |\n|---|---|---|---|")
    for noise in NOISES:
        together, factor = calibrated_false_changes(noise, series)
        alone = rate(false_changes(noise, series), series)
        print(
            f"| {noise.__name__} | {alone} | {rate(together, series)} | {factor:.2f} |", flush=True
        )
    print("\n| points | normal | ar_0.2 | ar_0.4 | heavy_tailed |\n|---|---|---|---|---|")
    for points in (12, 20, 30, 50, 100, NULL_LENGTH, 500):
        cells = [
            rate(false_changes(noise, series, points), series)
            for noise in (normal, AR_02, AR_04, heavy_tailed)
        ]
        print(f"| {points} | {' | '.join(cells)} |", flush=True)
    few = series // 5
    print(
        "\n| noise | commits since | within 6 | within 2 | range holds it | commits of the range | "
        "interval holds 2 % |\n|---|---|---|---|---|---|---|"
    )
    for noise in (normal, AR_02, outliers):
        for after in (100, 20, 10, 8, 7, 6, 5):
            segmented = steps(noise, few, after)
            near = nearest(segmented, after)
            cells = [
                rate(found(segmented, after), few),
                rate(found(segmented, after, 2), few),
                rate(sum(place for place, _, _ in near), len(near)),
                f"{np.median([width for _, _, width in near]):.0f}",
                rate(sum(size for _, size, _ in near), len(near)),
            ]
            print(f"| {noise.__name__} | {after} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
