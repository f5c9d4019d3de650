"""Whether launches resemble their neighbours: then they are fewer than they look."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flashbench.stats.shift import Shift

FloatArray = NDArray[np.float64]
MIN_LAUNCHES = 8
MAX_CORRELATION = 0.95
_SHUFFLES = 499
_ALPHA = 0.005  # of taking independent launches for correlated ones


def launch_correlation(values: FloatArray) -> float:
    """Lag-1 autocorrelation of launches, common to all cases; 0 unless it is significant.

    values: (cases, launches) in the order they were measured, no NaN. Its significance is that of
    a permutation test that shuffles all cases alike, so cases that depend on each other do not make
    it look larger. The estimate is corrected for its bias of -(1 + 3 rho) / n (Kendall 1954).
    """
    launches = values.shape[1]
    centred = values - values.mean(axis=1, keepdims=True)
    power = (centred**2).sum(axis=1)
    centred = centred[power > 0] / np.sqrt(power[power > 0])[:, None]
    if launches < MIN_LAUNCHES or not len(centred):
        return 0.0
    observed = _lag_one(centred)
    rng = np.random.default_rng(0)  # a verdict must not depend on when it is asked for
    shuffled = (_lag_one(centred[:, rng.permutation(launches)]) for _ in range(_SHUFFLES))
    larger = sum(value >= observed for value in shuffled)
    if (1 + larger) / (1 + _SHUFFLES) > _ALPHA:
        return 0.0
    return float(np.clip((observed + 1 / launches) / (1 - 3 / launches), 0, MAX_CORRELATION))


def inflation(correlation: float) -> float:
    """How much wider the interval of a mean of AR(1) launches is than that of independent ones."""
    return math.sqrt((1 + correlation) / (1 - correlation))


def widened(shift: Shift, correlation: float) -> Shift:
    """The shift with its interval stretched about its value; its p-value is the caller's to set."""
    factor = inflation(correlation)
    return replace(
        shift,
        low=shift.value - factor * (shift.value - shift.low),
        high=shift.value + factor * (shift.high - shift.value),
    )


def _lag_one(centred: FloatArray) -> float:
    return float(np.einsum("ij,ij->", centred[:, 1:], centred[:, :-1])) / len(centred)
