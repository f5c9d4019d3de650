"""False alarms in a family of unchanged cases with a look after every launch, beside those of other
tools' rules on the same noise.

python experiments/anytime_false_alarms.py [families] [seed] [--cases N] [--noise NAME]
    [--ours | --pairs | --limits]

--ours skips the other rules and the noise of the ratio, --pairs too: there a launch has eight
blocks of five samples, and its number is made of all pairs of a block, as in
`launches.speedups`; --noise runs one kind of noise; --limits runs only the noise of the ratio.
"""

import argparse
import math
from collections.abc import Sequence

import numpy as np
import other_rules
import sample_noise
from families import ALPHA, alarms, outcomes, rate
from simulated_noise import Noise, autoregressive

from flashbench.arrays import BoolArray, FloatArray
from flashbench.stats.sequential import IntervalTerms, exceeds

CASES = 64
LOOKS = range(2, 41)
SAMPLES = 20  # per launch and build
BLOCKS = (8, 5)  # of samples, with --pairs
# A look is judged in full only if some case's evidence is within a factor of 4 of enough: the rest
# of the rule never makes up for that.
_NEAR = 4


def ever_alarmed(speedups: FloatArray) -> BoolArray:
    """speedups: (families, cases, launches). Returns (families,): whether any look, from the second
    launch on, has a FASTER or SLOWER."""
    families, cases, launches = speedups.shape
    near = IntervalTerms(ALPHA / cases * _NEAR, cases)
    found = np.zeros(families, dtype=bool)
    for n in range(LOOKS[0], launches + 1):
        quiet = np.flatnonzero(~found)
        seen = speedups[quiet, :, :n].reshape(-1, n)
        close = exceeds(seen, 0.0, near) | exceeds(-seen, 0.0, near)
        for family in quiet[close.reshape(-1, cases).any(axis=1)]:
            found[family] = alarms(outcomes([speedups[family, :, :n]], anytime=True)) > 0
    return found


def ours(
    rng: np.random.Generator,
    noise: sample_noise.SampleNoise,
    cases: int,
    launches: int,
    pairs: bool = False,
) -> FloatArray:
    """Log speed-ups of one family, (cases, launches): every launch has both builds, and the
    machine's drift affects both. pairs: of samples of a block, else of medians."""
    shape = (cases, launches, math.prod(BLOCKS) if pairs else SAMPLES)
    shared = sample_noise.machine(rng, noise, launches)[None, :, None]
    if pairs:
        a, b = ((noise(rng, shape) + shared).reshape(*shape[:2], *BLOCKS) for _ in range(2))
        differences: FloatArray = a[..., :, None] - b[..., None, :]
        return np.median(differences.reshape(*shape[:2], -1), axis=2)
    old, new = (np.median(noise(rng, shape) + shared, axis=2) for _ in range(2))
    return old - new


def theirs(
    rng: np.random.Generator, noise: sample_noise.SampleNoise, cases: int = CASES
) -> list[int]:
    """The cases that each of the other rules flags in one family; A is measured, then B."""
    processes = other_rules.PROCESSES
    shared = sample_noise.machine(rng, noise, 2 * processes).reshape(2, 1, processes, 1)
    shape = (cases, processes, other_rules.SAMPLES)
    a, b = (noise(rng, shape) + part for part in shared)
    return [int(np.count_nonzero(rule(a, b))) for rule in other_rules.RULES]


def count_ours(
    noise: sample_noise.SampleNoise,
    families: int,
    seed: int,
    times: float = 1.0,
    cases: int = CASES,
    launches: int = LOOKS[-1],
    pairs: bool = False,
) -> int:
    """Families with a false alarm at any look. times: factor on the noise of the other rules."""
    rng = np.random.default_rng(seed)
    speedups = [ours(rng, noise, cases, launches, pairs) for _ in range(families)]
    return int(ever_alarmed(times * np.stack(speedups)).sum())


def modes(width: float) -> Noise:
    """Two equally likely modes at distance 2, each `width` wide."""
    return lambda rng, shape: rng.choice([-1.0, 1.0], shape) + width * rng.standard_normal(shape)


def some_correlated(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """The first eight cases AR(1) with rho = 0.5, the others independent."""
    noise = rng.standard_normal(shape)
    noise[:8] = autoregressive(0.5)(rng, (8, shape[1]))
    return noise


LIMITS: dict[str, Noise] = {
    "modes at ±5 %, 0.1 % wide": modes(0.02),
    "modes at ±5 %, 0.25 % wide": modes(0.05),
    "modes at ±5 %, 0.5 % wide": modes(0.1),
    "modes at ±5 %, 1 % wide": modes(0.2),
    "launches with rho = 0.8": autoregressive(0.8),
    "launches with rho = 0.5 in 8 of the 64 cases": some_correlated,
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "sine of a random angle": lambda rng, shape: np.sin(2 * math.pi * rng.uniform(size=shape)),
    "Laplace": lambda rng, shape: rng.laplace(size=shape) / math.sqrt(2),
}


def limits(families: int, seed: int) -> None:
    """Noise of 5 % in the log-ratio itself that fools the rule, or nearly."""
    print(f"\n| noise of the ratio, {families} families | any of {len(LOOKS)} looks |\n|---|---|")
    for name, noise in LIMITS.items():
        rng = np.random.default_rng(seed)
        shape = (CASES, LOOKS[-1])
        ratios = np.stack([noise(rng, shape) for _ in range(families)])
        found = int(ever_alarmed(0.05 * ratios).sum())
        print(f"| {name} | {rate(found, families)} |", flush=True)


def table(
    noises: Sequence[sample_noise.SampleNoise],
    families: int,
    seed: int,
    cases: int,
    others: int,
    pairs: bool,
) -> None:
    """One row per noise. others: families that the other rules judge, 0 for none."""
    rules = [rule.__name__.replace("_", " ") for rule in other_rules.RULES] if others else []
    looks = f"flashbench, any of {len(LOOKS)} looks"
    print(f"| {' | '.join(['noise', looks, 'the same, noise x 5', *rules])} |")
    print("|---" * (len(rules) + 3) + "|")
    for noise in noises:
        found = [
            rate(count_ours(noise, families, seed, times, cases, pairs=pairs), families)
            for times in (1, 5)
        ]
        if others:
            rng = np.random.default_rng(seed)
            flags = np.array([theirs(rng, noise, cases) for _ in range(others)])
            found += [
                f"{a_case:.3f} / {a_family:.2f}"
                for a_case, a_family in zip(
                    flags.mean(axis=0) / cases, (flags > 0).mean(axis=0), strict=True
                )
            ]
        print(f"| {noise.__name__} | {' | '.join(found)} |", flush=True)


def main() -> None:
    by_name = {one.__name__: one for one in (*sample_noise.NOISES, sample_noise.interrupted)}
    parser = argparse.ArgumentParser()
    parser.add_argument("families", type=int, nargs="?", default=500)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--noise", choices=by_name)
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--limits", action="store_true")
    asked = parser.parse_args()
    families, seed = asked.families, asked.seed
    if asked.limits:
        limits(families, seed)
        return
    noises = [by_name[asked.noise]] if asked.noise else sample_noise.NOISES
    asked.ours |= asked.pairs
    rules = "" if asked.ours else "; other rules: a case / a family"
    print(f"{families} families of {asked.cases} cases, seed {seed}{rules}")
    others = 0 if asked.ours else max(1, families // 4)
    table(noises, families, seed, asked.cases, others, asked.pairs)
    if not asked.ours and not asked.noise:
        limits(max(1, families // 10), seed)


if __name__ == "__main__":
    main()
