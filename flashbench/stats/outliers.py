"""The noise of a series that has steps and outliers, and the series without outliers."""

import math
from statistics import median

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from flashbench.arrays import FloatArray

_OUTLIER = 3.5  # standard deviations from the median of the neighbourhood
_KEPT = 0.75  # of the differences
_KEPT_MEAN = 0.5148  # mean of the smaller 75 % of a standard normal's absolute values


def noise_of_differences(values: FloatArray, *, few: bool) -> float:
    """Standard deviation of a point, from the smaller three quarters of the differences of
    neighbours, which exclude steps and outliers. Not from their median, which is 0 on ticks.

    few: keep fewer differences, as a step must not be among them.
    """
    differences = np.sort(np.abs(np.diff(values)))
    share = _KEPT * len(differences)
    kept = differences[: int(share) if few else math.ceil(share)]
    return float(kept.mean()) / _KEPT_MEAN / math.sqrt(2)


def without_outliers(values: FloatArray, noise: float, reach: int) -> FloatArray:
    """Values further than 3.5 `noise` from the median of 2 * reach + 1 become that median."""
    width = 2 * reach + 1
    medians = np.empty_like(values)
    medians[reach : len(values) - reach] = np.sort(sliding_window_view(values, width))[:, reach]
    for place in (*range(reach), *range(len(values) - reach, len(values))):
        # Not np.median, which takes ten times as long for seven numbers.
        medians[place] = median(values[max(0, place - reach) : place + reach + 1].tolist())
    return np.where(np.abs(values - medians) > _OUTLIER * noise, medians, values)
