"""False alarms in a family of 64 unchanged cases, looked at after every launch, and what the rules
of other tools do on the same noise.

python experiments/anytime_false_alarms.py [families] [seed]
"""

import math
import sys

import numpy as np
import other_rules
import sample_noise
from families import ALPHA, alarms, judge_family, rate, trials_argument
from simulated_noise import FloatArray, autoregressive

from flashbench.stats.sequential import t_mixture

CASES = 64
LOOKS = range(2, 41)
SAMPLES = 20  # of a launch and build
# A look at which no case's evidence is within a factor of 4 of enough is not worth judging in
# full: nothing that the rule does beyond the t-mixture makes up for that.
_NEAR = 4


def ever_alarmed(speedups: FloatArray) -> bool:
    """Whether any look at (cases, launches) has a FASTER or SLOWER."""
    near = ALPHA / len(speedups) * _NEAR
    for launches in LOOKS:
        seen = speedups[:, :launches]
        if not (_rough_p(seen) <= near).any():
            continue
        if alarms(judge_family([seen], anytime=True)):
            return True
    return False


def _rough_p(seen: FloatArray) -> FloatArray:
    """The t-mixture's p where it could matter; 1 where the t statistic is nothing to look at."""
    n = seen.shape[1]
    error = seen.std(axis=1, ddof=1) / math.sqrt(n)
    p = np.ones(len(seen))
    for row in np.flatnonzero(np.abs(seen.mean(axis=1)) >= 2.5 * error):
        p[row] = t_mixture(seen[row], 0.5).p
    return p


def ours(rng: np.random.Generator, noise: sample_noise.SampleNoise, times: float) -> bool:
    """One family, both builds in every launch; the machine's drift is in both. times: how much more
    noise than the others' rules get."""
    shape = (CASES, LOOKS[-1], SAMPLES)
    shared = sample_noise.machine(rng, noise, LOOKS[-1])[None, :, None]
    old, new = (np.median(noise(rng, shape) + shared, axis=2) for _ in range(2))
    return ever_alarmed(times * (old - new))


def theirs(rng: np.random.Generator, noise: sample_noise.SampleNoise) -> list[int]:
    """Cases that each other rule flags in one family; A is measured, then B."""
    processes = other_rules.PROCESSES
    shared = sample_noise.machine(rng, noise, 2 * processes).reshape(2, 1, processes, 1)
    shape = (CASES, processes, other_rules.SAMPLES)
    a, b = (noise(rng, shape) + part for part in shared)
    return [int(np.count_nonzero(rule(a, b))) for rule in other_rules.RULES]


def count_ours(
    noise: sample_noise.SampleNoise, families: int, seed: int, times: float = 1.0
) -> int:
    """Families with a false alarm at any look."""
    rng = np.random.default_rng(seed)
    return sum(ours(rng, noise, times) for _ in range(families))


def limits(families: int, seed: int) -> None:
    """Noise of the log-ratio itself that the rule is known to be fooled by, or nearly."""
    print(f"\n| noise of the ratio, {families} families | any of 39 looks |\n|---|---|")
    for width in (0.02, 0.05, 0.1):
        rng = np.random.default_rng(seed)
        found = 0
        for _ in range(families):
            mode = rng.choice([-1.0, 1.0], (CASES, LOOKS[-1]))
            found += ever_alarmed(0.05 * (mode + width * rng.standard_normal(mode.shape)))
        print(f"| modes at ±5 %, {5 * width:g} % wide | {rate(found, families)} |", flush=True)
    rng = np.random.default_rng(seed)
    found = sum(
        ever_alarmed(0.05 * autoregressive(0.8)(rng, (CASES, LOOKS[-1]))) for _ in range(families)
    )
    print(f"| 5 %, launches with rho = 0.8 | {rate(found, families)} |", flush=True)


def main() -> None:
    families = trials_argument(500)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    names = [rule.__name__.replace("_", " ") for rule in other_rules.RULES]
    print(f"{families} families of {CASES} cases, seed {seed}; other rules: a case / a family")
    print(f"| noise | flashbench, any of 39 looks | the same, noise x 5 | {' | '.join(names)} |")
    print("|---" * (len(names) + 3) + "|")
    for noise in sample_noise.NOISES:
        found = [rate(count_ours(noise, families, seed, times), families) for times in (1, 5)]
        rng = np.random.default_rng(seed)
        others = max(1, families // 4)
        flags = np.array([theirs(rng, noise) for _ in range(others)])
        found += [
            f"{a_case:.3f} / {a_family:.2f}"
            for a_case, a_family in zip(
                flags.mean(axis=0) / CASES, (flags > 0).mean(axis=0), strict=True
            )
        ]
        print(f"| {noise.__name__} | {' | '.join(found)} |", flush=True)
    limits(max(1, families // 10), seed)


if __name__ == "__main__":
    main()
