"""How often does a history that is looked at after every commit show a change where there is none,
and how soon does one that there is count?

python experiments/history_looks.py [series] [seed] [every] [noise...]

Null series of 230 points, looked at after every commit from the 30th on, or after each `every`-th;
"ever" is at any of these looks. Points have a standard deviation of 1 %.
"""

import sys

import numpy as np
from change_points import AR_02, AR_04, CLOSE, DEVIATION, drift, outliers
from families import rate, trials_argument
from simulated_noise import Noise, autoregressive, heavy_tailed, normal, quantised, skewed

from flashbench.arrays import BoolArray, FloatArray
from flashbench.stats.segments import Segmentation, segment_all

FIRST, LAST, POINTS, MANY = 30, 230, 200, 64


def slow_tenth(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Every tenth commit is measured in a slow mode, six standard deviations off."""
    return 3 * (rng.random(shape) < 0.1) + 0.5 * rng.standard_normal(shape)


def lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    return np.asarray(rng.lognormal(0, 1, shape))


def own_scale(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Heavy tails whose scale differs from commit to commit."""
    return rng.lognormal(-0.5, 1.0, shape) * heavy_tailed(rng, shape)


def bursts(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Two commits in a hundred begin a mode four deviations off, which lasts four commits, in one
    burst of eight at least eight."""
    noise = rng.standard_normal(shape)
    slow = np.zeros(shape[:-1], dtype=bool)
    for commit in range(shape[-1]):
        chance = rng.random(slow.shape)
        slow = np.where(slow, chance < 0.75, chance < 0.02)
        noise[..., commit] += 4 * slow
    return noise


def wave(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """A wave of 60 commits, 0.7 deviations to either side."""
    phase = np.arange(shape[-1]) / 60 + rng.random((*shape[:-1], 1))
    return rng.standard_normal(shape) + 0.7 * np.sin(2 * np.pi * phase)


def arma(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Points correlated by 0.8 (0.6 of them) beneath independent noise (0.8), which hides that."""
    return 0.6 * autoregressive(0.8)(rng, shape) + 0.8 * rng.standard_normal(shape)


LIMITS: tuple[Noise, ...] = (own_scale, bursts, wave, arma)
NOISES: tuple[Noise, ...] = (
    normal,
    AR_02,
    AR_04,
    autoregressive(0.6),
    heavy_tailed,
    outliers,
    quantised,
    drift,
    skewed,
    slow_tenth,
    lognormal,
)


def ever(
    noise: Noise, series: int, among: int, seed: int, every: int = 1
) -> tuple[BoolArray, BoolArray, BoolArray]:
    """(series,) each: a change ever counted, one was ever shown, one is at the last look."""
    values = DEVIATION * noise(np.random.default_rng(seed), (series, LAST))
    counted, shown = np.zeros((2, series), dtype=bool)
    now = shown
    for points in range(FIRST, LAST + 1, every):
        found = segment_all(list(values[:, :points]), among=among)
        counted |= [any(not step.provisional for step in one.steps) for one in found]
        now = np.array([bool(one.steps) for one in found])
        shown |= now
    return counted, shown, now


def step(
    series: int,
    points: int,
    after: int,
    size: float,
    among: int,
    factor: float = 1.0,
    noise: Noise = normal,
) -> list[Segmentation]:
    """Series of which the last `after` points are `size` standard deviations slower. factor: of the
    penalty, from `calibrate`."""
    rng = np.random.default_rng(1000 * points + after)
    values = DEVIATION * noise(rng, (series, points))
    values[:, points - after :] += size * DEVIATION
    return segment_all(list(values), factor=factor, among=among)


def found(segmented: list[Segmentation], at: int, within: int = CLOSE) -> tuple[int, int]:
    """Series with a change near the true one, and with one near it that counts."""
    near = [[s for s in one.steps if abs(s.at - at) <= within] for one in segmented]
    return sum(map(bool, near)), sum(any(not s.provisional for s in steps) for steps in near)


def main() -> None:
    series = trials_argument(1280)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 21
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    print("| noise | ever counts | ever shown | shown at the last look | ", end="")
    print("of 64: a history where any ever counts | series that ever count |")
    print("|---|---|---|---|---|---|")
    asked = sys.argv[4:] or [noise.__name__ for noise in NOISES]
    for noise in (one for one in NOISES + LIMITS if one.__name__ in asked):
        cells = [rate(int(some.sum()), series) for some in ever(noise, series, 1, seed, every)]
        counted, _, _ = ever(noise, series, MANY, seed, every)
        histories = counted[: series // MANY * MANY].reshape(-1, MANY).any(axis=1)
        cells += [rate(int(histories.sum()), len(histories)), rate(int(counted.sum()), series)]
        print(f"| {noise.__name__} | {' | '.join(cells)} |", flush=True)
    print("\n| series | commits since a step of 2 % | shown | counts |\n|---|---|---|---|")
    for among in (1, MANY):
        for after in (5, 8, 10, 12, 15, 20, 30, 100):
            both = found(step(series, POINTS, after, 2, among), POINTS - after)
            print(
                f"| {among} | {after} | {' | '.join(rate(n, series) for n in both)} |", flush=True
            )
    print("\n| points | shown 8 commits after a step of 2 % | counts |\n|---|---|---|")
    for points in (24, 40, 60, 100, 150, POINTS, 400):
        both = found(step(series, points, 8, 2, 1), points - 8)
        print(f"| {points} | {' | '.join(rate(n, series) for n in both)} |", flush=True)
    print("\n| points | points after a step of 7 standard deviations | shown |\n|---|---|---|")
    for points, after in ((8, 4), (9, 4), (10, 4), (10, 5), (10, 6), (11, 4), (11, 5), (11, 6)):
        shown, _ = found(step(series, points, after, 7, 1), points - after, 1)
        print(f"| {points} | {after} | {rate(shown, series)} |", flush=True)


if __name__ == "__main__":
    main()
