"""Percentiles with intervals from order statistics: no assumption about the distribution."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quantile:
    """A sample quantile and its interval, in the unit of the samples."""

    value: float
    low: float
    high: float


def quantile(ordered: FloatArray, q: float, confidence: float = 0.95) -> Quantile | None:
    """Sample quantile `q` with its two-sided interval, or None: not estimable from so few.

    ordered: (samples,), ascending. The samples count as independent draws; the interval describes
    the pooled samples and decides nothing. The bounds are the order statistics of
    Hollander, Wolfe & Chicken section 3.6 (and of `scipy.stats.quantile_test`).
    """
    ranks = interval_ranks(len(ordered), q, confidence)
    if ranks is None:
        return None
    position = len(ordered) * q
    upper = min(len(ordered), math.floor(position) + 1)
    lower = round(position) if math.isclose(position, round(position)) else upper
    value = (ordered[lower - 1] + ordered[upper - 1]) / 2
    return Quantile(float(value), float(ordered[ranks[0] - 1]), float(ordered[ranks[1] - 1]))


@lru_cache(maxsize=1024)
def interval_ranks(n: int, q: float, confidence: float) -> tuple[int, int] | None:
    """1-based ranks of the bounds: the narrowest with at most (1-confidence)/2 beyond each.

    The number of samples below the true quantile is binomial(n, q). None where even the smallest
    or the largest sample leaves too much beyond it.
    """
    tail = (1 - confidence) / 2
    cdf = _binomial_cdf(n, q)
    low = int(np.searchsorted(cdf, tail, side="right"))  # P(below <= low - 1) <= tail
    high = int(np.searchsorted(cdf, 1 - tail, side="left")) + 1  # P(below >= high) <= tail
    return (low, high) if low >= 1 and high <= n else None


def samples_needed(q: float, confidence: float = 0.95) -> int:
    """Fewest samples from which quantile `q` is estimable, from q**n and (1-q)**n at the ends."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(q, 1 - q)))


def _binomial_cdf(n: int, q: float) -> FloatArray:
    k = np.arange(n + 1)
    log_choose = np.concatenate(([0.0], np.cumsum(np.log(np.arange(n, 0, -1) / k[1:]))))
    return np.cumsum(np.exp(log_choose + k * math.log(q) + (n - k) * math.log1p(-q)))
