"""Whether launches resemble their neighbours: then they are fewer than they look."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flashbench.stats.quantile import t_quantile
from flashbench.stats.shift import Shift

FloatArray = NDArray[np.float64]
MIN_LAUNCHES = 6
MAX_CORRELATION = 0.95
_SHUFFLES = 499
SIGNIFICANCE = 0.005  # how often independent launches are taken for correlated ones
# The same where launches are looked at as they come: a false alarm at the sixth launch is for good,
# so it takes less to suspect them.
SIGNIFICANCE_ANYTIME = 0.05


def launch_correlation(values: FloatArray, significance: float = SIGNIFICANCE) -> float:
    """Lag-1 autocorrelation of launches, common to all cases; 0 unless it is significant.

    values: (cases, launches) in the order they were measured; NaN where a case was not measured.
    Its significance is that of a permutation test that shuffles all cases alike, so cases that
    depend on each other do not make it look larger. The estimate is corrected for its bias of
    -(1 + 3 rho) / n (Kendall 1954).
    """
    present = ~np.isnan(values)
    counts = present.sum(axis=1)
    values, present = values[counts >= MIN_LAUNCHES], present[counts >= MIN_LAUNCHES]
    counts = counts[counts >= MIN_LAUNCHES]
    if not len(values):
        return 0.0
    values = np.where(present, values, 0.0)
    centred = np.where(present, values - (values.sum(axis=1) / counts)[:, None], 0.0)
    power = (centred**2).sum(axis=1)
    varies = power > 0
    if not varies.any():
        return 0.0
    centred = centred[varies] / np.sqrt(power[varies])[:, None]
    # products[i, j]: launch i times launch j, over all cases; lag 1 is beside the diagonal.
    products = centred.T @ centred / len(centred)
    observed = float(np.trace(products, offset=1))
    orders = _shuffles(values.shape[1])
    shuffled = products[orders[:, 1:], orders[:, :-1]].sum(axis=1)
    if (1 + np.count_nonzero(shuffled >= observed)) / (1 + _SHUFFLES) > significance:
        return 0.0
    bias = float(np.mean(1 / counts[varies]))
    return float(np.clip((observed + bias) / (1 - 3 * bias), 0, MAX_CORRELATION))


@lru_cache(maxsize=64)
def _shuffles(launches: int) -> NDArray[np.intp]:
    rng = np.random.default_rng(0)  # a verdict must not depend on when it is asked for
    return np.array([rng.permutation(launches) for _ in range(_SHUFFLES)])


def inflation(correlation: float) -> float:
    """How much less exactly the mean of AR(1) launches is known than that of independent ones."""
    return math.sqrt((1 + correlation) / (1 - correlation))


def stretch(correlation: float, launches: int, alpha: float) -> float:
    """How much wider the interval of confidence 1 - alpha has to be for AR(1) launches.

    Beside the mean's own inflation: launches that resemble each other show less of their spread
    (its expectation), and tell it less exactly (as fewer degrees of freedom; Bayley & Hammersley
    1946, the equivalent number for a variance). Infinite where they show next to nothing of it.
    """
    if correlation == 0:
        return 1.0
    shown = (1 - inflation(correlation) ** 2 / launches) / (1 - 1 / launches)
    if shown <= 0:
        return math.inf
    worth = launches * (1 - correlation**2) / (1 + correlation**2)
    freedom = max(1, math.floor(worth) - 1)
    fewer = t_quantile(freedom, 1 - alpha) / t_quantile(launches - 1, 1 - alpha)
    return inflation(correlation) * fewer / math.sqrt(shown)


def widened(shift: Shift, factor: float) -> Shift:
    """The shift with its interval stretched about its value; its p-value is the caller's to set."""
    if math.isinf(factor):
        return replace(shift, low=-math.inf, high=math.inf)
    return replace(
        shift,
        low=shift.value - factor * (shift.value - shift.low),
        high=shift.value + factor * (shift.high - shift.value),
    )
