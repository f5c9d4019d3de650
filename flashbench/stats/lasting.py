"""Decide which changes of a series count, for any number of looks and series.

A history gets a look after every commit, so a rule for a single look would fail sooner or later. A
change counts if the ranks of the points on either side differ more than noise makes them in any of
200 looks; until then it is provisional. Ranks, because outliers and skewed noise mislead means. The
limit was chosen by simulation (docs/lab/statistics.md).
"""

import math
from statistics import NormalDist

from flashbench.arrays import FloatArray
from flashbench.stats.order import MAX_CORRELATION, inflation
from flashbench.stats.shift import mann_whitney_p

FEWEST_POINTS = 8  # on either side
SMALLEST = 1.5  # standard deviations of a point: histories drift by less without a cause
_LIMIT, _SMALL_LIMIT = 4.0, 4.7  # standard errors; of one series
_SMALL = 3.0  # standard deviations: a change that slow waves of a machine can look like
_NEAR = 64  # points of either side, or as many as the shorter one has
# Added to the correlation of neighbours, which may be underestimated, in units of 1 / sqrt(points):
# 1.75 standard errors.
_DOUBT = 1.75
_CLEAR = 8.0  # standard deviations: no such step comes of neighbours that are alike
_LEAST_P = 1e-300


def limit(series: int, size: float) -> float:
    """Standard errors that a change of this size must reach if so many series are searched."""
    alone = _SMALL_LIMIT if size < _SMALL else _LIMIT
    return math.sqrt(alone**2 + 2 * math.log(max(series, 1)))


def lasts(
    old: FloatArray, new: FloatArray, size: float, correlation: float, points: int, series: int
) -> bool:
    """Whether a change counts.

    old, new: the points of the levels before and after it. size: of the change, in standard
    deviations of a point. correlation: lag-1, as estimated from all `points` of the series. series:
    how many are searched together.
    """
    if min(len(old), len(new)) < FEWEST_POINTS or size < SMALLEST:
        return False
    near = max(_NEAR, min(len(old), len(new)))
    p = max(mann_whitney_p(old[-near:], new[:near]), _LEAST_P)
    z = -NormalDist().inv_cdf(p / 2)
    if size < _CLEAR:
        z /= inflation(min(correlation + _DOUBT / math.sqrt(points), MAX_CORRELATION))
    return z >= limit(series, size)
