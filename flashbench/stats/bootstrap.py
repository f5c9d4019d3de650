"""Percentile bootstrap on ranks: the limit of resampling, computed exactly.

A resample's quantile is one of the original values (or the mean of two), and its distribution over
their ranks is binomial, whatever the values. So the weights of the ranks are computed once per
number of values. Sources: Efron (1979) section 3; Maritz & Jarrett (1978). Not BCa, which is
undefined or wrong on the ticks of a timer.
"""

import math
from functools import lru_cache

import numpy as np

from flashbench.arrays import FloatArray, IntArray
from flashbench.stats.quantile import Quantile

_NEGLIGIBLE = 1e-16  # a pair of ranks with less weight changes no interval


def bootstrap_quantile(values: FloatArray, q: float, confidence: float = 0.95) -> Quantile:
    """Sample quantile `q` and its percentile-bootstrap interval, in the unit of the values.

    values: (n,), at least one, mutually independent (launches, not samples of one launch); n at
    most a few thousand, because memory grows with n^2. The mean of two values if n q is an integer.
    """
    support, weights, value = _distribution(values, q)
    tail = (1 - confidence) / 2
    cumulated = np.cumsum(weights)
    ends = np.searchsorted(cumulated, (tail, 1 - tail)).clip(max=len(support) - 1)
    low, high = support[ends]
    return Quantile(value, float(low), float(high))


def bootstrap_median_ratio(old: FloatArray, new: FloatArray, confidence: float = 0.95) -> Quantile:
    """median(new) / median(old) and its percentile-bootstrap interval, resampling each side.

    old: (n_a,), new: (n_b,), at least one each, above 0.
    """
    olds, old_weights, old_value = _distribution(old, 0.5)
    news, new_weights, new_value = _distribution(new, 0.5)
    cumulated = np.concatenate(([0.0], np.cumsum(new_weights)))

    def share_below(ratio: float) -> float:
        # 1e-12: the ratio of two values times the smaller one must reach the larger one.
        below = np.searchsorted(news, ratio * (1 + 1e-12) * olds, side="right")
        return float(old_weights @ cumulated[below])

    least, most = math.log(news[0] / olds[-1]), math.log(news[-1] / olds[0])
    tail = (1 - confidence) / 2
    ends = []
    for share in (tail, 1 - tail):
        low, high = least, most
        for _ in range(50):
            middle = (low + high) / 2
            if share_below(math.exp(middle)) < share:
                low = middle
            else:
                high = middle
        ends.append(math.exp(high))
    return Quantile(new_value / old_value, ends[0], ends[1])


def _distribution(values: FloatArray, q: float) -> tuple[FloatArray, FloatArray, float]:
    """The possible values of a resample's quantile, ascending; their probabilities; the
    sample's."""
    ordered = np.sort(values)
    lower, upper = _ranks(len(ordered), q)
    rows, columns, weights = _rank_weights(len(ordered), lower, upper)
    support = (ordered[rows] + ordered[columns]) / 2
    order = np.argsort(support, kind="stable")
    value = float(ordered[lower - 1] + ordered[upper - 1]) / 2
    return support[order], weights[order], value


def _ranks(n: int, q: float) -> tuple[int, int]:
    """1-based ranks of the sample quantile: two if n q is an integer, as in stats/quantile.py."""
    position = n * q
    upper = min(n, math.floor(position) + 1)
    return (round(position) if math.isclose(position, round(position)) else upper), upper


@lru_cache(maxsize=64)
def _rank_weights(n: int, lower: int, upper: int) -> tuple[IntArray, IntArray, FloatArray]:
    """The joint distribution of the ranks (0-based) of a resample's order statistics `lower` and
    `upper`.

    At least `lower` of n drawn ranks are at most i with probability P(binomial(n, i / n) >= lower).
    """
    from scipy.special import bdtrc, gammaln  # 0.2 s

    rank = np.arange(1, n + 1)
    at_most = bdtrc(lower - 1, n, rank / n)
    marginal = np.diff(at_most, prepend=0.0)
    joint = np.diag(marginal)
    if upper > lower:
        # `lower` draws are at most i, one of them i; the others at least j > i, one of them j.
        with np.errstate(divide="ignore"):
            below = lower * np.log(rank / n) + np.log1p(-(((rank - 1) / rank) ** lower))
            left = n - rank + 1
            above = (n - lower) * np.log(left / n) + np.log1p(-(((left - 1) / left) ** (n - lower)))
        choose = gammaln(n + 1) - gammaln(lower + 1) - gammaln(n - lower + 1)
        log_joint = choose + below[:, None] + above[None, :]
        apart = np.triu(np.exp(np.minimum(log_joint, 0.0)), k=1)
        joint = np.diag(np.maximum(marginal - apart.sum(axis=1), 0.0)) + apart
    rows, columns = np.nonzero(joint > _NEGLIGIBLE)
    weights = joint[rows, columns]
    return rows, columns, weights / weights.sum()
