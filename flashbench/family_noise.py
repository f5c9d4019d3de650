"""What the launches of all cases of a family say together, and no case says alone: whether
launches are correlated, and whether some fall into two modes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.pairing import Pairing
from flashbench.stats.modes import FEWEST, log_modes_in_any, log_two_modes
from flashbench.stats.order import SIGNIFICANCE, SIGNIFICANCE_ANYTIME, launch_correlation

# Two modes in some cases are suspected once they are twice as likely as in none.
_SUSPECTED = math.log(2)


@dataclass(frozen=True, slots=True)
class FamilyNoise:
    """correlation: of neighbouring launches. modes: some case's look like two modes."""

    correlation: float = 0.0
    modes: bool = False


def noise_until(last: int, pairings: Sequence[Pairing], tolerance: float) -> FamilyNoise:
    """What is seen at a look after launch number `last`, of two builds in each launch."""
    rows = by_launch(pairings, 0)[:, : last + 1]
    limit = math.log1p(tolerance)
    counts = (~np.isnan(rows)).sum(axis=1)
    logs = []
    for count in np.unique(counts[counts > 0]):
        alike = rows[counts == count]
        alike = alike[~np.isnan(alike)].reshape(len(alike), count)
        if count >= FEWEST:
            logs.append(log_two_modes(alike, limit))
    modes = bool(logs) and log_modes_in_any(np.concatenate(logs)) > _SUSPECTED
    return FamilyNoise(launch_correlation(rows, SIGNIFICANCE_ANYTIME), modes)


def noise_of_all(pairings: Sequence[Pairing]) -> FamilyNoise:
    """What is seen by one look at one file or two."""
    sides = range(len(pairings[0].sides) if pairings else 0)
    found = [launch_correlation(by_launch(pairings, side), SIGNIFICANCE) for side in sides]
    return FamilyNoise(max(found, default=0.0))


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
