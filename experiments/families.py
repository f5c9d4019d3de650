"""Families of comparisons on simulated launches, judged by the code that `compare` runs."""

import sys
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from simulated_noise import Noise, drift

from flashbench.arrays import FloatArray
from flashbench.comparison import Comparison, decide_family
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import Shape
from flashbench.outcome import Outcome
from flashbench.pairing import Pairing
from flashbench.stats.proportion import Rate
from flashbench.verdict import DIFFERENT, outcome_alone

TOLERANCE = 0.01
ALPHA = 0.05
CASE = attention_case(Shape(1, 1, 1, 1, 1, 64), "fp32", False, "cpu")


def decided(sides: Sequence[FloatArray], *, anytime: bool = False) -> list[Comparison]:
    """sides: one (cases, launches) of log speed-ups, or two (A, B)."""
    family = [
        Pairing(CASE, "ours", "sdpa", "wall", sides=tuple(side[i] for side in sides))
        for i in range(len(sides[0]))
    ]
    return decide_family(family, ALPHA, TOLERANCE, 1, anytime=anytime)


def outcomes(sides: Sequence[FloatArray], *, anytime: bool = False) -> Iterator[Outcome]:
    """The outcome of each case in turn."""
    return (outcome_alone(one, TOLERANCE) for one in decided(sides, anytime=anytime))


def no_change(
    rng: np.random.Generator, noise: Noise, deviation: float, files: int, shape: tuple[int, int]
) -> list[FloatArray]:
    """Log speed-ups without a change: candidate and SDPA equally noisy, with shared drift."""
    out = []
    for _ in range(files):
        shared = 3 * deviation * drift(rng, shape)
        ours = deviation * noise(rng, shape) + shared
        sdpa = deviation * noise(rng, shape) + shared
        out.append(sdpa - ours)
    return out


def alarms(found: Iterable[Outcome]) -> int:
    """Cases called different, even if perhaps by less than the tolerance."""
    return sum(outcome in DIFFERENT for outcome in found)


def rate(successes: int, trials: int) -> str:
    """`0.012 [0.008, 0.018]`."""
    low, high = Rate(successes, trials).interval()
    return f"{successes / trials:.3f} [{low:.3f}, {high:.3f}]"


def trials_argument(default: int) -> int:
    """The script's first argument: the number of trials."""
    return int(sys.argv[1]) if len(sys.argv) > 1 else default
