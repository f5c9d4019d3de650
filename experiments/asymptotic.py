"""The asymptotic confidence sequence, for comparison with the one in use.

It treats the estimated variance as known, so it is overconfident with few launches. Source:
Waudby-Smith et al. (2024), arXiv 2103.06476.
"""

import math

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.stats.shift import Shift

_PRIOR = 1.0  # scale of shift / standard deviation


def normal_mixture(differences: FloatArray, alpha: float) -> Shift:
    """Mean, with the asymptotic confidence sequence of Waudby-Smith et al. (the normal mixture of
    Howard et al. with the estimated variance in place of the true one).

    differences: (launches,), at least one, finite. Reaches its level only with many launches.
    """
    n = len(differences)
    value = float(np.mean(differences))
    deviation = float(np.std(differences, ddof=1)) if n > 1 else 0.0
    if deviation == 0:
        return Shift(value, -math.inf, math.inf, 1.0)
    scale = n * _PRIOR**2 + 1
    half = deviation * math.sqrt(scale / (n * _PRIOR) ** 2 * 2 * math.log(math.sqrt(scale) / alpha))
    log_evidence = (n * _PRIOR * value / deviation) ** 2 / (2 * scale) - math.log(scale) / 2
    return Shift(value, value - half, value + half, min(1.0, math.exp(-log_evidence)))
