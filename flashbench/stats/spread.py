"""The variation of samples: within a launch, between launches, and from one sample to the next."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flashbench.arrays import FloatArray

_MIN_SAMPLES = 4  # samples of a launch, to estimate their correlation


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of log times, and the lag-1 autocorrelation of samples of one launch.

    within: of a sample about its launch. between: of launches, beyond the share of their correlated
    samples in a launch's mean. None: too few to estimate.
    """

    within: float | None
    between: float | None
    correlation: float | None


def spread(launches: Sequence[FloatArray]) -> Spread:
    """Variance components of log samples; descriptive only.

    launches: (samples,) each, logs, in the order measured. One-way analysis of variance (Searle,
    Casella & McCulloch, Variance Components, section 3.6), with the variance of a launch's mean
    that of AR(1) samples. The correlation is corrected for its bias of -(1 + 3 rho) / n (Kendall
    1954). Verdicts use launches' medians, but only means have additive components.
    """
    launches = [launch for launch in launches if len(launch)]
    freedom = sum(len(launch) - 1 for launch in launches)
    if freedom == 0:
        return Spread(None, None, None)
    correlation = _correlation([x for x in launches if len(x) >= _MIN_SAMPLES])
    residual = sum(float(((launch - launch.mean()) ** 2).sum()) for launch in launches)
    within = residual / freedom
    if len(launches) < 2:
        return Spread(within**0.5, None, correlation)
    rho = max(0.0, correlation or 0.0)
    inflation = (1 + rho) / (1 - rho)
    # A launch's residuals lack the variation of its mean, so they underestimate the variance by it.
    size = float(np.mean([len(launch) for launch in launches]))
    within *= (1 - 1 / size) / max(1 - inflation / size, 1 / size)
    of_a_mean = within * inflation * float(np.mean([1 / len(launch) for launch in launches]))
    means = float(np.var([launch.mean() for launch in launches], ddof=1))
    return Spread(within**0.5, max(0.0, means - of_a_mean) ** 0.5, correlation)


def _correlation(launches: Sequence[FloatArray]) -> float | None:
    centred = [launch - launch.mean() for launch in launches]
    power = sum(float((x**2).sum()) for x in centred)
    if power == 0:
        return None
    products = sum(float((x[1:] * x[:-1]).sum()) for x in centred)
    bias = float(np.mean([1 / len(x) for x in centred]))
    return float(np.clip((products / power + bias) / (1 - 3 * bias), -0.95, 0.95))
