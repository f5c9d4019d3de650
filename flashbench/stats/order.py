"""Whether launches resemble their neighbours: then they are fewer than they look."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
_SHUFFLES = 499


def neighbour_correlation(values: FloatArray) -> tuple[float, float]:
    """Mean lag-1 autocorrelation over launches, and its one-sided permutation p-value.

    values: (cases, launches) in the order they were measured, at least 3 launches, no NaN. All
    cases are shuffled alike, so cases that depend on each other do not make it look significant.
    """
    centred = values - values.mean(axis=1, keepdims=True)
    power = (centred**2).sum(axis=1)
    centred = centred[power > 0] / np.sqrt(power[power > 0])[:, None]
    if not len(centred):
        return 0.0, 1.0
    observed = _lag_one(centred)
    rng = np.random.default_rng(0)  # a verdict must not depend on when it is asked for
    launches = values.shape[1]
    larger = sum(
        _lag_one(centred[:, rng.permutation(launches)]) >= observed for _ in range(_SHUFFLES)
    )
    return observed, (1 + larger) / (1 + _SHUFFLES)


def _lag_one(centred: FloatArray) -> float:
    return float(np.einsum("ij,ij->", centred[:, 1:], centred[:, :-1])) / len(centred)
