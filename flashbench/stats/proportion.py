"""A rate of events in trials, with its interval."""

import math
from dataclasses import dataclass

_Z = 1.959964  # normal quantile of a two-sided 95 % interval


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `trials`."""

    count: int
    trials: int

    @property
    def value(self) -> float:
        """The share, NaN without trials."""
        return self.count / self.trials if self.trials else math.nan

    def interval(self) -> tuple[float, float]:
        """Two-sided 95 % interval of the probability (Wilson 1927); 0 to 1 without trials."""
        if not self.trials:
            return 0.0, 1.0
        share, n, square = self.value, self.trials, _Z * _Z
        centre = (share + square / (2 * n)) / (1 + square / n)
        half = _Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
        return max(0.0, centre - half), min(1.0, centre + half)
