"""Hodges-Lehmann shift with the exact rank interval, paired and unpaired.

Rank intervals hold their level for any noise that is symmetric (paired) or the same on both sides
(unpaired): heavy tails, ticks of a timer, two modes. A t interval does not with few launches, which
have no spread if all are in one mode. The price is a minimum number of launches, see
`launches_needed`.

scipy.stats has the tests (not the intervals) and takes 0.7 s to import, so the exact null
distributions are computed here; the tests compare them with scipy's.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from flashbench.arrays import FloatArray, IntArray
from flashbench.stats.family import require_level

# Above these sizes the normal approximation is used; in the tails it overestimates p, by 10 % at
# p = 0.001.
_EXACT_PAIRED = 128
_EXACT_UNPAIRED = 64


@dataclass(frozen=True, slots=True)
class Shift:
    """A difference of locations on a log scale, its interval and its p-value.

    low and high are infinite with too few launches for the requested confidence.
    p: two-sided, of "no difference", consistent with the interval: p <= alpha exactly when the
    interval of confidence 1 - alpha excludes 0. Ties make both conservative.
    """

    value: float
    low: float
    high: float
    p: float

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


def pseudomedian(rows: FloatArray) -> FloatArray:
    """Hodges-Lehmann: the median of all pairwise averages. rows: (..., launches), at least one."""
    first, second = _pairs(rows.shape[-1])
    middle: FloatArray = np.median((rows[..., first] + rows[..., second]) / 2, axis=-1)
    return middle


def paired_shift(differences: FloatArray, alpha: float) -> Shift:
    """Hodges-Lehmann median of one log-ratio per launch, with the signed-rank interval.

    differences: (launches,), at least one, finite. alpha: 1 - confidence of the interval. Assumes
    that a launch's difference is symmetric about its centre, as it is if both candidates have equal
    noise. Source: Hollander, Wolfe & Chicken, Nonparametric Statistical Methods (3rd ed.), sections
    3.1-3.3.
    """
    n = len(differences)
    rows, columns = _pairs(n)
    averages = np.sort((differences[rows] + differences[columns]) / 2)
    return _from_ordered(averages, _signed_rank_cdf(n), alpha)


def unpaired_shift(old: FloatArray, new: FloatArray, alpha: float) -> Shift:
    """Hodges-Lehmann shift `new - old` of independent launches, with the Mann-Whitney interval.

    old: (launches_a,), new: (launches_b,), at least one each, finite. Assumes that both sides'
    noise has one shape. Source: Hollander, Wolfe & Chicken, sections 4.1-4.3.
    """
    differences = np.sort(np.subtract.outer(new, old), axis=None)
    return _from_ordered(differences, _mann_whitney_cdf(len(old), len(new)), alpha)


def mann_whitney_p(old: FloatArray, new: FloatArray, shift: float = 0.0) -> float:
    """Two-sided p of independent `new - shift` and `old` having one distribution; as
    `unpaired_shift` has it."""
    ordered = np.sort(old)
    moved = new - shift
    above = int(np.searchsorted(ordered, moved, side="right").sum())  # ties are for "no change"
    below = len(old) * len(new) - int(np.searchsorted(ordered, moved, side="left").sum())
    if max(len(old), len(new)) > _EXACT_UNPAIRED:  # all of its distribution would be m n numbers
        return min(1.0, 2 * _normal_tail(min(above, below), len(old), len(new)))
    cdf = _mann_whitney_cdf(len(old), len(new))
    return min(1.0, 2 * float(min(cdf[above], cdf[below])))


def _normal_tail(count: int, m: int, n: int) -> float:
    """P(U <= count), by the normal approximation of `_mann_whitney_cdf`."""
    deviation = math.sqrt(m * n * (m + n + 1) / 12)
    return 0.5 * math.erfc((m * n / 2 - count - 0.5) / (deviation * math.sqrt(2)))


def smallest_p(*launches: int) -> float:
    """Smallest possible two-sided p: paired with (n,), unpaired with (n_a, n_b)."""
    if min(launches) < 1:
        return 1.0
    orderings = 2 ** launches[0] if len(launches) == 1 else math.comb(sum(launches), launches[0])
    return float(min(1.0, 2 / orderings))


@lru_cache(maxsize=256)
def launches_needed(alpha: float, *, paired: bool) -> int:
    """Fewest launches (a side) whose interval at confidence 1 - alpha is bounded. Raises ValueError
    unless alpha lies between 0 and 1."""
    require_level(alpha)
    n = 1
    while smallest_p(*((n,) if paired else (n, n))) > alpha:
        n += 1
    return n


@lru_cache(maxsize=256)
def launches_advised(alpha: float, *, paired: bool) -> int:
    """Fewest launches (a side) that see a change far above the noise at confidence 1 - alpha even
    if one launch is off in the other direction, which `launches_needed` do not."""
    n = launches_needed(alpha, paired=paired)
    while 2 * (_signed_rank_cdf(n) if paired else _mann_whitney_cdf(n, n))[n] > alpha:
        n += 1
    return n


def _from_ordered(ordered: FloatArray, cdf: FloatArray, alpha: float) -> Shift:
    """Invert a rank test: `ordered` are the averages or differences whose count below a shift is
    the test statistic, `cdf` that statistic's null distribution function at 0, 1, 2..."""
    count = len(ordered)
    # 1e-9: sums of rounded probabilities must not turn "exactly alpha" into "above alpha".
    outside = int(np.searchsorted(cdf, alpha / 2 * (1 + 1e-9), side="right"))
    value = float(ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    if outside:
        low, high = float(ordered[outside - 1]), float(ordered[count - outside])
    else:
        low, high = -math.inf, math.inf
    below = int(np.searchsorted(ordered, 0, side="right"))
    above = count - int(np.searchsorted(ordered, 0, side="left"))
    p = min(1.0, 2 * float(min(cdf[below], cdf[above])))
    return Shift(value, low, high, p)


@lru_cache(maxsize=8)
def _pairs(n: int) -> tuple[IntArray, IntArray]:
    rows, columns = np.triu_indices(n)
    return rows, columns


@lru_cache(maxsize=256)
def _signed_rank_cdf(n: int) -> FloatArray:
    """P(W+ <= w) for w = 0 .. n(n+1)/2: each rank is in the sum with probability 1/2."""
    size = n * (n + 1) // 2 + 1
    if n > _EXACT_PAIRED:
        return _normal_cdf(size, math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    probability = np.zeros(size)
    probability[0] = 1.0
    for rank in range(1, n + 1):
        probability[rank:] = (probability[rank:] + probability[:-rank]) / 2
        probability[:rank] /= 2
    return np.cumsum(probability)


@lru_cache(maxsize=4096)  # a history asks for nearly all pairs of up to 64
def _mann_whitney_cdf(m: int, n: int) -> FloatArray:
    """P(U <= u) for u = 0 .. m n, from the generating function of Mann & Whitney (1947), which is
    the Gaussian binomial: the product over i = 1..m of (1 - q^(n + i)) / (1 - q^i).

    Its coefficients are symmetric, so half of them will do.
    """
    size = m * n + 1
    if max(m, n) > _EXACT_UNPAIRED:
        return _normal_cdf(size, math.sqrt(m * n * (m + n + 1) / 12))
    half = size // 2 + 1
    count = np.zeros(half)
    count[0] = 1.0
    for i in range(1, m + 1):
        count[n + i :] = count[n + i :] - count[: -(n + i)]
        rows = -(-half // i)  # dividing by 1 - q^i sums every i-th
        padded = np.concatenate((count, np.zeros(rows * i - half)))
        count = padded.reshape(rows, i).cumsum(axis=0).ravel()[:half]
    every = np.concatenate((count, count[: size - half][::-1]))
    cdf: FloatArray = np.cumsum(every) / every.sum()
    return cdf


def _normal_cdf(size: int, deviation: float) -> FloatArray:
    """Normal approximation with continuity correction, symmetric about the middle."""
    z = (np.arange(size) + 0.5 - (size - 1) / 2) / (deviation * math.sqrt(2))
    return np.array([0.5 * math.erfc(-x) for x in z])
