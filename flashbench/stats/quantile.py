"""Percentiles with intervals from order statistics, without assumptions about the distribution.

Samples of one launch are correlated, so the interval is that of the effective number of independent
samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from flashbench.arrays import FloatArray

_ADDED = 2  # launches on either side of a quantile, beside those measured


@dataclass(frozen=True, slots=True)
class Quantile:
    """A sample quantile and its interval, in the unit of the samples; unbounded ends if launches
    are too few."""

    value: float
    low: float
    high: float

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


def launch_quantile(
    launches: Sequence[FloatArray], q: float, confidence: float = 0.95
) -> Quantile | None:
    """Quantile `q` of all samples of all launches; None if not estimable from so few samples.

    launches: (samples,) each, not empty, in any order. The interval is unbounded below
    `samples_needed` launches: some may be slow as a whole, and samples of the others do not show
    how often. Sources: Woodruff (1952), the interval of a quantile from that of a
    proportion; Korn & Graubard (1998), the effective sample size of a proportion.
    """
    ordered = np.sort(np.concatenate(launches))
    plain = quantile(ordered, q, confidence)
    if plain is None or len(launches) < samples_needed(q, confidence):
        return None if plain is None else Quantile(plain.value, -math.inf, math.inf)
    return quantile(ordered, q, confidence, effective_size(launches, plain.value, q, confidence))


def quantile(
    ordered: FloatArray, q: float, confidence: float = 0.95, effective: int | None = None
) -> Quantile | None:
    """Sample quantile `q` with its two-sided interval; None if not estimable from so few.

    ordered: (samples,), ascending. effective: the equivalent number of independent samples
    (default: all). The bounds are order statistics: Hollander, Wolfe & Chicken section 3.6, as in
    `scipy.stats.quantile_test`.
    """
    count = len(ordered)
    if interval_ranks(count, q, confidence) is None:
        return None
    position = count * q
    upper = min(count, math.floor(position) + 1)
    lower = round(position) if math.isclose(position, round(position)) else upper
    value = float(ordered[lower - 1] + ordered[upper - 1]) / 2
    worth = count if effective is None else min(count, effective)
    ranks = interval_ranks(worth, q, confidence)
    if ranks is None:
        return Quantile(value, -math.inf, math.inf)
    # Rank r of `worth` samples represents the share (r - 1) / worth to r / worth of all samples.
    low = (ranks[0] - 1) * count // worth
    high = -(-ranks[1] * count // worth) - 1
    return Quantile(value, float(ordered[low]), float(ordered[high]))


def effective_size(
    launches: Sequence[FloatArray], value: float, q: float, confidence: float
) -> int:
    """The number of independent samples that estimate the share below `value` as precisely as these
    launches; at least as many as launches.

    launches: at least 2. From the variance of the share between launches and four more, two wholly
    below and two wholly above (as Agresti & Coull (1998) add two successes and two failures), since
    launches of another mode may not have come yet. Corrected for its estimation from few launches
    by the squared ratio of the normal to the t quantile.
    """
    sizes = np.array([len(launch) for launch in launches])
    shares = np.array([np.count_nonzero(launch <= value) for launch in launches]) / sizes
    count, total = len(launches), int(sizes.sum())
    squares = float(((sizes / total * (shares - q)) ** 2).sum())
    added = _ADDED * (q**2 + (1 - q) ** 2) / count**2
    variance = (squares + added) * count / (count - 1)
    allowance = NormalDist().inv_cdf((1 + confidence) / 2) / t_quantile(count - 1, confidence)
    return min(total, max(count, math.floor(q * (1 - q) / variance * allowance**2)))


@lru_cache(maxsize=1024)
def interval_ranks(n: int, q: float, confidence: float) -> tuple[int, int] | None:
    """1-based ranks of the narrowest bounds with at most (1-confidence)/2 beyond each.

    The number of samples below the true quantile is binomial(n, q). None if even the smallest or
    the largest sample leaves too much beyond it.
    """
    tail = (1 - confidence) / 2
    from scipy.special import bdtr  # 0.2 s

    cdf = bdtr(np.arange(n + 1), n, q)
    low = int(np.searchsorted(cdf, tail, side="right"))  # P(below <= low - 1) <= tail
    high = int(np.searchsorted(cdf, 1 - tail, side="left")) + 1  # P(below >= high) <= tail
    return (low, high) if low >= 1 and high <= n else None


def samples_needed(q: float, confidence: float = 0.95) -> int:
    """Fewest samples from which quantile `q` is estimable, from q**n and (1-q)**n at the ends."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(q, 1 - q)))


@lru_cache(maxsize=256)
def t_quantile(freedom: int, confidence: float) -> float:
    """t with P(|T| <= t) = confidence for Student's T, by bisection of the finite series for
    integer degrees of freedom (Abramowitz & Stegun 26.7.3-4), because `compare` would import
    scipy.special for it, for 0.2 s."""
    low, high = 0.0, 1e6
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if t_probability(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return high


def t_probability(t: float, freedom: int) -> float:
    """P(|T| <= t) for Student's T. t: at least 0."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0 if freedom == 1 else term
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= (k - 1) / k * square
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
