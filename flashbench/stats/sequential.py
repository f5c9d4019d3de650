"""Anytime-valid shift: an interval of one log-ratio a launch that may be looked at after every one.

A confidence sequence holds the true shift at all looks together with probability 1 - alpha, so that
stopping at will keeps the error rate. Each interval here is the set of shifts m
against which the evidence E(m) - a non-negative martingale of mean 1 where m is true - is below
1 / alpha: by Ville's inequality it ever gets there with probability alpha at most. p is 1 / E(0) of
this look alone; it holds at any stopping time, and the smallest of several looks does too.

t_mixture     no variance known; exact for normal log-ratios. The one that decides.
sign_mixture  exact whatever the noise is, for the median; needs twice the launches.

Sources: Howard, Ramdas, McAuliffe & Sekhon (2021), arXiv 1810.08240; Lai (1976),
Ann. Statist. 4; Wang & Ramdas (2023), arXiv 2310.03722; Johnson & Rossell (2010), JRSS B 72, for
the moment prior.
"""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flashbench.stats.shift import Shift

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# (weight, scale): the prior of shift / standard deviation is a mixture of moment priors, each
# highest at sqrt(2) of its scale and 0 at "no change". One for changes near the noise, one for
# those far above it; tuned by experiments/sequential_power.py.
_PRIOR = ((2 / 3, 0.8), (1 / 3, 2.5))
# Launches closer together than 1/12 of their distance from "no change" (standard deviation) or
# 1/15 (1.4826 median absolute deviations) may all be in one mode or on one tick of a timer. What
# they say about the spread is not believed, and the sign version has to agree.
_TIGHT_DEVIATION = 12.0
_TIGHT_MEDIAN_DEVIATION = 15.0
_SIGN_PRIOR = 0.1  # Beta(0.1, 0.1): nearly all signs alike is what the sign version is there for
_ROUNDING = 1e-28  # of the sum of squares: rounding leaves a residual where there is none


def anytime_shift(differences: FloatArray, alpha: float, correlation: float = 0.0) -> Shift:
    """The shift that the gate looks at after every launch; `value` is the mean.

    differences: (launches,), at least one, finite, in the order measured. correlation: lag-1, of
    neighbouring launches. The t-mixture's interval, unbounded below `launches_needed_anytime`;
    where launches are too tight to tell their own spread, its hull with the sign version's.
    """
    if len(differences) < launches_needed_anytime(alpha):
        return Shift(float(np.mean(differences)), -math.inf, math.inf, 1.0)
    shift = t_mixture(differences, alpha, correlation)
    if not _tight(differences[None])[0]:
        return shift
    sign = sign_mixture(differences, alpha)
    low, high = min(shift.low, sign.low), max(shift.high, sign.high)
    agree = shift.value * sign.value > 0
    return replace(shift, low=low, high=high, p=max(shift.p, sign.p) if agree else 1.0)


def excludes_no_change(rows: FloatArray, alpha: float) -> BoolArray:
    """Whether the interval of `anytime_shift` leaves 0 out, for many draws of independent launches.

    rows: (draws, launches), at least one launch, finite. Returns (draws,). For simulations: each
    row is answered as `anytime_shift` would, but no interval is worked out.
    """
    draws, n = rows.shape
    if n < launches_needed_anytime(alpha):
        return np.zeros(draws, dtype=bool)
    value = rows.sum(axis=1) / n
    residual = ((rows - value[:, None]) ** 2).sum(axis=1)
    residual[residual <= _ROUNDING * (rows * rows).sum(axis=1)] = 0.0
    excluded: BoolArray = np.abs(value) > _critical_t(n, float(n), alpha) * np.sqrt(residual / n)
    # Tight launches need the signs to agree; where they do, being tight changes nothing.
    rank = _sign_rank(n, alpha)
    side = np.sign(value)[:, None]
    alone = np.flatnonzero(excluded & (np.count_nonzero(side * rows <= 0, axis=1) >= rank))
    excluded[alone] = ~_tight(rows[alone])
    return excluded


@lru_cache(maxsize=256)
def launches_needed_anytime(alpha: float) -> int:
    """Fewest launches whose interval can be bounded.

    Where each of two equal builds is, launch by launch, in one of two modes, all n differences are
    the same distance off with probability 2 / 4^n at most: that has to be below alpha. And even
    launches without any spread have to be evidence enough.
    """
    n = max(2, math.ceil(math.log(2 / alpha) / math.log(4)))
    while _log_evidence(math.inf, n, float(n)) < -math.log(alpha):
        n += 1
    return n


@lru_cache(maxsize=256)
def launches_needed_tight(alpha: float) -> int:
    """Fewest launches that the sign version can do with: what tight launches wait for."""
    n = 1
    while _log_sign_evidence(0, n) < -math.log(alpha):
        n += 1
    return n


def expected_half_width(n: int, alpha: float, correlation: float = 0.0) -> float:
    """Half the t-mixture's interval from n launches, in standard deviations of a launch, where the
    sample's spread is the true one; infinite where n are too few."""
    total = 1 - correlation**2 + (n - 1) * (1 - correlation) ** 2
    if n < launches_needed_anytime(alpha):
        return math.inf
    innovation = 1 - correlation**2
    return _critical_t(n, total, alpha) * math.sqrt((n - 1) * innovation / total)


def t_mixture(differences: FloatArray, alpha: float, correlation: float = 0.0) -> Shift:
    """Scale-invariant t-mixture: the variance is integrated out (right Haar prior), the shift in
    standard deviations over a prior. Exact for normal launches, independent or AR(1) of known
    `correlation` (the series is whitened); conservative under heavy tails.

    differences: (launches,), at least one, finite.
    """
    n = len(differences)
    whitened = np.concatenate(
        (
            math.sqrt(1 - correlation**2) * differences[:1],
            differences[1:] - correlation * differences[:-1],
        )
    )
    weights = np.full(n, 1 - correlation)
    weights[0] = math.sqrt(1 - correlation**2)
    total = float(weights @ weights)
    value = float(weights @ whitened) / total
    residual = float(((whitened - value * weights) ** 2).sum())
    if residual <= _ROUNDING * float(whitened @ whitened):
        residual = 0.0
    distance = abs(value) * math.sqrt(total)
    t = distance / math.sqrt(residual) if residual > 0 else math.inf
    p = min(1.0, math.exp(-_log_evidence(t, n, total))) if distance > 0 else 1.0
    critical = _critical_t(n, total, alpha)
    half = critical * math.sqrt(residual / total) if math.isfinite(critical) else math.inf
    return Shift(value, value - half, value + half, p)


def sign_mixture(differences: FloatArray, alpha: float) -> Shift:
    """Median, with an interval between order statistics: a beta mixture of how often a launch is
    above. Assumes independent launches only. A launch at 0 counts against any shift.

    differences: (launches,), at least one, finite.
    """
    ordered = np.sort(differences)
    n = len(ordered)
    above = int(np.count_nonzero(ordered > 0))
    below = int(np.count_nonzero(ordered < 0))
    p = min(1.0, math.exp(-_log_sign_evidence(min(n - max(above, below), n // 2), n)))
    rank = _sign_rank(n, alpha)
    value = float(np.median(ordered))
    if rank == 0:
        return Shift(value, -math.inf, math.inf, p)
    return Shift(value, float(ordered[rank - 1]), float(ordered[n - rank]), p)


def _tight(rows: FloatArray) -> BoolArray:
    """rows: (draws, launches). Returns (draws,)."""
    deviation = np.std(rows, axis=1, ddof=1)
    middle = np.median(rows, axis=1)
    spread = 1.4826 * np.median(np.abs(rows - middle[:, None]), axis=1)
    tiny = 1e-14 * np.abs(rows).max(axis=1)  # rounding of equal launches
    tight: BoolArray = (
        (np.abs(np.mean(rows, axis=1)) >= _TIGHT_DEVIATION * deviation)
        | (deviation <= tiny)
        | (spread <= tiny)
        | (np.abs(middle) >= _TIGHT_MEDIAN_DEVIATION * spread)
    )
    return tight


def _log_evidence(t: float, n: int, total: float) -> float:
    """log E of the t-mixture against 0 after n launches. t: |mean| in units of its own standard
    error times sqrt(n - 1); total: sum of squared weights, n for independent launches.

    With a N(0, c^2) prior E is (1 + total c^2)^(-1/2) rest^(-n/2) (Lai); a moment prior, which is
    shift^2 times that, multiplies it by the posterior mean of shift^2 / c^2.
    """
    terms = []
    for weight, scale in _PRIOR:
        spread = 1 + total * scale**2
        rest = 1 / spread if math.isinf(t) else (1 + t * t / spread) / (1 + t * t)
        moment = (1 + n * (1 - rest) / rest) / spread
        terms.append(
            math.log(weight) - (math.log(spread) + n * math.log(rest)) / 2 + math.log(moment)
        )
    largest = max(terms)
    return largest + math.log(sum(math.exp(term - largest) for term in terms))


@lru_cache(maxsize=4096)
def _critical_t(n: int, total: float, alpha: float) -> float:
    """The t at which the evidence is 1 / alpha, by bisection (it grows with t); infinite where no
    t is enough."""
    target = -math.log(alpha)
    if _log_evidence(math.inf, n, total) <= target:
        return math.inf
    low, high = 0.0, 1.0
    while _log_evidence(high, n, total) < target:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if _log_evidence(middle, n, total) < target:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=4096)
def _sign_rank(n: int, alpha: float) -> int:
    """The smallest count on one side that is no evidence yet: the rank of the bound, 0 for none."""
    rank = 0
    while rank <= n // 2 and _log_sign_evidence(rank, n) >= -math.log(alpha):
        rank += 1
    return rank


def _log_sign_evidence(fewer: int, n: int) -> float:
    """log E of `fewer` signs of n on one side, k, against even odds: 2^n B(k + a, n - k + a) /
    B(a, a); no evidence at all for half of them or more."""
    if 2 * fewer >= n:
        return 0.0
    return (
        n * math.log(2)
        + _log_beta(fewer + _SIGN_PRIOR, n - fewer + _SIGN_PRIOR)
        - _log_beta(_SIGN_PRIOR, _SIGN_PRIOR)
    )


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
