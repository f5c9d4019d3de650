"""The shift that most cases of a family share: the machine's state or the build's, no case's."""

import numpy as np

from flashbench.arrays import FloatArray

MIN_CASES = 8  # fewer do not tell a quarter of them from noise
# Three quarters of the cases are shifted at least so far; a normal quartile is 0.6745 standard
# deviations off.
_QUARTILE, _OFF = 0.25, 0.6745


def shared_shift(values: FloatArray, errors: FloatArray) -> float:
    """The shift in one direction that three quarters of the cases have at least; 0 if they do not.

    values: (cases,) of each case's shift; errors: (cases,) their standard errors. It is the
    quartile on the side of "no change", of which noise has moved as much outwards as is typical of
    errors of this size: all cases with one shift have it, half of them with another about 0.
    """
    if len(values) < MIN_CASES:
        return 0.0
    noise = _OFF * float(np.median(errors))
    low, high = np.quantile(values, (_QUARTILE, 1 - _QUARTILE))
    low, high = float(low) + noise, float(high) - noise
    if min(low, high) > 0:
        return min(low, high)
    return max(low, high) if max(low, high) < 0 else 0.0
