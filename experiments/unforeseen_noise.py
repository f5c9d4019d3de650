"""Noises that no rule was chosen on: how often is a gate red, and a change found?

python experiments/unforeseen_noise.py [families] [seed] [noise...]

Families of 4 and (a tenth as many) 64 cases at 1 % noise in each build, and three ways to judge
them: looked at after each of 40 launches, and one file or two files of 20 launches. "red": any case
is SLOWER although all are slower by at most the tolerance, at the worst of five such effects.
"found": one case that is 2 or 3 % slower, alone in its family, is SLOWER or SLOWER?.
"""

import math
import sys
from collections.abc import Callable

import numpy as np
from anytime_false_alarms import ever_alarmed
from at_the_tolerance import EFFECTS, LOOKS, ever_slower
from families import outcomes, rate, trials_argument
from simulated_noise import Noise, autoregressive

from flashbench.arrays import FloatArray
from flashbench.outcome import Outcome
from flashbench.verdict import DIFFERENT

CHANGES = (0.02, 0.03)
LAUNCHES = 20
_SAMPLES = 20


def correlated_samples(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Medians of samples whose neighbours are alike (rho = 0.8) and have heavy tails."""
    samples = autoregressive(0.8)(rng, (*shape, _SAMPLES)) * rng.chisquare(3, (*shape, 1)) ** -0.5
    median: FloatArray = np.median(samples, axis=-1)
    return 0.5 * rng.standard_normal(shape) + median


def warm_and_cool(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """A slow wave of 3 % that begins anywhere and takes 15 to 60 launches, the same for both builds
    but for a twentieth, and more in some cases than in others."""
    builds, families, cases, launches = shape
    period = rng.uniform(15, 60, (families, 1, 1))
    wave = np.sin(2 * np.pi * (np.arange(launches) / period + rng.random((families, 1, 1))))
    felt = 3 * rng.uniform(0.5, 1.5, (families, cases, 1)) * wave
    share = np.array([1.0, 1.05]).reshape(builds, 1, 1, 1)
    return rng.standard_normal(shape) + share * felt


def rare_spikes(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Three launches in a hundred are 30 % late."""
    return rng.standard_normal(shape) + 30 * (rng.random(shape) < 0.03)


def unequal_modes(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """One launch in seven is 4 % late, and one in seven 6 %."""
    return 0.5 * rng.standard_normal(shape) + rng.choice([0, 0, 0, 0, 0, 4, 6], shape)


def coarse_clock(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Ticks of 1 %, of a clock that is read from the same phase in all launches of a case."""
    phase = rng.random((1, *shape[1:-1], 1))
    return np.floor(rng.standard_normal(shape) + phase)


def neighbour(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Another process comes and goes: for five launches on average all cases are 10 % late and
    three times as noisy."""
    there = np.zeros((1, *shape[1:-2], 1, shape[-1]))
    for launch in range(1, shape[-1]):
        stays = rng.random(there.shape[:-1]) < 0.8
        there[..., launch] = np.where(stays, there[..., launch - 1], 1 - there[..., launch - 1])
    return (1 + 2 * there) * rng.standard_normal(shape) + 10 * there


def about_its_pseudomedian(
    draw: Callable[[np.random.Generator, tuple[int, ...]], FloatArray],
    rng: np.random.Generator,
    shape: tuple[int, ...],
) -> FloatArray:
    """Noise of the first build alone, whose pseudomedian is 0: skewed noise that both builds had
    would cancel to a symmetric ratio."""
    first, second = np.random.default_rng(1), np.random.default_rng(2)
    centre = np.median((draw(first, (2_000_000,)) + draw(second, (2_000_000,))) / 2)
    out = np.zeros(shape)
    out[0] = draw(rng, shape[1:]) - centre
    return out


def one_exponential(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """The ratio has an exponential tail to one side."""
    return about_its_pseudomedian(
        lambda r, s: r.exponential(1, s) + 0.3 * r.standard_normal(s), rng, shape
    )


def one_lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """The ratio has a lognormal tail (0.75) to one side."""
    return about_its_pseudomedian(lambda r, s: r.lognormal(0, 0.75, s), rng, shape)


def one_spiky(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Fifteen ratios in a hundred are 3 to 15 % off to one side."""
    return about_its_pseudomedian(
        lambda r, s: 0.5 * r.standard_normal(s) + (r.random(s) < 0.15) * r.uniform(3, 15, s),
        rng,
        shape,
    )


def unlike_cases(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Lognormal noise, of some cases a tenth and of others three times the others' deviation."""
    scale = rng.choice([0.1, 1, 3], (1, *shape[1:-1], 1))
    return scale * (rng.lognormal(0, 0.5, shape) - 1.13) / 0.6


NOISES: tuple[Noise, ...] = (
    correlated_samples, warm_and_cool, rare_spikes, unequal_modes, coarse_clock, neighbour,
    unlike_cases,
)  # fmt: skip
# Their ratios are not symmetric, which the rule assumes.
LIMITS: tuple[Noise, ...] = (one_exponential, one_lognormal, one_spiky)


def red(files: list[FloatArray]) -> int:
    """files: of one or two (families, cases, launches). Families with a SLOWER, judged once."""
    return sum(Outcome.SLOWER in outcomes(sides) for sides in zip(*files, strict=True))


def found(files: list[FloatArray], slower: float) -> int:
    """Families in which a first case that is slower by so much is found, judged once."""
    files = [*files[:-1], slowed(files[-1], slower)]
    return sum(next(outcomes(sides)) in DIFFERENT for sides in zip(*files, strict=True))


def slowed(speedups: FloatArray, slower: float) -> FloatArray:
    """The first case of every family is slower by so much."""
    changed = speedups.copy()
    changed[:, 0] -= math.log1p(slower)
    return changed


def main() -> None:
    most = trials_argument(300)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    ways = f"each of {LOOKS}", f"one file of {LAUNCHES}", f"two files of {LAUNCHES}"
    columns = " | ".join(f"{way}: red | 2 % found | 3 %" for way in ways)
    print(f"{most} families, a tenth as many of 64 cases; seed {seed}")
    print(f"| noise | cases | {columns} |\n{'|---' * (3 * len(ways) + 2)}|")
    asked = sys.argv[3:] or [noise.__name__ for noise in NOISES]
    for noise in (one for one in NOISES + LIMITS if one.__name__ in asked):
        for cases in (4, 64):
            families = most // 10 if cases == 64 else most
            rng = np.random.default_rng(seed)
            drawn = [0.01 * noise(rng, (2, families, cases, LOOKS)) for _ in range(2)]
            each, other = (ours - theirs for ours, theirs in drawn)
            a, b = each[..., :LAUNCHES], other[..., :LAUNCHES]
            all_slower = [math.log1p(effect) for effect in EFFECTS]
            cells = []
            for reds, founds in (
                (
                    [int(ever_slower(each - by).sum()) for by in all_slower],
                    [int(ever_alarmed(slowed(each, by)).sum()) for by in CHANGES],
                ),
                ([red([a - by]) for by in all_slower], [found([a], by) for by in CHANGES]),
                ([red([a, b - by]) for by in all_slower], [found([a, b], by) for by in CHANGES]),
            ):
                cells += [rate(max(reds), families), *(f"{n / families:.2f}" for n in founds)]
            print(f"| {noise.__name__} | {cases} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
