"""Serial correlation of launches: correlated launches carry less information than independent
ones."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from flashbench.arrays import FloatArray, IntArray
from flashbench.stats.quantile import t_quantile
from flashbench.stats.shift import Shift

MIN_LAUNCHES = 6
MAX_CORRELATION = 0.95
_SHUFFLES = 499
SIGNIFICANCE = 0.005  # probability of calling independent launches correlated
# The same with a look after each launch: a false alarm at the sixth launch is final, so correlation
# is suspected sooner.
SIGNIFICANCE_ANYTIME = 0.05


def launch_correlation(values: FloatArray, significance: float = SIGNIFICANCE) -> float:
    """Lag-1 autocorrelation of launches, common to all cases; 0 unless significant.

    values: (cases, launches) in the order measured; NaN where a case was not measured. Significance
    is by a permutation test that shuffles all cases alike, so dependence between cases does not
    inflate it. The estimate is corrected for its bias of -(1 + 3 rho) / n (Kendall 1954).

    If what all cases have in common is more correlated than the rest (a clock that stays for some
    launches), a mean is less precise than the average autocorrelation tells: then it is the AR(1)
    correlation whose mean is as imprecise, if that is larger.
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
    # products[i, j]: launch i times launch j, over all cases; lag 1 is next to the diagonal.
    products = centred.T @ centred / len(centred)
    observed = float(np.trace(products, offset=1))
    orders = _shuffles(values.shape[1])
    shuffled = products[orders[:, 1:], orders[:, :-1]].sum(axis=1)
    if (1 + np.count_nonzero(shuffled >= observed)) / (1 + _SHUFFLES) > significance:
        return 0.0
    bias = float(np.mean(1 / counts[varies]))

    def corrected(lag: float) -> float:
        return float(np.clip((lag + bias) / (1 - 3 * bias), 0, MAX_CORRELATION))

    alone = corrected(observed)
    cases = len(centred)
    if cases == 1:
        return alone
    # The same products of two different cases, on average: what they have in common.
    total = centred.sum(axis=0)
    common = (np.outer(total, total) - cases * products) / (cases * (cases - 1))
    share = float(np.trace(common))  # of the variance
    if share <= 0:
        return alone
    lasting = inflation(corrected(float(np.trace(common, offset=1)) / share)) ** 2
    variance = 1 + min(share, 1.0) * (lasting - 1)  # of a mean, over that of independent launches
    return max(alone, (variance - 1) / (variance + 1))


@lru_cache(maxsize=64)
def _shuffles(launches: int) -> IntArray:
    rng = np.random.default_rng(0)  # seeded, so that a verdict is reproducible
    return np.array([rng.permutation(launches) for _ in range(_SHUFFLES)])


def inflation(correlation: float) -> float:
    """Factor on the standard error of the mean if launches are AR(1) instead of independent."""
    return math.sqrt((1 + correlation) / (1 - correlation))


def stretch(correlation: float, launches: int, alpha: float) -> float:
    """Factor on the interval of confidence 1 - alpha for AR(1) launches.

    Beyond the mean's inflation, correlated launches underestimate their spread (in expectation) and
    estimate it less precisely (fewer degrees of freedom; Bayley & Hammersley 1946, the equivalent
    number for a variance). Infinite if they show almost none of it.
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
    """The shift with its interval stretched about its value; the caller sets the p-value."""
    if math.isinf(factor):
        return replace(shift, low=-math.inf, high=math.inf)
    return replace(
        shift,
        low=shift.value - factor * (shift.value - shift.low),
        high=shift.value + factor * (shift.high - shift.value),
    )
