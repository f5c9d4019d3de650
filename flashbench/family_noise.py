"""What the launches of all cases of a family say together, and no case says alone: whether
launches are correlated, whether some fall into two modes, what shift most cases share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.pairing import Pairing
from flashbench.stats.modes import FEWEST_FOR_MODES, log_modes_in_any, log_two_modes
from flashbench.stats.order import SIGNIFICANCE, SIGNIFICANCE_ANYTIME, launch_correlation
from flashbench.stats.sequential import spreads
from flashbench.stats.shared import MIN_CASES, shared_shift
from flashbench.stats.shift import pseudomedian

# Two modes in some cases are suspected once they are twice as likely as in none.
_SUSPECTED = math.log(2)


@dataclass(frozen=True, slots=True)
class FamilyNoise:
    """correlation: of neighbouring launches. modes: some case's look like two modes. shared: the
    log shift, within the tolerance, that most cases have, of two builds or files."""

    correlation: float = 0.0
    modes: bool = False
    shared: float = 0.0


def noise_until(last: int, pairings: Sequence[Pairing], tolerance: float) -> FamilyNoise:
    """What is seen at a look after launch number `last`, of two builds in each launch."""
    rows = by_launch(pairings, 0)[:, : last + 1]
    limit = math.log1p(tolerance)
    counts = (~np.isnan(rows)).sum(axis=1)
    values, errors, logs = [], [], []
    for count in np.unique(counts[counts > 0]):
        alike = rows[counts == count]
        alike = alike[~np.isnan(alike)].reshape(len(alike), count)
        if count >= FEWEST_FOR_MODES:
            logs.append(log_two_modes(alike, limit))
        if count > 1 and len(rows) >= MIN_CASES:
            values.append(pseudomedian(alike))
            errors.append(spreads(alike) / math.sqrt(count))
    modes = bool(logs) and log_modes_in_any(np.concatenate(logs)) > _SUSPECTED
    shared = shared_shift(np.concatenate(values), np.concatenate(errors)) if values else 0.0
    return FamilyNoise(
        launch_correlation(rows, SIGNIFICANCE_ANYTIME), modes, _within(shared, limit)
    )


def noise_of_all(pairings: Sequence[Pairing], values: FloatArray, tolerance: float) -> FamilyNoise:
    """What is seen by one look at one file or two. values: (pairings,), the shift of each."""
    sides = range(len(pairings[0].sides) if pairings else 0)
    found = [launch_correlation(by_launch(pairings, side), SIGNIFICANCE) for side in sides]
    shared = 0.0
    if len(sides) > 1:
        errors = [math.sqrt(sum(map(variance_of_mean, pairing.sides))) for pairing in pairings]
        shared = shared_shift(values, np.array(errors))
    return FamilyNoise(max(found, default=0.0), shared=_within(shared, math.log1p(tolerance)))


def by_launch(pairings: Sequence[Pairing], side: int) -> FloatArray:
    """(pairings, launches): one file's number of every launch; NaN where a launch has none."""
    last = max(int(pairing.launch_numbers(side)[-1]) for pairing in pairings)
    rows = np.full((len(pairings), last + 1), np.nan)
    for row, pairing in zip(rows, pairings, strict=True):
        row[pairing.launch_numbers(side)] = pairing.sides[side]
    return rows


def variance_of_mean(side: FloatArray) -> float:
    """The squared standard error of the mean of (launches,); 0 with a single launch."""
    return float(np.var(side, ddof=1)) / len(side) if len(side) > 1 else 0.0


def _within(shared: float, limit: float) -> float:
    """A shift beyond the tolerance is a change of all cases, not to be left out of account."""
    return shared if abs(shared) <= limit else 0.0
