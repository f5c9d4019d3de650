"""Noise models of single samples of log times by process, for rules on samples and for ours.

Each returns deviations (cases, processes, samples) of one build, independent of the build.
`machine` returns what affects both builds while they run side by side.
"""

from collections.abc import Callable

import numpy as np
from simulated_noise import autoregressive, drift

from flashbench.arrays import FloatArray

Shape = tuple[int, int, int]  # cases, processes, samples
SampleNoise = Callable[[np.random.Generator, Shape], FloatArray]
WITHIN = 0.005


def iid(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Independent samples, sd 1 %; identical processes."""
    return 0.01 * rng.standard_normal(shape)


def ar1(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """AR(1) samples, rho = 0.9, sd 1 %; identical processes."""
    return 0.01 * autoregressive(0.9)(rng, shape)


def between(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Processes differ with sd 1 %, samples in them with 0.5 %."""
    return _process(rng, 0.01 * rng.standard_normal(shape[:2]), shape)


def drifting(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """As `between`, on a machine that warms up and cools down (see `machine`)."""
    return between(rng, shape)


def heavy_tailed(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Student t with 3 degrees of freedom, between processes (sd 1 %) and in them (0.5 %)."""
    processes = 0.01 * rng.standard_t(3, shape[:2]) / np.sqrt(3)
    return processes[..., None] + WITHIN * rng.standard_t(3, shape) / np.sqrt(3)


def quantised(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """As `between`, read off a clock with ticks of 1 %."""
    return 0.01 * np.round(between(rng, shape) / 0.01 + 0.3)


def bimodal(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Each process in one of two equally likely modes 10 % apart, samples in them with 0.5 %."""
    return _process(rng, rng.choice([-0.05, 0.05], shape[:2]), shape)


def ar1_processes(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """As `between`, but each process resembles the one before: AR(1), rho = 0.5, in each build for
    itself."""
    return _process(rng, 0.01 * autoregressive(0.5)(rng, shape[:2]), shape)


def interrupted(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """As `between`, and something else ran during one sample in five, for 30 % of it on average."""
    return between(rng, shape) + rng.exponential(0.3, shape) * (rng.random(shape) < 0.2)


NOISES = (iid, ar1, between, drifting, heavy_tailed, quantised, bimodal, ar1_processes)


def _process(rng: np.random.Generator, processes: FloatArray, shape: Shape) -> FloatArray:
    return processes[..., None] + WITHIN * rng.standard_normal(shape)


def machine(rng: np.random.Generator, noise: SampleNoise, processes: int) -> FloatArray:
    """(processes,): the machine's effect on everything that runs during one process: a random walk
    with steps of 1 % under `drifting`, otherwise 0."""
    return 0.01 * drift(rng, (processes,)) if noise is drifting else np.zeros(processes)
