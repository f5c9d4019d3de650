"""Serial correlation of launches: correlated launches carry less information than independent
ones."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flashbench.stats.quantile import t_quantile
from flashbench.stats.shift import Shift

FloatArray = NDArray[np.float64]
MAX_CORRELATION = 0.95
_SHUFFLES = 499
_SIGNIFICANCE = 0.005  # probability of calling independent launches correlated
# With a look after each launch a false alarm is final, so correlation is allowed for before it is
# proved: that many standard errors more than estimated. More costs launches that are independent:
# docs/lab/statistics.md.
_DOUBT = 0.5
_LITTLE = 0.1  # not worth allowing for; 64 independent cases rarely reach it


def launch_correlation(values: FloatArray) -> float:
    """Lag-1 autocorrelation of launches, common to all cases; 0 unless significant.

    values: (cases, launches) in the order measured; NaN where a case was not measured. Significance
    is by a permutation test that shuffles all cases alike, so dependence between cases does not
    inflate it.
    """
    rows, bias = _standardised(values, least=6)
    if not len(rows):
        return 0.0
    # products[i, j]: launch i times launch j, over all cases; lag 1 is next to the diagonal.
    products = rows.T @ rows / len(rows)
    observed = float(np.trace(products, offset=1))
    orders = _shuffles(values.shape[1])
    shuffled = products[orders[:, 1:], orders[:, :-1]].sum(axis=1)
    if (1 + np.count_nonzero(shuffled >= observed)) / (1 + _SHUFFLES) > _SIGNIFICANCE:
        return 0.0
    return _clipped(_unbiased(observed, bias))


def suspected_correlation(values: FloatArray) -> float:
    """What to allow for with a look after each launch: half a standard error more than estimated, 0
    if that is little. values as for `launch_correlation`.

    Cases that share their launches' effects count as fewer: as many independent ones as would
    have their squared correlations with each other, beyond those of chance.
    """
    rows, bias = _standardised(values, least=4)
    if not len(rows):
        return 0.0
    observed = float((rows[:, 1:] * rows[:, :-1]).sum()) / len(rows)
    chance = bias / (1 - bias)
    shared = (float(((rows @ rows.T) ** 2).mean()) - chance) / (1 - chance)
    error = math.sqrt(bias * max(shared, 1 / len(rows)))
    suspected = _clipped(_unbiased(observed, bias) + _DOUBT * error)
    return suspected if suspected >= _LITTLE else 0.0


def _standardised(values: FloatArray, least: int) -> tuple[FloatArray, float]:
    """The cases of at least `least` launches that vary, each centred and with sum of squares 1, 0
    where it was not measured; and the mean of 1 / launches."""
    present = ~np.isnan(values)
    counts = present.sum(axis=1)
    values, present = values[counts >= least], present[counts >= least]
    counts = counts[counts >= least]
    values = np.where(present, values, 0.0)
    centred = np.where(present, values - (values.sum(axis=1) / counts)[:, None], 0.0)
    power = (centred**2).sum(axis=1)
    varies = power > 0
    if not varies.any():
        return centred[varies], 0.0
    rows: FloatArray = centred[varies] / np.sqrt(power[varies])[:, None]
    return rows, float(np.mean(1 / counts[varies]))


def _unbiased(observed: float, bias: float) -> float:
    """Corrected for the bias of -(1 + 3 rho) / n (Kendall 1954)."""
    return (observed + bias) / (1 - 3 * bias)


def _clipped(correlation: float) -> float:
    return float(np.clip(correlation, 0, MAX_CORRELATION))


@lru_cache(maxsize=64)
def _shuffles(launches: int) -> NDArray[np.intp]:
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
