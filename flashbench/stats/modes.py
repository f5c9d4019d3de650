"""Detect two modes across launches: each launch is in one or the other, which no average shows."""

import math
from dataclasses import dataclass

import numpy as np

from flashbench.arrays import FloatArray

# A mode has at least this many launches and this share of them; fewer are outliers.
MIN_LAUNCHES = 3
MIN_SHARE = 0.15
# Distance of the modes' centres in units of the spread inside them. Ashman's D > 2 usually
# indicates two modes, but here the split is the best of all, and single-mode noise reaches D = 6
# with 12 launches: experiments/modes.py has the error rates.
MIN_SEPARATION = 8.0


@dataclass(frozen=True, slots=True)
class Modes:
    """Centres of the two modes (low < high), and the share of launches in the high one."""

    low: float
    high: float
    share_high: float


def two_modes(values: FloatArray, smallest_gap: float) -> Modes | None:
    """The two modes of one number per launch; None if one mode explains them.

    The split minimizes the sum of squares inside the two groups (k-means with k = 2, exact in one
    dimension). smallest_gap: modes closer than this do not matter (ticks of a timer are modes too).
    Source of the separation D: Ashman, Bird & Zepf (1994).
    """
    x = np.sort(values)
    n = len(x)
    least = max(MIN_LAUNCHES, math.ceil(MIN_SHARE * n))
    if n < 2 * least:
        return None
    # The split is at one of these gaps; usually all are too small, and there is none.
    inner = x[least - 1 : n - least + 1]
    if (inner[1:] - inner[:-1]).max() <= smallest_gap:
        return None
    x0 = x[0]
    sums, squares = np.cumsum(x - x0), np.cumsum((x - x0) ** 2)
    left = np.arange(least, n - least + 1)
    right = n - left
    mean_left = sums[left - 1] / left
    mean_right = (sums[-1] - sums[left - 1]) / right
    inside = squares[-1] - left * mean_left**2 - right * mean_right**2
    best = int(np.argmin(inside))
    gap = x[left[best]] - x[left[best] - 1]
    if gap <= smallest_gap:
        return None
    distance = mean_right[best] - mean_left[best]
    variance = max(float(inside[best]) / (n - 2), 0.0)
    if distance <= MIN_SEPARATION * math.sqrt(variance):
        return None
    return Modes(float(mean_left[best] + x0), float(mean_right[best] + x0), float(right[best]) / n)
