"""Launch-to-launch noise of log times, for experiments and tests. Each has a standard deviation of
about 1 and contains no change, so anything that a rule flags is a false alarm."""

from collections.abc import Callable

import numpy as np

from flashbench.arrays import FloatArray

Noise = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]  # last axis: launches


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Independent launches."""
    return rng.standard_normal(shape)


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Student t with 3 degrees of freedom, scaled to standard deviation 1."""
    return rng.standard_t(3, shape) / np.sqrt(3)


def cauchy(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Without a standard deviation: now and then a launch is off by a hundred."""
    return rng.standard_cauchy(shape) * 0.3


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Exponential: mostly fast, sometimes slow, as on a shared machine."""
    return rng.standard_exponential(shape) - 1


def quantised(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Read from a clock with ticks of two standard deviations: mostly two or three values."""
    return 2 * np.round(rng.standard_normal(shape) / 2 + 0.3)


def bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Each launch in one of two equally likely modes, with little noise inside them."""
    return rng.choice([-1.0, 1.0], shape) + 0.02 * rng.standard_normal(shape)


def rarely_bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Two modes, with one launch in five in the slow one."""
    return 2.5 * (rng.uniform(size=shape) < 0.2) + 0.02 * rng.standard_normal(shape)


def autoregressive(rho: float) -> Noise:
    """AR(1) along the last axis, standard deviation 1 from the start."""

    def noise(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        steps = rng.standard_normal(shape)
        out = np.empty(shape)
        out[..., 0] = steps[..., 0]
        for i in range(1, shape[-1]):
            out[..., i] = rho * out[..., i - 1] + np.sqrt(1 - rho**2) * steps[..., i]
        return out

    noise.__name__ = f"ar_{rho}"
    return noise


def autocorrelated(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """AR(1) over launches with rho = 0.5: launches are not independent."""
    return autoregressive(0.5)(rng, shape)


def drift(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """A random walk shared by all cases, as when the machine warms up. Meant for both of a pair."""
    walk = np.cumsum(rng.standard_normal(shape[-1]))
    return np.broadcast_to(walk, shape).copy()
