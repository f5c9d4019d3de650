"""Coverage of percentile intervals where launches differ: how often does one contain the truth?

python experiments/percentile_coverage.py [trials]       (seed 11; nominal 95 %)

Percentiles are of all samples of all launches. The truth is that of a million launches.
"""

from collections.abc import Callable

import numpy as np
from families import rate, trials_argument

from flashbench.arrays import FloatArray
from flashbench.stats.quantile import launch_quantile

Noise = Callable[[np.random.Generator, int, int], FloatArray]  # (launches, samples)
# A percentile between two modes or ticks has no one value: any in this range of ranks is right.
_NEAR = 5e-4


def _shared(rng: np.random.Generator, launches: int, samples: int, share: float) -> FloatArray:
    between = share**0.5 * rng.standard_normal((launches, 1))
    return np.asarray(between + (1 - share) ** 0.5 * rng.standard_normal((launches, samples)))


def within(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    """Launches are alike."""
    return _shared(rng, launches, samples, 0.0)


def tenth(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    """A tenth of the variance is between launches."""
    return _shared(rng, launches, samples, 0.1)


def half(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    """Half of the variance is between launches."""
    return _shared(rng, launches, samples, 0.5)


def most(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    """Nine tenths of the variance is between launches."""
    return _shared(rng, launches, samples, 0.9)


def _slow(rng: np.random.Generator, launches: int, samples: int, share: float) -> FloatArray:
    slow = rng.random((launches, 1)) < share
    return np.asarray(10.0 * slow + rng.standard_normal((launches, samples)))


def two_modes(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    """Half of the launches are slow as a whole, by ten standard deviations."""
    return _slow(rng, launches, samples, 0.5)


def slow_tenth(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    """One in ten launches is slow."""
    return _slow(rng, launches, samples, 0.1)


def slow_few(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    """One in 25 launches is slow."""
    return _slow(rng, launches, samples, 0.04)


def heavy_tailed(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    """Student's t with 3 degrees of freedom, of launches and of samples."""
    return rng.standard_t(3, (launches, 1)) + rng.standard_t(3, (launches, samples))


def lognormal(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    return np.asarray(np.exp(half(rng, launches, samples)))


def ticks(rng: np.random.Generator, launches: int, samples: int) -> FloatArray:
    """As `half`, read off a clock with ticks of two thirds of a standard deviation."""
    return np.asarray(np.round(1.5 * half(rng, launches, samples)))


NOISES: tuple[Noise, ...] = (
    within,
    tenth,
    half,
    most,
    two_modes,
    slow_tenth,
    slow_few,
    heavy_tailed,
    lognormal,
    ticks,
)
SIZES = ((0.5, 6), (0.5, 10), (0.5, 20), (0.9, 36), (0.9, 60), (0.95, 72), (0.95, 100), (0.99, 368))


def covered(noise: Noise, q: float, launches: int, samples: int, trials: int) -> int:
    """Intervals that contain the true quantile. launches: enough for an interval."""
    rng = np.random.default_rng(11)
    least, greatest = np.quantile(noise(rng, 1_000_000, 1), (q - _NEAR, q + _NEAR))
    held = 0
    for _ in range(trials):
        found = launch_quantile(list(noise(rng, launches, samples)), q)
        assert found is not None
        assert found.bounded
        held += found.low <= greatest and found.high >= least
    return held


def main() -> None:
    trials = trials_argument(2000)
    heads = [f"p{100 * q:g}, {launches}" for q, launches in SIZES]
    print(f"| noise | {' | '.join(heads)} |\n{'|---' * (len(heads) + 1)}|")
    for noise in NOISES:
        held = [covered(noise, q, launches, 50, trials) for q, launches in SIZES]
        print(f"| {noise.__name__} | {' | '.join(rate(n, trials) for n in held)} |", flush=True)


if __name__ == "__main__":
    main()
