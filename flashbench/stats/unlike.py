"""The unpaired shift of two sides whose spreads may differ.

Ranks of B among A scatter more than the Mann-Whitney interval allows for if one side's spread is
larger, most if it also has fewer launches. Then the interval also contains that of Yuen's test:
Welch's with trimmed means, which spikes hardly move (Yuen, Biometrika 61 (1974), 165-170).
"""

import math
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.stats.quantile import t_probability, t_quantile
from flashbench.stats.shift import Shift, unpaired_shift

# Ratios beyond which the spreads, or the numbers of launches, are not alike. Chosen by
# experiments/unlike_spreads.py: the trimmed interval is the wider one on most noise, and sees fewer
# changes.
_SPREADS = 1.75
_LAUNCHES = 1.25
_TRIMMED = 0.2  # on either end


class _Trimmed(NamedTuple):
    mean: float
    square: float  # of its standard error
    freedom: int


def unlike_shift(old: FloatArray, new: FloatArray, alpha: float) -> Shift:
    """`unpaired_shift`, or where the spreads differ the hull of its interval and of Yuen's.

    old: (launches_a,), new: (launches_b,), at least one each, finite. p is the larger of both.
    """
    shift = unpaired_shift(old, new, alpha)
    if not shift.bounded or _alike(old, new):
        return shift
    a, b = _trimmed(old), _trimmed(new)
    square = a.square + b.square
    if square == 0:
        return shift
    error, difference = math.sqrt(square), b.mean - a.mean
    share = a.square / square
    freedom = math.floor(1 / (share**2 / a.freedom + (1 - share) ** 2 / b.freedom) + 1e-9)
    half = t_quantile(freedom, 1 - alpha) * error
    return replace(
        shift,
        low=min(shift.low, difference - half),
        high=max(shift.high, difference + half),
        p=max(shift.p, 1 - t_probability(abs(difference) / error, freedom)),
    )


def _alike(old: FloatArray, new: FloatArray) -> bool:
    fewer, more = sorted((len(old), len(new)))
    less, greater = sorted(_deviation(side.tolist()) for side in (old, new))
    return more <= _LAUNCHES * fewer and greater <= _SPREADS * less


def _deviation(launches: list[float]) -> float:
    """The median absolute deviation, ten times faster than numpy's for a few launches."""
    middle = median(launches)
    return median([abs(launch - middle) for launch in launches])


def _trimmed(launches: FloatArray) -> _Trimmed:
    """The trimmed mean, with the standard error from the winsorised variance. launches: at least
    two."""
    count = len(launches)
    off = int(_TRIMMED * count)
    kept = np.sort(launches)[off : count - off]
    winsorised = np.concatenate((np.repeat(kept[[0, -1]], off), kept))
    squares = float(((winsorised - winsorised.mean()) ** 2).sum())
    return _Trimmed(float(kept.mean()), squares / len(kept) / (len(kept) - 1), len(kept) - 1)
