"""Two modes across launches: each launch is in one or the other, which no average shows.

`two_modes` finds them in one case, surely and late; `log_modes_in_any` weighs the evidence of all
cases of a family that any has them, from few launches on.
"""

import math
from dataclasses import dataclass

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.stats.evidence import Prior, log_t_mixture

# A mode has at least this many launches and this share of them; fewer are outliers.
MIN_LAUNCHES = 3
MIN_SHARE = 0.15
# Distance of the modes' centres in units of the spread inside them. Ashman's D > 2 usually
# indicates two modes, but here the split is the best of all, and single-mode noise reaches D = 6
# with 12 launches: experiments/modes.py has the error rates.
MIN_SEPARATION = 8.0
# Fewest launches of a mode when all cases are asked together.
_LEAST = 2
FEWEST_FOR_MODES = 2 * _LEAST  # launches that can show two modes
# The prior of their distance in units of the spread inside them: most likely 4 and 8, as sqrt(2)
# times these scales.
_DISTANCES: Prior = ((0.5, 3.0), (0.5, 6.0))
_ROUNDING = 1e-12  # of the sum of squares: smaller residuals are rounding
_GRID = 4.0  # factor between the shares of cases with modes that are tried


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


def log_two_modes(rows: FloatArray, smallest_gap: float) -> FloatArray:
    """log likelihood ratio of each case: two modes, equally likely in each launch, against one.

    rows: (cases, launches), at least FEWEST_FOR_MODES launches. Returns (cases,). Both are normal,
    with unknown centre and spread, so it does not depend on location and scale, and its mean under
    one mode is at most 1. The sum is over the splits of the ordered launches only, for the others
    are unlikely, and over those whose centres are more than smallest_gap apart. Each term is the
    Bayes factor of a two-sample t-test (Gonen, Johnson, Lu & Westfall 2005) with the prior
    `_DISTANCES`.
    """
    x = np.sort(rows, axis=1)
    n = x.shape[1]
    x = x - x[:, :1]
    sums, squares = np.cumsum(x, axis=1), np.cumsum(x**2, axis=1)
    left = np.arange(_LEAST, n - _LEAST + 1)
    right = n - left
    mean_left = sums[:, left - 1] / left
    mean_right = (sums[:, -1:] - sums[:, left - 1]) / right
    inside = squares[:, -1:] - left * mean_left**2 - right * mean_right**2
    inside[inside <= _ROUNDING * squares[:, -1:]] = 0.0
    distance, total = mean_right - mean_left, left * right / n
    far = np.where(distance > 0, np.inf, 0.0)  # without any spread
    t = np.divide(distance * np.sqrt(total), np.sqrt(inside), out=far, where=inside > 0)
    ratios = log_t_mixture(t, n - 1, total, _DISTANCES)
    ratios = np.where(distance > smallest_gap, ratios, -np.inf)
    chance: float = (n - 1) * math.log(2)  # of a split, either way round
    summed: FloatArray = np.logaddexp.reduce(ratios, axis=1) - chance
    return summed


def log_modes_in_any(logs: FloatArray) -> float:
    """log evidence that some cases have two modes. logs: (cases,), of `log_two_modes`.

    Averaged over how many do: all, a quarter of them, a sixteenth ... one. If no case has, and they
    are independent, its mean is at most 1.
    """
    cases = len(logs)
    shares = [1.0]
    while shares[-1] * cases > 1:
        shares.append(max(shares[-1] / _GRID, 1 / cases))
    terms = [np.logaddexp(np.log1p(-share), math.log(share) + logs).sum() for share in shares[1:]]
    return float(np.logaddexp.reduce([logs.sum(), *terms]) - math.log(len(shares)))
